//! The auto traits `Send`, `Sync` and `Unpin` of every public type.

use std::rc::Rc;

use waterwheel_channel::driver::{
    Detach, Driver, DriverPanicked, Interest, Io, IoEvent, MulticastMembership, NetworkInterface,
    OpenDriver, OutQueue, ReadPlan, Readiness, Role, SocketOption, Submit, TaskOnly, WaitSummary,
};
use waterwheel_channel::local::{Connection, Local, LocalError, LocalListener};
use waterwheel_channel::transport::{
    ConnectProgress, Outbound, Transport, TransportContext, TransportEvent, TransportWaker,
};
use waterwheel_channel::{
    Address, AddressSpec, AncillaryMessage, At, AttrKey, Bootstrap, Channel, ChannelError,
    ChannelFuture, ChannelId, ChannelOptions, Completion, ConnectTarget, Credentials, Ctx,
    Cumulation, Datagram, Datagrams, Edit, Events, HalfClosed, Handler, HandlerResult,
    InvalidOption, Listener, LocalCtx, Message, Msg, Name, NewChannel, PauseReads, Pipeline,
    PipelineError, Quoted, ReceiveSizes, Resolver, ServerBootstrap, Signature, SlotId, Stream,
    TimerId, TooMuchUnread, TypeMismatch, TypeTag, Types, UnixAddress, WaterMarks,
};
use waterwheel_channel::{
    ChannelGroup, ChannelGroupFuture, ConnectionLimit, GroupError, GroupOutcome, Loops, Selected,
    Servers,
};
use waterwheel_channel::{
    Decode, Decoder, DecoderStuck, DrainOptions, Drained, Draining, Elapsed, Emit, Encode,
    EncodeBuffer, Encoder, EventLoop, EventLoopGroup, EventLoopGroupBuilder, FileRegion, Foreign,
    ForeignContext, ForeignHandle, ForeignHandler, Hold, In, Inbound, InboundHandler, Interval,
    LocalJoin, LocalLoop, LoopBuildError, LoopCommand, LoopDraining, LoopMetrics, LoopShutDown,
    ManualEventLoop, Offloaded, OnReady, Out, OutboundHandler, PeerFinished, Registrant,
    RemoteCompletion, RemoteCtx, RemoteHandler, SelectMode, SelectStrategy, Slab, Sleep,
    StrategyInput, TailTask, Then, Timeout, Token, TokenMap, TooManyChannels, WaitStrategy,
};

#[path = "../../../support/auto_traits.rs"]
mod auto_traits;

use auto_traits::{AutoTraits, NotImplemented, is};

