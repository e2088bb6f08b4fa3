//! Who may cross threads: every public type, listed.

use std::rc::Rc;

use waterwheel_channel::driver::{
    Detach, Driver, Interest, Io, IoEvent, OpenDriver, OutQueue, ReadPlan, Readiness, Role, Submit,
    TaskOnly, Waited,
};
use waterwheel_channel::transport::{
    Outbound, Progress, Transport, TransportEvent, TransportWaker, Upcalls,
};
use waterwheel_channel::{
    Address, At, AttrKey, Channel, ChannelError, ChannelFuture, ChannelId, ChannelOptions,
    Completion, Ctx, Edit, Events, Handler, HandlerResult, InvalidOption, LocalCtx, Message, Msg,
    Name, NewChannel, Pipeline, PipelineError, ReceiveSizes, Signature, SlotId, Stream, Target,
    TimerId, TypeMismatch, TypeTag, Types, WaterMarks,
};
use waterwheel_channel::{
    Elapsed, EventLoop, EventLoopGroup, EventLoopGroupBuilder, Foreign, ForeignContext,
    ForeignHandle, ForeignHandler, Interval, LocalJoin, LocalLoop, LoopBuildError, LoopCommand,
    LoopMetrics, LoopShutDown, ManualEventLoop, OnReady, Outlook, Registrant, SelectStrategy, Slab,
    Sleep, Strategy, TailTask, Timeout, Token, TokenMap, WaitStrategy,
};

#[path = "../../../support/auto_traits.rs"]
mod auto_traits;

use auto_traits::{Ask, Otherwise, is};

#[test]
fn public_types_cross_threads_as_listed() {
    let listed = [
        // Handles go anywhere; what lives on the loop stays there.
        is!(EventLoop: true true true),
        is!(EventLoopGroup: true true true),
        is!(EventLoopGroupBuilder: true true true),
        is!(ForeignHandle: true true true),
        is!(TailTask: true true true),
        is!(LoopCommand: true false true),
        is!(LocalLoop: false false true),
        is!(LocalJoin<u8>: false false true),
        is!(ManualEventLoop: false false true),
        is!(ForeignContext: false false true),
        is!(dyn Registrant: false false false),
        is!(dyn ForeignHandler<u8>: false false false),
        is!(OnReady<u8>: true true true),
        is!(OnReady<Rc<u8>>: false false true),
        // A channel is used from anywhere; its pipeline, and those in it, stay on the loop.
        is!(Channel: true true true),
        is!(ChannelFuture: true true true),
        is!(dyn Handler: false false false),
        is!(Pipeline<'_>: false false true),
        is!(Ctx<'_>: false false true),
        is!(LocalCtx: false false true),
        is!(Edit<'_>: false false true),
        is!(Completion: false false true),
        is!(Upcalls: false false true),
        is!(TransportWaker: true true true),
        // What moves to its loop, and messages from one to another.
        is!(NewChannel: true false true),
        is!(Stream: true false true),
        is!(dyn Transport: true false false),
        is!(TransportEvent: true false true),
        is!(Msg: true false true),
        is!(dyn Message: true false false),
        is!(Outbound: false false true),
        // A descriptor moves to its loop.
        is!(Foreign<u8>: true false true),
        // Futures that may be part of one that moves.
        is!(Sleep: true true true),
        is!(Interval: true true true),
        is!(Timeout<u8>: true true true),
        is!(Timeout<Rc<u8>>: false false true),
        // Seams for drivers and strategies.
        is!(dyn Driver: true false false),
        is!(dyn OpenDriver: true true false),
        is!(dyn SelectStrategy: true true false),
        is!(TaskOnly: true true true),
        is!(WaitStrategy: true true true),
        is!(Io: true false true),
        is!(IoEvent: true false true),
        is!(OutQueue: true true true),
        is!(Slab<u8>: true true true),
        is!(Slab<Rc<u8>>: false false true),
        is!(TokenMap<u8>: true true true),
        // Plain values.
        is!(Address: true true true),
        is!(At<'_>: true true true),
        is!(AttrKey<Rc<u8>>: true true true),
        is!(ChannelError: true true true),
        is!(ChannelId: true true true),
        is!(ChannelOptions: true true true),
        is!(Detach: true true true),
        is!(Elapsed: true true true),
        is!(Events: true true true),
        is!(HandlerResult: true true true),
        is!(Interest: true true true),
        is!(InvalidOption: true true true),
        is!(LoopBuildError: true true true),
        is!(LoopMetrics: true true true),
        is!(LoopShutDown: true true true),
        is!(Name: true true true),
        is!(Outlook: true true true),
        is!(PipelineError: true true true),
        is!(Progress: true true true),
        is!(ReadPlan: true true true),
        is!(Readiness: true true true),
        is!(ReceiveSizes: true true true),
        is!(Role: true true true),
        is!(Signature: true true true),
        is!(SlotId: true true true),
        is!(Strategy: true true true),
        is!(Submit: true true true),
        is!(Target: true true true),
        is!(TimerId: true true true),
        is!(Token: true true true),
        is!(TypeMismatch: true true true),
        is!(TypeTag: true true true),
        is!(Types: true true true),
        is!(Waited: true true true),
        is!(WaterMarks: true true true),
    ];
    let sources = [include_str!("../src/lib.rs"), include_str!("../src/driver/mod.rs")];
    let defined_there = [
        "Detach",
        "Driver",
        "OpenDriver",
        "Submit",
        "Waited",
        // In the module of transports.
        "Outbound",
        "Progress",
        "Transport",
        "TransportEvent",
        "TransportWaker",
        "Upcalls",
    ];
    auto_traits::check(&listed, &sources, &defined_there);
}
