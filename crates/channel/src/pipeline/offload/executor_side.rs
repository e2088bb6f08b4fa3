//! The executor's side: the letters are read, and the handler is called.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use waterwheel_executor::engine::{panic_message, report, run_as};
use waterwheel_executor::{Error, ErrorKind, Fault, Origin, UserCode};

use super::link::{Emission, Farewell, Letter, Link};
use super::remote_context::RemoteCtx;
use super::remote_event::Mail;
use super::remote_handler::RemoteHandler;
use crate::channel::error::ChannelError;
use crate::channel::handle::Channel;
use crate::channel::lifecycle::hold::Hold;
use crate::pipeline::dispatch::watched_handler::Call;
use crate::pipeline::error::PipelineError;

/// How many letters a task reads before other tasks of its executor have their turn: enough for the
/// price of a task not to matter, few enough for a busy channel not to keep an executor to itself.
const LETTERS_PER_TASK: usize = 64;

/// Who is at the other end.
pub(super) enum Occupant {
    Unbuilt(Build),
    Built(Box<dyn RemoteHandler>),
}

pub(super) type Build = Box<dyn FnOnce() -> Box<dyn RemoteHandler> + Send>;

/// A task that reads letters. Dropped by an executor that died, it tells the loop. Until it is through, a
/// drain of the loop waits for the channel.
struct Reader {
    link: Option<Arc<Link>>,
    _hold: Hold,
}

impl Reader {
    fn run(mut self) {
        if let Some(link) = self.link.take() {
            link.read_letters();
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            let executor = link.executor().name().to_owned();
            let cause = String::from("its tasks were dropped");
            link.lose(ErrorKind::LoopDied { executor, cause }.into());
        }
    }
}

impl Link {
    /// Lets the executor read the letters.
    pub(super) fn schedule(self: &Arc<Self>) -> Result<(), Error> {
        let task = |link: Arc<Link>| {
            let hold = Channel::new(link.shared().clone()).hold();
            let reader = Reader { link: Some(link), _hold: hold };
            move || reader.run()
        };
        Ok(self.executor().execute_with(Origin::here(), self.clone(), task)?)
    }

    /// The executor will not read the letters: neither now nor ever.
    pub(super) fn lose(self: &Arc<Self>, cause: Error) {
        if let Some(occupant) = self.take_occupant() {
            self.drop_catching_panic(occupant);
        }
        let handler = self.name().to_owned();
        let error = Error::new(ChannelError::ExecutorGone { handler, cause });
        self.emit(Emission::Farewell(Farewell::Failed(error)));
    }

    fn read_letters(self: &Arc<Self>) {
        loop {
            let Some(mut occupant) = self.take_occupant() else { return };
            let ctx = RemoteCtx::new(self.clone());
            for _ in 0..LETTERS_PER_TASK {
                let Some(letter) = self.next_letter() else { break };
                let was_write = matches!(letter, Letter::Event(Mail::Write(..)));
                match self.read(occupant, letter, &ctx) {
                    Ok(stays) => occupant = stays,
                    // Nobody rests: from now on the letters are the loop's.
                    Err(farewell) => return self.emit(Emission::Farewell(farewell)),
                }
                if was_write {
                    self.nudge();
                }
            }
            *self.occupant.lock().unwrap_or_else(PoisonError::into_inner) = Some(occupant);
            // An executor that takes no more tasks has to end what it has begun.
            if !self.rest() || self.schedule().is_ok() {
                return;
            }
        }
    }

    fn take_occupant(&self) -> Option<Occupant> {
        self.occupant.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Reads one letter to the handler.
    fn read(
        self: &Arc<Self>,
        occupant: Occupant,
        letter: Letter,
        ctx: &RemoteCtx,
    ) -> Result<Occupant, Farewell> {
        let mut handler = match occupant {
            Occupant::Unbuilt(build) => {
                let build = || catch_unwind(AssertUnwindSafe(build));
                self.run_as(Call::build, build).map_err(|payload| self.panicked(payload))?
            }
            Occupant::Built(handler) => handler,
        };
        let what = match &letter {
            Letter::Added => Some(Call::on_added),
            Letter::Event(mail) => Some(mail.call()),
            Letter::Last => None,
            Letter::Removed => Some(Call::on_removed),
        };
        let call = || match letter {
            Letter::Added => handler.on_added(ctx).err().map(|cause| {
                handler.on_removed(ctx);
                let name = self.name().to_owned();
                Farewell::Failed(PipelineError::NotAdded { name, cause }.into())
            }),
            Letter::Event(mail) => {
                mail.deliver(&mut *handler, ctx, self);
                None
            }
            Letter::Last => {
                self.emit(Emission::Last);
                None
            }
            Letter::Removed => {
                handler.on_removed(ctx);
                Some(Farewell::Removed)
            }
        };
        let call = || catch_unwind(AssertUnwindSafe(call));
        let called = match what {
            Some(what) => self.run_as(what, call),
            None => call(),
        };
        let farewell = match called {
            Ok(farewell) => farewell,
            Err(payload) => Some(self.panicked(payload)),
        };
        match farewell {
            None => Ok(Occupant::Built(handler)),
            Some(farewell) => {
                self.drop_catching_panic(handler);
                Err(farewell)
            }
        }
    }

    #[cold]
    fn panicked(&self, payload: Box<dyn std::any::Any + Send>) -> Farewell {
        let message = panic_message(payload);
        let origin = Origin::labelled(self.type_name());
        let told = format!("`{}` of {:?}: {message}", self.name(), self.shared());
        report(Fault::Panicked { what: UserCode::Handler, origin, message: told });
        Farewell::Panicked(ErrorKind::Panicked { origin, message }.into())
    }

    pub(super) fn drop_catching_panic<T>(&self, value: T) {
        self.guard(|| drop(value));
    }

    pub(super) fn guard(&self, f: impl FnOnce()) {
        let origin = Origin::labelled(self.type_name());
        // Reported by itself.
        let _ = run_as(UserCode::Destructor, origin, f);
    }
}
