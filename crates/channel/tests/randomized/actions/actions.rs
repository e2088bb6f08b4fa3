//! What is done to channels and pipelines: at a handler's place, or by a channel's handle.

use std::time::Duration;

use waterwheel_channel::{Ctx, Edit, Offloaded, Pipeline, PipelineError, local};
use waterwheel_executor::Error;

use super::actors::{ActingMessage, Meddler, RemoteMeddler, completion, listener};
use super::shared_state::{World, world};

/// How many channels a run has at the most.
const MOST_CHANNELS: usize = 12;

/// How much one action writes at the most: somebody writes while it may, and some messages weigh nothing.
const MOST_WRITES: usize = 200;

/// What a handler may do with its context.
#[derive(Clone, Copy, Debug)]
enum InPlace {
    AddTwo,
    RemoveOne,
    RemoveItself,
    Replace,
    WriteAndBeTold,
    Write,
    WriteWhileWritable,
    WriteAndFlush,
    Flush,
    FlushNow,
    FireRead,
    FireUserEvent,
    FireError,
    Read,
    Close,
    Deregister,
    Schedule,
    ScheduleAndCancel,
    KeepContext,
    AskForRoom,
    AddOffloaded,
    RemoveOffloaded,
}

impl InPlace {
    const ALL: [Self; 22] = [
        Self::AddTwo,
        Self::RemoveOne,
        Self::RemoveItself,
        Self::Replace,
        Self::WriteAndBeTold,
        Self::Write,
        Self::WriteWhileWritable,
        Self::WriteAndFlush,
        Self::Flush,
        Self::FlushNow,
        Self::FireRead,
        Self::FireUserEvent,
        Self::FireError,
        Self::Read,
        Self::Close,
        Self::Deregister,
        Self::Schedule,
        Self::ScheduleAndCancel,
        Self::KeepContext,
        Self::AskForRoom,
        Self::AddOffloaded,
        Self::RemoveOffloaded,
    ];
}

/// What anybody on the loop may do.
#[derive(Clone, Copy, Debug)]
enum ByHandle {
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
}

impl ByHandle {
    /// Registering is twice as likely as deregistering: who is not registered does little.
    const ALL: [Self; 18] = [
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
    ];
}

/// Does something at a handler's place.
pub(crate) fn act_in_place(ctx: &Ctx<'_>) {
    let Some(world) = world() else { return };
    let Some(_action) = world.begin_action() else { return };
    world.may_panic(150, "an action in place");
    let name = any_name(&world);
    let pipeline = ctx.pipeline();
    // An edit that is refused (no such name, or twice the same) is as good as one that is not.
    match world.dice.pick(&InPlace::ALL) {
        InPlace::AddTwo => drop(add_two(&world, pipeline, &name)),
        InPlace::RemoveOne => drop(pipeline.remove(&*name)),
        InPlace::RemoveItself => drop(pipeline.remove(ctx.slot())),
        InPlace::Replace => drop(replace(&world, pipeline, &name)),
        InPlace::WriteAndBeTold => ctx.write_with(ActingMessage::new(), completion()),
        InPlace::Write => ctx.write(ActingMessage::new()),
        InPlace::WriteWhileWritable => {
            let mut writes = 0;
            while ctx.is_writable() && writes < MOST_WRITES {
                ctx.write(ActingMessage::new());
                writes += 1;
            }
        }
        InPlace::WriteAndFlush => ctx.write_and_flush(ActingMessage::new()),
        InPlace::Flush => ctx.flush(),
        InPlace::FlushNow => ctx.flush_now(),
        InPlace::FireRead => ctx.fire_read(ActingMessage::new()),
        InPlace::FireUserEvent => ctx.fire_user_event(ActingMessage::new()),
        InPlace::FireError => ctx.fire_error(Error::new("an action")),
        InPlace::Read => ctx.read(),
        InPlace::Close if world.dice.one_in(6) => ctx.close_with(completion()),
        InPlace::Close => {}
        InPlace::Deregister => ctx.deregister_with(completion()),
        InPlace::Schedule => drop(ctx.schedule(Duration::from_micros(world.dice.below(500)), 1)),
        InPlace::ScheduleAndCancel => {
            let timer = ctx.schedule(Duration::from_micros(1), 2);
            ctx.cancel(timer);
        }
        InPlace::KeepContext => world.contexts.borrow_mut().push(ctx.to_local()),
        InPlace::AskForRoom => {
            let _ = (ctx.bytes_before_unwritable(), ctx.bytes_before_writable());
        }
        InPlace::AddOffloaded => {
            if let Some(workers) = &world.workers {
                let handler = Offloaded::on(workers, RemoteMeddler::new);
                drop(pipeline.add_last(offloaded(&name), handler));
            }
        }
        InPlace::RemoveOffloaded => drop(pipeline.remove(&*offloaded(&name))),
    }
}

