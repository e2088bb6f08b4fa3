//! What joins the slot on the loop to the handler on its executor: two queues, and who is called when.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waterwheel_executor::engine::{report, run_at};
use waterwheel_executor::{CallSite, Error, EventExecutor, Fault};

use super::executor_side::RemoteHandlerState;
use super::fifo::Fifo;
use super::remote_completion::RemoteCompletion;
use super::remote_event::RemoteEvent;
use crate::channel::handle::shared_state::ChannelShared;
use crate::event_loop::command::LoopCommand;
use crate::pipeline::dispatch::backlog_delivery::MAX_QUEUED_WRITES;
use crate::pipeline::dispatch::watched_handler::{HandlerMethod, handler_call_site};
use crate::pipeline::handler::HandlerResult;
use crate::pipeline::slots::slot_list::SlotId;
use crate::report_throttle::ReportThrottle;
use crate::token::Token;

/// Between an [`Offloaded`](super::Offloaded) and its handler.
///
/// `letters` are posted by the loop alone, and taken by the executor until the handler has left; then
/// they are the loop's again, which learns of it by the farewell. `emissions` are pushed by anybody and
/// taken by the loop alone. `occupant` is taken out and put back by the one task that drains the letters,
/// or by whoever finds that there will be no such task. `parting` and `overflows` are the loop's
/// alone, until that is gone.
pub(crate) struct OffloadLink {
    owner: LinkOwner,
    /// What it is known by, if its executor is watched.
    call_site: Option<CallSite>,
    commands: Fifo<HandlerCommand>,
    emissions: Fifo<Emission>,
    pub(super) handler_state: Mutex<Option<RemoteHandlerState>>,
    /// How many letters are writes.
    queued_writes: AtomicUsize,
    /// They are so many that they make the channel unwritable.
    is_overflowing: AtomicBool,
    exit: Mutex<Option<HandlerExit>>,
    /// How often the handler failed and nobody else was told.
    failures: ReportThrottle,
}

/// Whose link it is.
pub(super) struct LinkOwner {
    pub(super) shared: Arc<ChannelShared>,
    pub(super) slot: SlotId,
    pub(super) name: String,
    pub(super) type_name: &'static str,
    pub(super) executor: EventExecutor,
}

/// To the handler.
pub(crate) enum HandlerCommand {
    /// It is to be built, and told that it was added.
    Added,
    Event(RemoteEvent),
    /// To be sent back: what was posted before has come through then.
    Marker,
    Removed,
}

/// To the loop.
pub(crate) enum Emission {
    Event(RemoteEvent),
    /// What became of an operation whose completion has stayed on the loop.
    Complete(u64, Result<(), Error>),
    Marker,
    /// The handler is gone, and reads no more letters.
    Exited(HandlerExit),
}

/// Why a handler is gone.
#[derive(Clone)]
pub(crate) enum HandlerExit {
    /// It was removed.
    Removed,
    /// It could not do its work: the handlers behind it are told.
    Failed(Error),
    /// It panicked, and that has been reported.
    Panicked(Error),
}

impl OffloadLink {
    pub(super) fn new(owner: LinkOwner, handler_state: RemoteHandlerState) -> Self {
        let LinkOwner { name, shared, type_name, executor, .. } = &owner;
        let call_site = || handler_call_site(name.clone(), shared.id, type_name);
        Self {
            call_site: executor.is_watched().then(call_site),
            owner,
            commands: Fifo::new(),
            emissions: Fifo::new(),
            handler_state: Mutex::new(Some(handler_state)),
            queued_writes: AtomicUsize::new(0),
            is_overflowing: AtomicBool::new(false),
            exit: Mutex::new(None),
            failures: ReportThrottle::default(),
        }
    }

    pub(crate) fn channel(&self) -> Token {
        self.owner.shared.token()
    }

    pub(super) fn shared(&self) -> &Arc<ChannelShared> {
        &self.owner.shared
    }

    pub(crate) fn slot(&self) -> SlotId {
        self.owner.slot
    }

    pub(super) fn name(&self) -> &str {
        &self.owner.name
    }

