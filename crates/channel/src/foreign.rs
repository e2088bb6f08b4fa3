//! Foreign descriptors: anything the driver can watch that is no channel of ours (L08).
//!
//! A pipe, a timer, a child's output, a socket somebody else made: the loop owns it while it is
//! registered, says when it is ready, and says once when that is over.

use std::fmt;
use std::io;
use std::sync::Arc;

use waterwheel_executor::engine::CommandAccess;
use waterwheel_executor::{CommandSender, Error, Origin, PromiseFuture};

use crate::driver::{Interest, Io, IoEvent, Readiness};
use crate::event_loop::command::LoopCommand;
use crate::event_loop::handle::EventLoop;
use crate::event_loop::local_loop::LocalLoop;
use crate::event_loop::loop_pool::LoopLease;
use crate::event_loop::registrations::Registrant;
use crate::token::Token;

/// A descriptor on its way to a loop. The driver's crate makes them.
pub struct Foreign<T> {
    source: Arc<T>,
    io: Io,
}

impl<T> Foreign<T> {
    /// For drivers: `io` is what the driver understands, and shares the source.
    pub fn new(source: Arc<T>, io: Io) -> Self {
        Self { source, io }
    }
}

/// What happens when a foreign descriptor is ready. Called on the loop.
///
/// For a closure that does, see [`on_ready`].
pub trait ForeignHandler<T>: 'static {
    /// It is ready. Level-triggered: what is not read is told again in the next turn. An error, or a
    /// panic, unregisters it with that cause.
    ///
    /// # Errors
    /// Whatever makes it impossible to go on.
    fn on_ready(
        &mut self,
        source: &T,
        ready: Readiness,
        context: &ForeignContext,
    ) -> Result<(), Error>;

    /// It is no longer registered; called exactly once, and last. No cause: it was asked for.
    fn on_unregistered(&mut self, _source: &T, _cause: Option<Error>) {}
}

/// Makes a handler of a closure.
///
/// It has nothing to say to the end of its registration; what does is a type with a
/// [`ForeignHandler`] of its own.
pub fn on_ready<T, F>(ready: F) -> OnReady<F>
where
    F: FnMut(&T, Readiness, &ForeignContext) -> Result<(), Error> + 'static,
{
    OnReady(ready)
}

/// A closure as a handler. Made by [`on_ready`].
#[derive(Clone, Copy, Debug)]
pub struct OnReady<F>(F);

impl<T, F> ForeignHandler<T> for OnReady<F>
where
    F: FnMut(&T, Readiness, &ForeignContext) -> Result<(), Error> + 'static,
{
    fn on_ready(
        &mut self,
        source: &T,
        ready: Readiness,
        context: &ForeignContext,
    ) -> Result<(), Error> {
        (self.0)(source, ready, context)
    }
}

/// A registration, inside its callback.
#[derive(Clone, Debug)]
pub struct ForeignContext {
    here: LocalLoop,
    token: Token,
}

impl ForeignContext {
    /// Changes what it is interested in.
    ///
    /// # Errors
    /// If the interest is empty or not supported, or the kernel refuses it.
    pub fn set_interest(&self, interest: Interest) -> io::Result<()> {
        self.here.set_interest(self.token, interest)
    }

    /// Unregisters it: `on_unregistered` follows, without a cause. `false` if it is going already.
    pub fn unregister(&self) -> bool {
        self.here.detach(self.token)
    }

    /// The loop it is registered with.
    #[must_use]
    pub fn event_loop(&self) -> &LocalLoop {
        &self.here
    }

    /// A handle of this registration, for other threads.
    #[must_use]
    pub fn handle(&self) -> ForeignHandle {
        ForeignHandle { sender: self.here.sender().clone(), token: self.token }
    }
}

/// A registration, seen from any thread. Dropping it changes nothing.
#[derive(Clone, Debug)]
pub struct ForeignHandle {
    sender: CommandSender<LoopCommand>,
    token: Token,
}

impl ForeignHandle {
    /// Changes what it is interested in: on the loop at once, elsewhere in turn with other commands.
    #[track_caller]
    pub fn set_interest(&self, interest: Interest) -> PromiseFuture<()> {
        let token = self.token;
        self.call(move |here| here.set_interest(token, interest).map_err(Error::new))
    }

