//! Foreign descriptors: any descriptor that the driver can watch and that belongs to no channel (L08).
//!
//! A pipe, a timer, the output of a child process, a socket of another library: the loop owns the descriptor while
//! it is registered, calls the handler when the descriptor is ready, and once more when the registration has ended.

use std::fmt;
use std::io;
use std::sync::Arc;

use waterwheel_executor::engine::CommandAccess;
use waterwheel_executor::{CommandSender, Error, Origin, PromiseFuture};

use crate::base::token::Token;
use crate::driver::{Interest, Io, IoEvent, Readiness};
use crate::event_loop::command::LoopCommand;
use crate::event_loop::handle::EventLoop;
use crate::event_loop::local_loop::LocalLoop;
use crate::event_loop::loop_pool::LoopLease;
use crate::event_loop::registrations::Registrant;

/// A descriptor to register with a loop. The driver's crate creates `Foreign` values.
pub struct Foreign<T> {
    source: Arc<T>,
    io: Io,
}

impl<T> Foreign<T> {
    /// Creates a foreign descriptor, for drivers: `io` is the driver's own type, and shares `source`.
    pub fn new(source: Arc<T>, io: Io) -> Self {
        Self { source, io }
    }
}

/// Handles the readiness of a foreign descriptor. Called on the loop.
///
/// [`on_ready`] turns a closure into a handler.
pub trait ForeignHandler<T>: 'static {
    /// Handles readiness, which is level-triggered: if the data is not read, the next turn calls again. An error or a
    /// panic unregisters the descriptor with that cause.
    ///
    /// # Errors
    /// Any error that makes it impossible to continue.
    fn on_ready(
        &mut self,
        source: &T,
        ready: Readiness,
        context: &ForeignContext,
    ) -> Result<(), Error>;

    /// Handles the end of the registration; called exactly once, and last. `cause` is `None` if the descriptor was
    /// unregistered by request.
    fn on_unregistered(&mut self, _source: &T, _cause: Option<Error>) {}
}

/// Turns a closure into a handler.
///
/// A closure handler ignores the end of its registration. To handle the end, implement [`ForeignHandler`] for a type.
pub fn on_ready<T, F>(ready: F) -> OnReady<F>
where
    F: FnMut(&T, Readiness, &ForeignContext) -> Result<(), Error> + 'static,
{
    OnReady(ready)
}

/// A closure as a handler. Created by [`on_ready`].
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

/// The registration of a foreign descriptor, as its handler sees it.
#[derive(Clone, Debug)]
pub struct ForeignContext {
    here: LocalLoop,
    token: Token,
}

impl ForeignContext {
    /// Changes the interest of the registration.
    ///
    /// # Errors
    /// If the interest is empty or unsupported, or the kernel refuses it.
    pub fn set_interest(&self, interest: Interest) -> io::Result<()> {
        self.here.set_interest(self.token, interest)
    }

    /// Unregisters the descriptor: a call to `on_unregistered` follows, without a cause. Returns `false` if it is
    /// already being unregistered.
    pub fn unregister(&self) -> bool {
        self.here.detach(self.token)
    }

    /// Returns the loop that the descriptor is registered with.
    #[must_use]
    pub fn event_loop(&self) -> &LocalLoop {
        &self.here
    }

    /// Returns a handle of this registration, for other threads.
    #[must_use]
    pub fn handle(&self) -> ForeignHandle {
        ForeignHandle { sender: self.here.sender().clone(), token: self.token }
    }
}

/// A handle of a foreign registration, for any thread. Dropping it does not unregister the descriptor.
#[derive(Clone, Debug)]
pub struct ForeignHandle {
    sender: CommandSender<LoopCommand>,
    token: Token,
}

impl ForeignHandle {
    /// Changes the interest of the registration: on the loop at once, from elsewhere by a command.
    #[track_caller]
    pub fn set_interest(&self, interest: Interest) -> PromiseFuture<()> {
        let token = self.token;
        self.run_on_loop(move |here| here.set_interest(token, interest).map_err(Error::new))
    }

    /// Unregisters the descriptor: on the loop at once, from elsewhere by a command. A call to `on_unregistered`
    /// follows, without a cause. Completes with `false` if the descriptor was already unregistered.
    #[track_caller]
    pub fn unregister(&self) -> PromiseFuture<bool> {
        let token = self.token;
        self.run_on_loop(move |here| Ok(here.detach(token)))
    }

    #[track_caller]
    fn run_on_loop<R: Send + 'static>(
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
    /// If the interest is empty or unsupported, the kernel refuses it, or the loop is shutting down. The descriptor
    /// and the handler are dropped then.
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
        let token = self.register_foreign_io(
            origin,
            (io, interest),
            ForeignRegistrant { source, handler },
        )?;
        Ok(ForeignHandle { sender: self.sender().clone(), token })
    }
}

impl EventLoop {
    /// Registers a foreign descriptor: the loop owns it until it is unregistered.
    ///
    /// The future fails if the interest is empty or unsupported, the kernel refuses the descriptor, or the loop is
    /// shut down; the descriptor and the handler are dropped then.
    #[track_caller]
    pub fn register_foreign<T: Send + Sync + 'static>(
        &self,
        foreign: Foreign<T>,
        interest: Interest,
        handler: impl ForeignHandler<T> + Send,
    ) -> PromiseFuture<ForeignHandle> {
        self.register_foreign_with_lease(None, foreign, interest, handler)
    }

    /// Registers a foreign descriptor, with the lease of this loop if there is one.
    #[track_caller]
    pub(crate) fn register_foreign_with_lease<T: Send + Sync + 'static>(
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
            here.keep_lease(lease);
            promise.complete(registered.map_err(Error::new));
        };
        match self.send(LoopCommand::of_any_size(register)) {
            Ok(()) => future,
            Err(rejected) => self.failed(rejected.into()),
        }
    }
}

/// The registrant of a foreign descriptor.
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