#[test]
fn public_types_cross_threads_as_listed() {
    let listed = [
        // Handles move between threads; types that live on the loop stay there.
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
        // A channel is used from any thread; its pipeline and handlers stay on the loop.
        is!(Channel: true true true),
        is!(Bootstrap: true true true),
        is!(ChannelGroup: true true true),
        is!(ConnectionLimit: true true true),
        is!(Servers: true true true),
        is!(Loops: true true true),
        is!(ChannelGroupFuture: true true true),
        is!(GroupOutcome: true true true),
        is!(GroupError: true true true),
        is!(Selected<'_, u8>: true true true),
        is!(Selected<'_, Rc<u8>>: false false true),
        is!(ServerBootstrap: true true true),
        is!(AddressSpec: true true true),
        is!(dyn Resolver: true true false),
        is!(Local: true true true),
        is!(FileRegion: true true true),
        is!(Datagram: true true true),
        is!(Datagrams: true false true),
        is!(AncillaryMessage: true false true),
        is!(Credentials: true true true),
        is!(UnixAddress: true true true),
        is!(NetworkInterface: true true true),
        is!(MulticastMembership: true true true),
        is!(HalfClosed: true true true),
        is!(SocketOption: true true true),
        is!(ChannelFuture: true true true),
        is!(Hold: true true true),
        is!(dyn Handler: false false false),
        is!(Pipeline<'_>: false false true),
        is!(Ctx<'_>: false false true),
        is!(LocalCtx: false false true),
        is!(Edit<'_>: false false true),
        is!(Completion: false false true),
        is!(TransportContext: false false true),
        is!(TransportWaker: true true true),
        // Types that move to their loop, and messages from one loop to another.
        is!(NewChannel: true false true),
        is!(Stream: true false true),
        is!(Listener: true false true),
        is!(dyn Transport: true false false),
        is!(TransportEvent: true false true),
        is!(Msg: true false true),
        is!(dyn Message: true false false),
        is!(Outbound: false false true),
        // A file descriptor moves to its loop.
        is!(Foreign<u8>: true false true),
        // Local connections move to their loops, with the messages queued in them.
        is!(Connection: true false true),
        is!(LocalListener: true false true),
        is!(LocalError: true true true),
        // Futures that may be part of a future that moves between threads.
        is!(Sleep: true true true),
        is!(Interval: true true true),
        is!(Timeout<u8>: true true true),
        is!(Timeout<Rc<u8>>: false false true),
        // Typed handlers and codecs are `Send` if their contents are; they need not be.
        is!(In<u8>: true true true),
        is!(In<Rc<u8>>: false false true),
        is!(Out<u8>: true true true),
        is!(Decode<u8>: true true true),
        is!(Decode<Rc<u8>>: false false true),
        is!(Encode<u8>: true true true),
        is!(EncodeBuffer: true true true),
        is!(Inbound<u8>: true true true),
        is!(Then<u8, u8>: true true true),
        is!(dyn InboundHandler<In = u8>: false false false),
        is!(dyn OutboundHandler<In = u8>: false false false),
        is!(dyn Decoder<Out = u8>: false false false),
        is!(dyn Encoder<In = u8>: false false false),
        is!(dyn Emit<u8>: false false false),
        // Not object-safe: no value to check.
        ("Stage", (false, false, false), (false, false, false)),
        is!(DecoderStuck: true true true),
        is!(TooMuchUnread: true true true),
        is!(Cumulation: true true true),
        is!(Quoted: true true true),
        // Handlers on another executor and their contexts; their slot is on the loop.
        is!(dyn RemoteHandler: true false false),
        is!(RemoteCtx: true true true),
        is!(RemoteCompletion: true true true),
        is!(Offloaded<Rc<u8>>: true false true),
        // Traits of drivers and strategies.
        is!(dyn Driver: true false false),
        is!(dyn OpenDriver: true true false),
        is!(dyn SelectStrategy: true true false),
        is!(TaskOnly: true true true),
        is!(WaitStrategy: true true true),
        is!(Io: true false true),
        is!(IoEvent: true false true),
        is!(OutQueue: true true true),
        is!(DriverPanicked: true true true),
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
        is!(DrainOptions: true true true),
        is!(Drained: true true true),
        is!(Draining: true true true),
        is!(PeerFinished: true true true),
        is!(Elapsed: true true true),
        is!(Events: true true true),
        is!(HandlerResult: true true true),
        is!(Interest: true true true),
        is!(InvalidOption: true true true),
        is!(LoopBuildError: true true true),
        is!(TooManyChannels: true true true),
        is!(LoopDraining: true true true),
        is!(LoopMetrics: true true true),
        is!(LoopShutDown: true true true),
        is!(Name: true true true),
        is!(StrategyInput: true true true),
        is!(PauseReads: true true true),
        is!(PipelineError: true true true),
        is!(ConnectProgress: true true true),
        is!(ReadPlan: true true true),
        is!(Readiness: true true true),
        is!(ReceiveSizes: true true true),
        is!(Role: true true true),
        is!(Signature: true true true),
        is!(SlotId: true true true),
        is!(SelectMode: true true true),
        is!(Submit: true true true),
        is!(ConnectTarget: true true true),
        is!(TimerId: true true true),
        is!(Token: true true true),
        is!(TypeMismatch: true true true),
        is!(TypeTag: true true true),
        is!(Types: true true true),
        is!(WaitSummary: true true true),
        is!(WaterMarks: true true true),
    ];
    let sources = [
        include_str!("../src/lib.rs"),
        include_str!("../src/driver/mod.rs"),
        include_str!("../src/local/mod.rs"),
    ];
    let defined_there = [
        "Detach",
        "Driver",
        "OpenDriver",
        "Submit",
        "WaitSummary",
        // Types of the module of transports.
        "ConnectProgress",
        "Outbound",
        "Transport",
        "TransportContext",
        "TransportEvent",
        "TransportWaker",
    ];
    auto_traits::check(&listed, &sources, &defined_there);
}
