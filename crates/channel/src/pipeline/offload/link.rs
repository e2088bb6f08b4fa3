//! The link between the slot on the loop and the handler on its executor: two queues, and when their consumers are
//! called.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waterwheel_executor::engine::{report, run_at};
use waterwheel_executor::{CallSite, Error, EventExecutor, Fault};

use super::executor_side::RemoteHandlerState;
use super::fifo::Fifo;
use super::remote_completion::RemoteCompletion;
use super::remote_event::RemoteEvent;
use crate::base::report_throttle::ReportThrottle;
use crate::base::token::Token;
use crate::channel::handle::shared_state::ChannelShared;
use crate::event_loop::command::LoopCommand;
use crate::pipeline::dispatch::backlog_delivery::MAX_QUEUED_WRITES;
use crate::pipeline::dispatch::watched_handler::{HandlerMethod, handler_call_site};
use crate::pipeline::handler::HandlerResult;
use crate::pipeline::slots::slot_list::SlotId;

/// Connects an [`Offloaded`](super::Offloaded) on the loop with its handler on the executor.
///
/// Which thread touches what:
/// - `commands` are pushed by the loop only. The executor takes them until the handler has exited; then the loop, which
///   learns of it by [`Emission::Exited`], takes the rest.
/// - `emissions` are pushed by any thread and taken by the loop only.
/// - `handler_state` is taken out and put back by the one task that runs the commands, or taken by the thread that
///   finds that there will be no such task.
/// - `exit` and `is_overflowing` belong to the loop, until the loop is gone.
pub(crate) struct OffloadLink {
    owner: LinkOwner,
    /// The call site under which the watchdog reports the handler, if its executor is watched.
    call_site: Option<CallSite>,
    commands: Fifo<HandlerCommand>,
    emissions: Fifo<Emission>,
    pub(super) handler_state: Mutex<Option<RemoteHandlerState>>,
    /// The number of writes among the queued commands.
    queued_writes: AtomicUsize,
    /// True while so many writes are queued that they make the channel unwritable.
    is_overflowing: AtomicBool,
    /// The exit of the handler that the loop is processing.
    exit: Mutex<Option<HandlerExit>>,
    /// Counts and throttles reports of errors that no completion received.
    failures: ReportThrottle,
}

/// The handler that a link belongs to.
pub(super) struct LinkOwner {
    pub(super) shared: Arc<ChannelShared>,
    pub(super) slot: SlotId,
    pub(super) name: String,
    pub(super) type_name: &'static str,
    pub(super) executor: EventExecutor,
}

/// A command to the handler, run on its executor.
pub(crate) enum HandlerCommand {
    /// Builds the handler and calls its `on_added`.
    Add,
    /// Calls the method for this event.
    Event(RemoteEvent),
    /// Sends the marker back: all earlier commands have been run then.
    Marker,
    /// Calls `on_removed` and drops the handler.
    Remove,
}

/// A message from the handler, or from its executor, to the loop.
pub(crate) enum Emission {
    /// The event continues from the handler's slot.
    Event(RemoteEvent),
    /// The result of an operation whose completion stayed on the loop, under this number.
    Complete(u64, Result<(), Error>),
    /// The marker has passed the handler.
    Marker,
    /// The handler is gone, and runs no more commands.
    Exited(HandlerExit),
}

/// The reason why a handler is gone.
#[derive(Clone)]
pub(crate) enum HandlerExit {
    /// The handler was removed.
    Removed,
    /// The handler could not be added, or its executor is gone. The error is fired to the handlers after it.
    Failed(Error),
    /// The handler panicked, which was reported.
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

    /// Calls `f`, which calls the handler, under the handler's call site. On the executor.
    pub(super) fn run_as<R>(&self, method: HandlerMethod, f: impl FnOnce() -> R) -> R {
        match &self.call_site {
            Some(call_site) => run_at(call_site, method as u8, f),
            None => f(),
        }
    }

    // Commands: from the loop to the handler.

    /// Sends the first command, which builds the handler and calls its `on_added`.
    ///
    /// # Errors
    /// The executor accepts no tasks.
    pub(super) fn send_add(self: &Arc<Self>) -> Result<(), Error> {
        let _ = self.commands.push(HandlerCommand::Add);
        self.schedule()
    }

