//! Random actions on channels and pipelines, through a handler's context or a channel's handle.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use waterwheel_channel::{Ctx, Edit, HandlerResult, Offloaded, Pipeline, PipelineError, local};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::connected_pair;

use super::actors::{
    ActingHandler, ActingMessage, FailingRemoteHandler, acting_bytes, completion, listener,
};
use super::shared_state::{RunState, run_state};

/// Maximum number of channels in a run.
const MAX_CHANNELS: usize = 12;

/// Maximum number of writes in one action: an action may write while the channel is writable, and some
/// messages have size zero.
const MAX_WRITES: usize = 200;

/// An action through a handler's context.
#[derive(Clone, Copy, Debug)]
enum ContextAction {
    AddTwo,
    RemoveOne,
    RemoveItself,
    Replace,
    WriteAndBeTold,
    Write,
    WriteWhileWritable,
    WriteAndFlush,
    WriteBytes,
    WriteEncoded,
    WriteEncodedAndBeTold,
    HoldBytes,
    DeclareUnwritable,
    PauseReads,
    Flush,
    FlushNow,
    FireRead,
    FireUserEvent,
    FireError,
    Read,
    Close,
    CloseBecause,
    Abort,
    Deregister,
    Schedule,
    ScheduleAndCancel,
    KeepContext,
    AskForRoom,
    AddOffloaded,
    RemoveOffloaded,
}

impl ContextAction {
    const ALL: [Self; 32] = [
        Self::AddTwo,
        Self::RemoveOne,
        Self::RemoveItself,
        Self::Replace,
        Self::WriteAndBeTold,
        Self::Write,
        Self::WriteWhileWritable,
        Self::WriteAndFlush,
        Self::WriteBytes,
        Self::WriteEncoded,
        Self::WriteEncoded,
        Self::WriteEncoded,
        Self::WriteEncodedAndBeTold,
        Self::HoldBytes,
        Self::DeclareUnwritable,
        Self::PauseReads,
        Self::Flush,
        Self::FlushNow,
        Self::FireRead,
        Self::FireUserEvent,
        Self::FireError,
        Self::Read,
        Self::Close,
        Self::CloseBecause,
        Self::Abort,
        Self::Deregister,
        Self::Schedule,
        Self::ScheduleAndCancel,
        Self::KeepContext,
        Self::AskForRoom,
        Self::AddOffloaded,
        Self::RemoveOffloaded,
    ];
}

/// An action through a channel's handle, from any code on the loop.
#[derive(Clone, Copy, Debug)]
enum HandleAction {
    Write,
    WriteAndFlush,
    Send,
    Flush,
    Read,
    SetAutoRead,
    FireUserEvent,
    Close,
    Disconnect,
    Deregister,
    Register,
    AddLater,
    RemoveNow,
    NewPair,
    RunKeptContext,
    Listen,
    Spawn,
    DropGuard,
}

impl HandleAction {
    /// Registering is twice as likely as deregistering: a deregistered channel does little.
    const ALL: [Self; 21] = [
        Self::Write,
        Self::WriteAndFlush,
        Self::Send,
        Self::Flush,
        Self::Read,
        Self::SetAutoRead,
        Self::FireUserEvent,
        Self::Close,
        Self::Disconnect,
        Self::Deregister,
        Self::Register,
        Self::Register,
        Self::AddLater,
        Self::RemoveNow,
        Self::NewPair,
        Self::RunKeptContext,
        Self::Listen,
        Self::Spawn,
        Self::DropGuard,
        Self::DropGuard,
        Self::DropGuard,
    ];
}