/// Does something to any channel.
pub(crate) fn act_by_handle() {
    let Some(world) = world() else { return };
    let Some(_action) = world.begin_action() else { return };
    world.may_panic(150, "an action by handle");
    let Some(channel) = world.any_channel() else { return };
    let name = any_name(&world);
    match world.dice.pick(&ByHandle::ALL) {
        ByHandle::Write => world.keep(channel.write(ActingMessage::new())),
        ByHandle::WriteAndFlush => world.keep(channel.write_and_flush(ActingMessage::new())),
        ByHandle::Send => channel.send(ActingMessage::new()),
        ByHandle::Flush => channel.flush(),
        ByHandle::Read => channel.read(),
        ByHandle::SetAutoRead => channel.set_auto_read(world.dice.one_in(2)),
        ByHandle::FireUserEvent => channel.fire_user_event(ActingMessage::new()),
        ByHandle::Close if world.dice.one_in(8) => world.keep(channel.close()),
        ByHandle::Disconnect if world.dice.one_in(10) => world.keep(channel.disconnect()),
        ByHandle::Close | ByHandle::Disconnect => {}
        ByHandle::Deregister => world.keep(channel.deregister()),
        ByHandle::Register => world.keep(channel.register()),
        ByHandle::AddLater => drop(channel.with_pipeline(move |pipeline| {
            drop(pipeline.add_first(name, Meddler::new()));
        })),
        ByHandle::RemoveNow => {
            let _ = world.here.with_pipeline(&channel, |pipeline| drop(pipeline.remove(&*name)));
        }
        ByHandle::NewPair if world.channels.borrow().len() < MOST_CHANNELS => new_pair(&world),
        ByHandle::NewPair => {}
        ByHandle::RunKeptContext => {
            if let Some(context) = world.any_context() {
                // Its handler may be gone.
                drop(context.run(|ctx| {
                    act_in_place(ctx);
                    act_in_place(ctx);
                    let _ = ctx.name();
                }));
            }
        }
        ByHandle::Listen => {
            if let Some(future) = world.take_any_future() {
                future.on_complete(listener());
            }
        }
        ByHandle::Spawn => drop(world.here.spawn_local(async { act_by_handle() })),
    }
}

/// Two channels that are each other's peer, with handlers that meddle while they are registered, too.
pub(crate) fn new_pair(world: &World) {
    let (one, other) = local::pair();
    for end in [one, other] {
        let registered = world.here.register_with(end, |edit: &mut Edit<'_>| {
            edit.add_last("h0", Meddler::new())?;
            if world.dice.one_in(3) {
                act_by_handle();
            }
            edit.add_last("h1", Meddler::new())?;
            edit.add_last("h2", Meddler::new())?;
            Ok(())
        });
        // Refused, if a handler failed when it was added.
        if let Ok(channel) = registered {
            world.channels.borrow_mut().push(channel);
        }
    }
}

/// Of few, so that names meet.
fn any_name(world: &World) -> String {
    format!("h{}", world.dice.below(4))
}

fn offloaded(name: &str) -> String {
    format!("offloaded {name}")
}

fn add_two(world: &World, pipeline: Pipeline<'_>, name: &str) -> Result<(), PipelineError> {
    pipeline.edit(|edit| {
        edit.add_last(name.to_owned(), Meddler::new())?;
        if world.dice.one_in(3) {
            act_by_handle();
        }
        edit.add_first(format!("{name} too"), Meddler::new())?;
        Ok(())
    })
}

/// Changes its mind, one time in four.
fn replace(world: &World, pipeline: Pipeline<'_>, name: &str) -> Result<(), PipelineError> {
    pipeline.edit(|edit| {
        edit.replace(name, format!("{name} again"), Meddler::new())?;
        if world.dice.one_in(4) {
            act_by_handle();
        }
        if world.dice.one_in(4) { Err(PipelineError::Closed) } else { Ok(()) }
    })
}