    /// Sends a command to the handler. On the loop.
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
            // The queue is closed: neither the loop nor the executor will run the command.
            Err(command) => drop(command),
        }
    }

    /// Sends the last command, which calls the handler's `on_removed` and drops it. On the loop.
    pub(crate) fn send_remove(self: &Arc<Self>) {
        self.send_command(HandlerCommand::Remove);
    }

    /// Drops the remaining commands, which will not be run. Panics are caught one by one: a destructor that panics does
    /// not affect the others.
    pub(super) fn drop_commands(&self) {
        *self.exit() = None;
        for command in self.commands.close() {
            self.drop_catching_panic(command);
        }
    }

    /// Takes the next command.
    pub(super) fn next_command(&self) -> Option<HandlerCommand> {
        let command = self.commands.pop()?;
        if let HandlerCommand::Event(RemoteEvent::Write(..)) = command {
            self.queued_writes.fetch_sub(1, Ordering::Relaxed);
        }
        Some(command)
    }

    /// Ends a batch of commands. Returns true if there are more.
    pub(super) fn finish_command_batch(&self) -> bool {
        self.commands.finish_batch()
    }

    /// Returns whether too many writes are queued, if that has changed since the last call (rule 6). On the loop.
    pub(super) fn take_overflow_change(&self) -> Option<bool> {
        let is_overflowing = self.queued_writes.load(Ordering::Relaxed) > MAX_QUEUED_WRITES;
        let before = self.is_overflowing.swap(is_overflowing, Ordering::Relaxed);
        (before != is_overflowing).then_some(is_overflowing)
    }

    // Emissions: from the handler to the loop.

    /// Sends an emission to the loop, or discards it if the loop is gone.
    pub(super) fn emit(self: &Arc<Self>, emission: Emission) {
        match self.emissions.push(emission) {
            Ok(true) => self.schedule_loop(),
            Ok(false) => {}
            Err(emission) => self.discard_emission(emission),
        }
    }

    /// Makes the loop check how many writes are queued.
    pub(super) fn request_loop(self: &Arc<Self>) {
        if self.emissions.request_consumer() {
            self.schedule_loop();
        }
    }

    /// Takes the next emission. On the loop.
    pub(super) fn next_emission(&self) -> Option<Emission> {
        self.emissions.pop()
    }

    /// Ends a batch of emissions on the loop, and schedules the next one if there are more.
    pub(super) fn finish_emission_batch(self: &Arc<Self>) {
        if self.emissions.finish_batch() {
            self.schedule_loop();
        } else if self.exit().is_some() {
            self.request_loop();
        }
    }

    /// Sends the loop a command that processes the emissions.
    fn schedule_loop(self: &Arc<Self>) {
        let link = self.clone();
        let command = LoopCommand::new(move |here| here.channels().on_emissions(&link));
        if self.owner.shared.send(command).is_err() {
            self.close_emissions();
        }
    }

    /// Closes the queue of emissions, because the channel or its loop is gone.
    pub(crate) fn close_emissions(&self) {
        for emission in self.emissions.close() {
            // Panics are caught one by one: a destructor that panics affects neither the others nor the commands.
            self.run_catching_panic(|| self.discard_emission(emission));
        }
        if self.exit().is_some() {
            self.drop_commands();
        }
    }

    /// Fails the operation of an emission that the loop will not process.
    fn discard_emission(&self, emission: Emission) {
        match emission {
            // The channel is closed already.
            Emission::Event(RemoteEvent::Close(done)) => done.succeed(),
            Emission::Event(event) => event.fail(&self.owner.shared.closed_error().into()),
            // The loop no longer processes the exit, so the remaining commands are dropped here.
            Emission::Exited(_) => self.drop_commands(),
            Emission::Complete(..) | Emission::Marker => {}
        }
    }

    /// Returns the exit that is being processed. On the loop.
    pub(super) fn exit(&self) -> MutexGuard<'_, Option<HandlerExit>> {
        self.exit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // Results of handler methods.

    /// Reports the error, if `on_error` returned one.
    pub(super) fn report_on_error_failure(&self, result: HandlerResult) {
        if let Err(error) = result {
            self.report(&format!("`on_error` of `{}`", self.name()), &error);
        }
    }

    /// Fails the completion of an operation, and reports the error if no completion receives it.
    pub(super) fn fail_operation(&self, error: Error, done: RemoteCompletion) {
        if done.is_none() || done.is_detached() {
            self.report(&format!("`{}`", self.name()), &error);
        }
        done.fail(error);
    }

    /// Reports an error that no completion received, with a throttle.
    fn report(&self, failed: &str, error: &Error) {
        if let Some(count) = self.failures.record() {
            let channel = &self.owner.shared;
            report(Fault::Unhandled(format!(
                "{channel:?}: {failed} failed, {count} so far: {error}"
            )));
        }
    }
}