/// Performs a random action through a handler's context.
pub(crate) fn act_with_context(ctx: &Ctx<'_>) {
    let Some(run_state) = run_state() else { return };
    let Some(_action) = run_state.begin_action() else { return };
    run_state.may_panic(150, "an action in place");
    let name = any_name(&run_state);
    let pipeline = ctx.pipeline();
    // A refused edit (an unknown or duplicate name) is a valid outcome.
    match run_state.random.pick(&ContextAction::ALL) {
        ContextAction::AddTwo => drop(add_two(&run_state, pipeline, &name)),
        ContextAction::RemoveOne => drop(pipeline.remove(&*name)),
        ContextAction::RemoveItself => drop(pipeline.remove(ctx.slot())),
        ContextAction::Replace => drop(replace(&run_state, pipeline, &name)),
        ContextAction::WriteAndBeTold => ctx.write_with(ActingMessage::new(), completion()),
        ContextAction::Write => ctx.write(ActingMessage::new()),
        ContextAction::WriteWhileWritable => {
            let mut writes = 0;
            while ctx.is_writable() && writes < MAX_WRITES {
                ctx.write(ActingMessage::new());
                writes += 1;
            }
        }
        ContextAction::WriteAndFlush => ctx.write_and_flush(ActingMessage::new()),
        ContextAction::WriteBytes => ctx.write(acting_bytes()),
        ContextAction::WriteEncoded => {
            drop(ctx.write_encoded(|dst| encode(ctx, &run_state, dst)));
        }
        ContextAction::WriteEncodedAndBeTold => {
            drop(ctx.write_encoded_with(&mut completion(), |dst| encode(ctx, &run_state, dst)));
        }
        ContextAction::HoldBytes => {
            let bytes = run_state.random.pick(&[0, 1, 100, 70_000]);
            run_state.guards.borrow_mut().push(Box::new(ctx.count_held_bytes(bytes)));
        }
        ContextAction::DeclareUnwritable => {
            run_state.guards.borrow_mut().push(Box::new(ctx.declare_unwritable()));
        }
        ContextAction::PauseReads => {
            run_state.guards.borrow_mut().push(Box::new(ctx.pause_reads()));
        }
        ContextAction::Flush => ctx.flush(),
        ContextAction::FlushNow => ctx.flush_now(),
        ContextAction::FireRead => ctx.fire_read(ActingMessage::new()),
        ContextAction::FireUserEvent => ctx.fire_user_event(ActingMessage::new()),
        ContextAction::FireError => ctx.fire_error(Error::new("an action")),
        ContextAction::Read => ctx.read(),
        ContextAction::Close if run_state.random.one_in(6) => ctx.close_with(completion()),
        ContextAction::CloseBecause if run_state.random.one_in(8) => {
            ctx.close_because(Error::new("an action"));
        }
        ContextAction::Abort if run_state.random.one_in(10) => ctx.abort(Error::new("an action")),
        ContextAction::Close | ContextAction::CloseBecause | ContextAction::Abort => {}
        ContextAction::Deregister => ctx.deregister_with(completion()),
        ContextAction::Schedule => {
            ctx.schedule(Duration::from_micros(run_state.random.below(500)), 1);
        }
        ContextAction::ScheduleAndCancel => {
            let timer = ctx.schedule(Duration::from_micros(1), 2);
            ctx.cancel(timer);
        }
        ContextAction::KeepContext => run_state.contexts.borrow_mut().push(ctx.to_local()),
        ContextAction::AskForRoom => {
            let _ = (ctx.bytes_before_unwritable(), ctx.bytes_before_writable());
        }
        ContextAction::AddOffloaded => {
            if let Some(workers) = &run_state.workers {
                let handler = Offloaded::on(workers, FailingRemoteHandler::new);
                drop(pipeline.add_last(offloaded(&name), handler));
            }
        }
        ContextAction::RemoveOffloaded => drop(pipeline.remove(&*offloaded(&name))),
    }
}