    pub(super) fn type_name(&self) -> &'static str {
        self.owner.type_name
    }

    pub(super) fn executor(&self) -> &EventExecutor {
        &self.owner.executor
    }

    /// Calls `f`, which calls the handler: on its executor.
    pub(super) fn run_as<R>(&self, method: HandlerMethod, f: impl FnOnce() -> R) -> R {
        match &self.call_site {
            Some(call_site) => run_at(call_site, method as u8, f),
            None => f(),
        }
    }

    // Letters.

    /// Posts the first letter.
    ///
    /// # Errors
    /// The executor takes no tasks.
    pub(super) fn send_added(self: &Arc<Self>) -> Result<(), Error> {
        let _ = self.commands.push(HandlerCommand::Added);
        self.schedule()
    }

    /// Posts a letter. On the loop.
    pub(crate) fn send_command(self: &Arc<Self>, command: HandlerCommand) {
        if let HandlerCommand::Event(RemoteEvent::Write(..)) = command {
            self.queued_writes.fetch_add(1, Ordering::Relaxed);
        }
        match self.commands.push(command) {
            Ok(false) => {}
            Ok(true) => {
                if let Err(error) = self.schedule() {
                    self.lose_executor(error);
                }
            }
            // Neither the loop nor the executor is there any more.
            Err(command) => drop(command),
        }
    }

    /// Lets the handler take its leave: its slot is gone. On the loop.
    pub(crate) fn send_removed(self: &Arc<Self>) {
        self.send_command(HandlerCommand::Removed);
    }

    /// Nobody will read the letters that are left. One by one: a destructor that panics keeps none of
    /// the others.
    pub(super) fn drop_commands(&self) {
        *self.exit() = None;
        for command in self.commands.close() {
            self.drop_catching_panic(command);
        }
    }

    /// Takes the next letter.
    pub(super) fn next_command(&self) -> Option<HandlerCommand> {
        let command = self.commands.pop()?;
        if let HandlerCommand::Event(RemoteEvent::Write(..)) = command {
            self.queued_writes.fetch_sub(1, Ordering::Relaxed);
        }
        Some(command)
    }

    /// The task has read its share. `true`: there is more.
    pub(super) fn finish_command_batch(&self) -> bool {
        self.commands.finish_batch()
    }

    /// Whether it has come, or ceased, to overflow since this was asked last (rule 6). On the loop.
    pub(super) fn take_overflow_change(&self) -> Option<bool> {
        let is_overflowing = self.queued_writes.load(Ordering::Relaxed) > MAX_QUEUED_WRITES;
        let before = self.is_overflowing.swap(is_overflowing, Ordering::Relaxed);
        (before != is_overflowing).then_some(is_overflowing)
    }

    // Emissions.

    /// Sends something to the loop; drops it if that is not there any more.
    pub(super) fn emit(self: &Arc<Self>, emission: Emission) {
        match self.emissions.push(emission) {
            Ok(true) => self.schedule_loop(),
            Ok(false) => {}
            Err(emission) => self.discard_emission(emission),
        }
    }

    /// Lets the loop look at how much is waiting.
    pub(super) fn request_loop(self: &Arc<Self>) {
        if self.emissions.request_consumer() {
            self.schedule_loop();
        }
    }

    pub(super) fn next_emission(&self) -> Option<Emission> {
        self.emissions.pop()
    }

    /// The loop has done its share; it comes again if there is more.
    pub(super) fn finish_emission_batch(self: &Arc<Self>) {
        if self.emissions.finish_batch() {
            self.schedule_loop();
        } else if self.exit().is_some() {
            self.request_loop();
        }
    }

    fn schedule_loop(self: &Arc<Self>) {
        let link = self.clone();
        let command = LoopCommand::new(move |here| here.channels().on_emissions(&link));
        if self.owner.shared.send(command).is_err() {
            self.close_emissions();
        }
    }

    /// The channel is gone, or its loop.
    pub(crate) fn close_emissions(&self) {
        for emission in self.emissions.close() {
            // One by one: a destructor that panics keeps none of the others, nor the letters.
            self.run_guarded(|| self.discard_emission(emission));
        }
        if self.exit().is_some() {
            self.drop_commands();
        }
    }

    fn discard_emission(&self, emission: Emission) {
        match emission {
            // Closed is what it is to be.
            Emission::Event(RemoteEvent::Close(done)) => done.succeed(),
            Emission::Event(event) => event.fail(&self.owner.shared.closed_error().into()),
            // The loop would have seen to the letters that are left.
            Emission::Exited(_) => self.drop_commands(),
            Emission::Complete(..) | Emission::Marker => {}
        }
    }

    /// The farewell that is being said. On the loop.
    pub(super) fn exit(&self) -> MutexGuard<'_, Option<HandlerExit>> {
        self.exit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // How calls end.

    pub(super) fn report_error_method(&self, result: HandlerResult) {
        if let Err(error) = result {
            self.report(&format!("the error method of `{}`", self.name()), &error);
        }
    }

    pub(super) fn operation_failed(&self, error: Error, done: RemoteCompletion) {
        if done.is_none() || done.is_detached() {
            self.report(&format!("`{}`", self.name()), &error);
        }
        done.fail(error);
    }

    fn report(&self, what: &str, error: &Error) {
        if let Some(count) = self.failures.record() {
            let channel = &self.owner.shared;
            report(Fault::Unhandled(format!(
                "{channel:?}: {what} failed, {count} so far: {error}"
            )));
        }
    }
}