    /// Unregisters it, on the loop at once, elsewhere in turn with other commands: `on_unregistered`
    /// follows, without a cause. Gives `false` if it was gone already.
    #[track_caller]
    pub fn unregister(&self) -> PromiseFuture<bool> {
        let token = self.token;
        self.call(move |here| Ok(here.detach(token)))
    }

    #[track_caller]
    fn call<R: Send + 'static>(
        &self,
        call: impl FnOnce(&LocalLoop) -> Result<R, Error> + Send + 'static,
    ) -> PromiseFuture<R> {
        if self.sender.in_event_loop()
            && let Some(here) = LocalLoop::current()
        {
            return match call(&here) {
                Ok(value) => self.sender.executor().succeeded(value),
                Err(error) => self.sender.executor().failed(error),
            };
        }
        let (mut promise, future) = self.sender.executor().new_promise();
        let call = move |here: &LocalLoop| {
            if promise.set_uncancellable() {
                promise.complete(call(here));
            }
        };
        if let Err(rejected) = self.sender.send(LoopCommand::of_any_size(call)) {
            return self.sender.executor().failed(rejected.into());
        }
        future
    }
}

impl LocalLoop {
    /// Registers a foreign descriptor with this loop, at once. Its handler need not be `Send`.
    ///
    /// # Errors
    /// If the interest is empty or not supported, the kernel refuses it, or the loop is shutting
    /// down. Descriptor and handler are dropped then.
    #[track_caller]
    pub fn register_foreign<T: 'static>(
        &self,
        foreign: Foreign<T>,
        interest: Interest,
        handler: impl ForeignHandler<T>,
    ) -> io::Result<ForeignHandle> {
        self.register_foreign_from(Origin::here(), foreign, interest, handler)
    }

    fn register_foreign_from<T: 'static>(
        &self,
        origin: Origin,
        foreign: Foreign<T>,
        interest: Interest,
        handler: impl ForeignHandler<T>,
    ) -> io::Result<ForeignHandle> {
        let Foreign { source, io } = foreign;
        let token = self.watch(origin, (io, interest), ForeignRegistrant { source, handler })?;
        Ok(ForeignHandle { sender: self.sender().clone(), token })
    }
}

impl EventLoop {
    /// Registers a foreign descriptor: the loop owns it until it is unregistered.
    ///
    /// The future fails if the interest is empty or not supported, the kernel refuses the descriptor,
    /// or the loop is shut down; descriptor and handler are dropped then.
    #[track_caller]
    pub fn register_foreign<T: Send + Sync + 'static>(
        &self,
        foreign: Foreign<T>,
        interest: Interest,
        handler: impl ForeignHandler<T> + Send,
    ) -> PromiseFuture<ForeignHandle> {
        self.register_foreign_at(None, foreign, interest, handler)
    }

    /// The same, of a loop that was taken for it or not.
    #[track_caller]
    pub(crate) fn register_foreign_at<T: Send + Sync + 'static>(
        &self,
        lease: Option<LoopLease>,
        foreign: Foreign<T>,
        interest: Interest,
        handler: impl ForeignHandler<T> + Send,
    ) -> PromiseFuture<ForeignHandle> {
        let origin = Origin::here();
        let (mut promise, future) = self.new_promise();
        let register = move |here: &LocalLoop| {
            if !promise.set_uncancellable() {
                return;
            }
            let registered = here.register_foreign_from(origin, foreign, interest, handler);
            here.keep(lease);
            promise.complete(registered.map_err(Error::new));
        };
        match self.send(LoopCommand::of_any_size(register)) {
            Ok(()) => future,
            Err(rejected) => self.failed(rejected.into()),
        }
    }
}

/// The registrant behind a foreign registration.
struct ForeignRegistrant<T, H> {
    source: Arc<T>,
    handler: H,
}

impl<T: 'static, H: ForeignHandler<T>> Registrant for ForeignRegistrant<T, H> {
    fn on_event(&mut self, here: &LocalLoop, event: IoEvent) -> Result<(), Error> {
        match event {
            IoEvent::Foreign(token, ready) => {
                let here = here.clone();
                self.handler.on_ready(&self.source, ready, &ForeignContext { here, token })
            }
            IoEvent::Failed(_, error) => Err(Error::new(error)),
            _ => Ok(()),
        }
    }

    fn on_detached(&mut self, _: &LocalLoop, cause: Option<Error>) {
        self.handler.on_unregistered(&self.source, cause);
    }
}

impl<T> fmt::Debug for Foreign<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Foreign").field(&self.io).finish()
    }
}