/// Performs a random action on a random channel.
pub(crate) fn act_with_handle() {
    let Some(run_state) = run_state() else { return };
    let Some(_action) = run_state.begin_action() else { return };
    run_state.may_panic(150, "an action by handle");
    let Some(channel) = run_state.any_channel() else { return };
    let name = any_name(&run_state);
    match run_state.random.pick(&HandleAction::ALL) {
        HandleAction::Write => run_state.keep(channel.write(ActingMessage::new())),
        HandleAction::WriteAndFlush => {
            run_state.keep(channel.write_and_flush(ActingMessage::new()))
        }
        HandleAction::Send => channel.send(ActingMessage::new()),
        HandleAction::Flush => channel.flush(),
        HandleAction::Read => channel.read(),
        HandleAction::SetAutoRead => channel.set_auto_read(run_state.random.one_in(2)),
        HandleAction::FireUserEvent => channel.fire_user_event(ActingMessage::new()),
        HandleAction::Close if run_state.random.one_in(8) => run_state.keep(channel.close()),
        HandleAction::Disconnect if run_state.random.one_in(10) => {
            run_state.keep(channel.disconnect())
        }
        HandleAction::Close | HandleAction::Disconnect => {}
        HandleAction::Deregister => run_state.keep(channel.deregister()),
        HandleAction::Register => run_state.keep(channel.register()),
        HandleAction::AddLater => drop(channel.with_pipeline(move |pipeline| {
            drop(pipeline.add_first(name, ActingHandler::new()));
        })),
        HandleAction::RemoveNow => {
            let _ =
                run_state.here.with_pipeline(&channel, |pipeline| drop(pipeline.remove(&*name)));
        }
        HandleAction::NewPair if run_state.channels.borrow().len() < MAX_CHANNELS => {
            new_pair(&run_state)
        }
        HandleAction::NewPair => {}
        HandleAction::RunKeptContext => {
            if let Some(context) = run_state.any_context() {
                // The handler may have been removed.
                drop(context.run(|ctx| {
                    act_with_context(ctx);
                    act_with_context(ctx);
                    let _ = ctx.name();
                }));
            }
        }
        HandleAction::Listen => {
            if let Some(future) = run_state.take_any_future() {
                future.on_complete(listener());
            }
        }
        HandleAction::Spawn => drop(run_state.here.spawn_local(async { act_with_handle() })),
        HandleAction::DropGuard => drop(run_state.take_any_guard()),
    }
}

/// Encodes a message, acts meanwhile, and sometimes fails or panics.
fn encode(ctx: &Ctx<'_>, run_state: &RunState, dst: &mut BytesMut) -> HandlerResult {
    dst.put_bytes(b'e', run_state.random.pick(&[0, 1, 20, 640]));
    if run_state.random.one_in(4) {
        act_with_context(ctx);
    }
    run_state.may_panic(60, "a message is encoded");
    if run_state.fails(20) {
        return Err(Error::new("an encoder fails"));
    }
    // Messages up to 640 bytes are joined, in a buffer of 4 KiB.
    dst.put_bytes(b'f', run_state.random.pick(&[0, 0, 0, 1, 3_000, 5_000]));
    Ok(())
}

/// Registers a pair of connected channels, of messages or of bytes, whose handlers act during the registration too.
pub(crate) fn new_pair(run_state: &RunState) {
    let (one, other) = if run_state.random.one_in(2) { local::pair() } else { connected_pair() };
    for end in [one, other] {
        let registered = run_state.here.register_with(end, |edit: &mut Edit<'_>| {
            edit.add_last("h0", ActingHandler::new())?;
            if run_state.random.one_in(3) {
                act_with_handle();
            }
            edit.add_last("h1", ActingHandler::new())?;
            edit.add_last("h2", ActingHandler::new())?;
            Ok(())
        });
        // Refused if a handler failed in `on_added`.
        if let Ok(channel) = registered {
            run_state.channels.borrow_mut().push(channel);
        }
    }
}

/// Returns one of a few names, so that names collide.
fn any_name(run_state: &RunState) -> String {
    format!("h{}", run_state.random.below(4))
}

fn offloaded(name: &str) -> String {
    format!("offloaded {name}")
}

fn add_two(run_state: &RunState, pipeline: Pipeline<'_>, name: &str) -> Result<(), PipelineError> {
    pipeline.edit(|edit| {
        edit.add_last(name.to_owned(), ActingHandler::new())?;
        if run_state.random.one_in(3) {
            act_with_handle();
        }
        edit.add_first(format!("{name} too"), ActingHandler::new())?;
        Ok(())
    })
}

/// Replaces two handlers in one edit, which fails one time in four.
fn replace(run_state: &RunState, pipeline: Pipeline<'_>, name: &str) -> Result<(), PipelineError> {
    pipeline.edit(|edit| {
        edit.replace(name, format!("{name} again"), ActingHandler::new())?;
        if run_state.random.one_in(4) {
            act_with_handle();
        }
        if run_state.random.one_in(4) { Err(PipelineError::Closed) } else { Ok(()) }
    })
}
