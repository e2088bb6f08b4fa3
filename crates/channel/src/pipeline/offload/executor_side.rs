//! The executor's side of offloading: runs commands by calling the handler.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use waterwheel_executor::engine::{panic_message, report, run_as};
use waterwheel_executor::{Error, ErrorKind, Fault, Origin, UserCode};

use super::link::{Emission, HandlerCommand, HandlerExit, OffloadLink};
use super::remote_context::RemoteCtx;
use super::remote_event::RemoteEvent;
use super::remote_handler::RemoteHandler;
use crate::channel::error::ChannelError;
use crate::channel::handle::Channel;
use crate::channel::lifecycle::hold::Hold;
use crate::pipeline::dispatch::watched_handler::HandlerMethod;
use crate::pipeline::error::PipelineError;

/// The number of commands a task runs before other tasks of its executor get a turn: enough that the cost of a task
/// does not matter, few enough that a busy channel does not monopolise the executor.
const COMMANDS_PER_TASK: usize = 64;

/// The remote handler, or the closure that builds it.
pub(super) enum RemoteHandlerState {
    Unbuilt(BuildHandler),
    Built(Box<dyn RemoteHandler>),
}

pub(super) type BuildHandler = Box<dyn FnOnce() -> Box<dyn RemoteHandler> + Send>;

/// A task that runs commands. If an executor that died drops it, its destructor informs the loop. A drain of the loop
/// waits for the channel until the task has ended.
struct CommandTask {
    link: Option<Arc<OffloadLink>>,
    _hold: Hold,
}

impl CommandTask {
    fn run(mut self) {
        if let Some(link) = self.link.take() {
            link.run_commands();
        }
    }
}

impl Drop for CommandTask {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            let executor = link.executor().name().to_owned();
            let cause = String::from("it dropped its tasks");
            link.lose_executor(ErrorKind::LoopDied { executor, cause }.into());
        }
    }
}

impl OffloadLink {
    /// Submits a task to the executor that runs the commands.
    pub(super) fn schedule(self: &Arc<Self>) -> Result<(), Error> {
        let make_task = |link: Arc<OffloadLink>| {
            let hold = Channel::new(link.shared().clone()).hold();
            let task = CommandTask { link: Some(link), _hold: hold };
            move || task.run()
        };
        Ok(self.executor().execute_with(Origin::here(), self.clone(), make_task)?)
    }

    /// Handles the loss of the executor, which will never run the commands: drops the handler and informs the loop.
    pub(super) fn lose_executor(self: &Arc<Self>, cause: Error) {
        if let Some(handler_state) = self.take_handler_state() {
            self.drop_catching_panic(handler_state);
        }
        let handler = self.name().to_owned();
        let error = Error::new(ChannelError::ExecutorGone { handler, cause });
        self.emit(Emission::Exited(HandlerExit::Failed(error)));
    }

    /// Runs a batch of commands.
    fn run_commands(self: &Arc<Self>) {
        loop {
            let Some(mut handler_state) = self.take_handler_state() else { return };
            let ctx = RemoteCtx::new(self.clone());
            for _ in 0..COMMANDS_PER_TASK {
                let Some(command) = self.next_command() else { break };
                let was_write = matches!(command, HandlerCommand::Event(RemoteEvent::Write(..)));
                match self.run_command(handler_state, command, &ctx) {
                    Ok(state) => handler_state = state,
                    // The batch is not finished: from now on the loop takes the commands.
                    Err(exit) => return self.emit(Emission::Exited(exit)),
                }
                if was_write {
                    self.request_loop();
                }
            }
            *self.handler_state.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(handler_state);
            // If the executor accepts no more tasks, this task has to run the rest.
            if !self.finish_command_batch() || self.schedule().is_ok() {
                return;
            }
        }
    }

    fn take_handler_state(&self) -> Option<RemoteHandlerState> {
        self.handler_state.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Runs one command. Returns the handler, or the reason why the handler is gone.
    fn run_command(
        self: &Arc<Self>,
        handler_state: RemoteHandlerState,
        command: HandlerCommand,
        ctx: &RemoteCtx,
    ) -> Result<RemoteHandlerState, HandlerExit> {
        let mut handler = match handler_state {
            RemoteHandlerState::Unbuilt(build) => {
                let build = || catch_unwind(AssertUnwindSafe(build));
                self.run_as(HandlerMethod::build, build)
                    .map_err(|payload| self.report_panic(payload))?
            }
            RemoteHandlerState::Built(handler) => handler,
        };
        let method = match &command {
            HandlerCommand::Add => Some(HandlerMethod::on_added),
            HandlerCommand::Event(event) => Some(event.method()),
            HandlerCommand::Marker => None,
            HandlerCommand::Remove => Some(HandlerMethod::on_removed),
        };
        let call = || match command {
            HandlerCommand::Add => handler.on_added(ctx).err().map(|cause| {
                handler.on_removed(ctx);
                let name = self.name().to_owned();
                HandlerExit::Failed(PipelineError::NotAdded { name, cause }.into())
            }),
            HandlerCommand::Event(event) => {
                event.deliver(&mut *handler, ctx, self);
                None
            }
            HandlerCommand::Marker => {
                self.emit(Emission::Marker);
                None
            }
            HandlerCommand::Remove => {
                handler.on_removed(ctx);
                Some(HandlerExit::Removed)
            }
        };
        let call = || catch_unwind(AssertUnwindSafe(call));
        let called = match method {
            Some(method) => self.run_as(method, call),
            None => call(),
        };
        let exit = match called {
            Ok(exit) => exit,
            Err(payload) => Some(self.report_panic(payload)),
        };
        match exit {
            None => Ok(RemoteHandlerState::Built(handler)),
            Some(exit) => {
                self.drop_catching_panic(handler);
                Err(exit)
            }
        }
    }

    /// Reports a panic of the handler.
    #[cold]
    fn report_panic(&self, payload: Box<dyn std::any::Any + Send>) -> HandlerExit {
        let message = panic_message(payload);
        let origin = Origin::labelled(self.type_name());
        let text = format!("`{}` of {:?}: {message}", self.name(), self.shared());
        report(Fault::Panicked { what: UserCode::Handler, origin, message: text });
        HandlerExit::Panicked(ErrorKind::Panicked { origin, message }.into())
    }

    pub(super) fn drop_catching_panic<T>(&self, value: T) {
        self.run_catching_panic(|| drop(value));
    }

    /// Calls `f`, which runs destructors of user code; a panic is caught and reported.
    pub(super) fn run_catching_panic(&self, f: impl FnOnce()) {
        let origin = Origin::labelled(self.type_name());
        // `run_as` reports a panic.
        let _ = run_as(UserCode::Destructor, origin, f);
    }
}
