//! `Send`, `Sync` and `Unpin` of every public type.

use std::cell::Cell;
use std::marker::PhantomPinned;
use std::rc::Rc;

use waterwheel_executor::engine::{
    ActivityGuard, LoopCore, LoopSeed, LoopWork, PassLimit, TurnOutcome,
};
use waterwheel_executor::{
    Activity, BackOff, BuildError, ByKey, CallSite, CallSiteInfo, Canceller, Choice, Chooser,
    Clock, ClockAlarm, CommandSender, Error, ErrorKind, EventExecutor, EventExecutorBuilder,
    EventExecutorGroup, EventExecutorGroupBuilder, ExecutorAttachment, ExecutorId, ExecutorState,
    ExecutorStats, Fault, GlobalExecutor, HookId, ImmediateExecutor, InvalidProgress,
    InvalidShutdown, InvalidWatchdog, LabelledExecutor, LeastLoaded, LogReporter, LoopBody,
    LoopLocal, ManualExecutor, ManualLoop, MissedTicks, Nanos, NoExtension, OnFull, Origin, Park,
    Progress, ProgressiveFuture, ProgressivePromise, Promise, PromiseFuture, QueueFull, Reject,
    RejectReason, Rejected, RejectionPolicy, Report, Reporter, RoundRobin, SharedFuture, SlowWork,
    ThreadFactory, ThreadPool, ThreadProperties, ThreadSupplier, TimerKey, TokenPark, Unpark,
    UserCode, VirtualClock, WaitError, Watchdog, WatchdogBuilder, WouldDeadlock,
};

#[path = "../../../support/auto_traits.rs"]
mod auto_traits;

use auto_traits::{AutoTraits, NotImplemented, is};

#[test]
fn public_types_cross_threads_as_listed() {
    let listed = [
        // Executors: handles may cross threads, the loop's own half may not.
        is!(EventExecutor: true true true),
        is!(EventExecutor<Cell<u8>>: true true true),
        is!(EventExecutorBuilder: true true true),
        is!(EventExecutorGroup: true true true),
        is!(EventExecutorGroup<Cell<u8>>: true true true),
        is!(EventExecutorGroupBuilder: true true true),
        is!(GlobalExecutor: true true true),
        is!(ImmediateExecutor: true true true),
        is!(LabelledExecutor: true true true),
        is!(LabelledExecutor<Cell<u8>>: true true true),
        is!(ManualExecutor: false false true),
        is!(ManualLoop<NoExtension>: false false true),
        is!(CommandSender<NoExtension>: true true true),
        is!(LoopCore<NoExtension>: false false true),
        is!(ActivityGuard<'static>: true true true),
        is!(LoopBody: true false true),
        is!(LoopSeed<NoExtension>: true false true),
        is!(dyn LoopWork<NoExtension>: false false false),
        // Promises: the value moves, so it must be `Send`; it need not be `Sync` or `Unpin`.
        is!(Promise<u8>: true true true),
        is!(Promise<Cell<u8>>: true true true),
        is!(Promise<PhantomPinned>: true true true),
        is!(PromiseFuture<u8>: true true true),
        is!(PromiseFuture<Cell<u8>>: true false true),
        is!(PromiseFuture<PhantomPinned>: true true true),
        is!(SharedFuture<u8>: true true true),
        is!(SharedFuture<Cell<u8>>: true true true),
        is!(SharedFuture<PhantomPinned>: true true true),
        is!(ProgressivePromise<u8>: true true true),
        is!(ProgressivePromise<Cell<u8>>: true true true),
        is!(ProgressiveFuture<u8>: true true true),
        is!(ProgressiveFuture<Cell<u8>>: true false true),
        is!(Canceller: true true true),
        // Loop-local values stay on their loop; the key that finds them is shared.
        is!(LoopLocal<Rc<u8>>: true true true),
        // A rejected task has the auto traits of the task.
        is!(Rejected<u8>: true true true),
        is!(Rejected<Cell<u8>>: true false true),
        is!(Rejected<Rc<u8>>: false false true),
        is!(Rejected<PhantomPinned>: true true false),
        // Traits and types that users implement or plug in.
        is!(dyn ExecutorAttachment: true true false),
        is!(dyn Chooser: true true false),
        is!(dyn Park: false false false),
        is!(dyn Unpark: true true false),
        is!(dyn RejectionPolicy: true true false),
        is!(dyn Reporter: true true false),
        is!(dyn ThreadSupplier: true true false),
        is!(BackOff: true true true),
        is!(ByKey: true true true),
        is!(LeastLoaded: true true true),
        is!(LogReporter: true true true),
        is!(Reject: true true true),
        is!(RoundRobin: true true true),
        is!(ThreadFactory: true true true),
        is!(ThreadPool: true true true),
        is!(TokenPark: true true true),
        is!(Choice<'static>: false false true),
        is!(OnFull: true true true),
        is!(Watchdog: true true true),
        is!(WatchdogBuilder: true true true),
        is!(CallSite: true true true),
        is!(QueueFull: true true true),
        // Plain values.
        is!(Activity: true true true),
        is!(ClockAlarm: true true true),
        is!(BuildError: true true true),
        is!(Clock: true true true),
        is!(Error: true true true),
        is!(ErrorKind: true true true),
        is!(ExecutorId: true true true),
        is!(ExecutorStats: true true true),
        is!(Fault: true true true),
        is!(HookId: true true true),
        is!(InvalidProgress: true true true),
        is!(InvalidShutdown: true true true),
        is!(InvalidWatchdog: true true true),
        is!(MissedTicks: true true true),
        is!(Nanos: true true true),
        is!(NoExtension: true true true),
        is!(Origin: true true true),
        is!(PassLimit: true true true),
        is!(CallSiteInfo: true true true),
        is!(Progress: true true true),
        is!(RejectReason: true true true),
        is!(Report<'static>: true true true),
        is!(SlowWork: true true true),
        is!(ExecutorState: true true true),
        is!(ThreadProperties: true true true),
        is!(TimerKey: true true true),
        is!(TurnOutcome: true true true),
        is!(UserCode: true true true),
        is!(VirtualClock: true true true),
        is!(WaitError: true true true),
        is!(WouldDeadlock: true true true),
    ];
    let engine = ["ActivityGuard", "LoopCore", "LoopSeed", "PassLimit", "TurnOutcome", "LoopWork"];
    auto_traits::check(&listed, &[include_str!("../src/lib.rs")], &engine);
}
