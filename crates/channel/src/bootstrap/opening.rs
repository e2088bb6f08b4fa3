//! Opening a channel: resolving a name, then binding or connecting.

use std::sync::Arc;
use std::time::Duration;

use waterwheel_executor::engine::{CommandAccess, run_user_code};
use waterwheel_executor::{Error, ErrorKind, Origin, Promise, PromiseFuture, UserCode};

use crate::address::{Address, AddressSpec, Resolver};
use crate::channel::handle::Channel;
use crate::channel::handle::new_channel::NewChannel;
use crate::event_loop::command::LoopCommand;
use crate::event_loop::handle::EventLoop;
use crate::event_loop::local_loop::LocalLoop;
use crate::pipeline::{Completion, Pipeline};

/// A channel to be opened on a loop.
pub(super) struct ChannelOpening {
    pub(super) new: NewChannel,
    /// Binds or connects the channel.
    pub(super) operation: OpenOperation,
    /// The time limit for resolving a name.
    pub(super) limit: Option<Duration>,
}

type OpenOperation = Box<dyn FnOnce(Pipeline<'_>, Vec<Address>, Completion) + Send>;

/// A name has no address.
#[derive(Clone, Debug, thiserror::Error)]
enum ResolveError {
    #[error("{name:?} has no address")]
    NoneFound { name: String },
    #[error("{name:?} is not an address, and this transport cannot resolve names")]
    NotResolved { name: String },
    #[error("resolving {name:?} timed out after {after:?}")]
    Timeout { name: String, after: Duration },
}

impl ChannelOpening {
    /// Opens the channel on a loop, at an address or a name.
    #[track_caller]
    pub(super) fn open(
        self,
        at: &EventLoop,
        place: AddressSpec,
        resolver: Option<Arc<dyn Resolver>>,
    ) -> PromiseFuture<Channel> {
        let (promise, future) = at.new_promise();
        match (place, resolver) {
            (AddressSpec::Address(address), _) => self.open_at(at, vec![address], promise),
            (AddressSpec::Name(name), None) => {
                promise.set_failure(Error::new(ResolveError::NotResolved { name }));
            }
            (AddressSpec::Name(name), Some(resolver)) => {
                self.resolve_and_open(at, name, &*resolver, promise)
            }
        }
        future
    }

    /// Registers a channel that is bound or connected already.
    #[track_caller]
    pub(super) fn open_existing(new: NewChannel, at: &EventLoop) -> PromiseFuture<Channel> {
        let (promise, future) = at.new_promise();
        let operation: OpenOperation =
            Box::new(|pipeline, _, done| done.complete(pipeline.expect_active()));
        ChannelOpening { new, operation, limit: None }.open_at(at, Vec::new(), promise);
        future
    }

    /// Opens the channel at the addresses of a name. A lookup that takes too long or is cancelled is given up.
    fn resolve_and_open(
        self,
        at: &EventLoop,
        name: String,
        resolver: &dyn Resolver,
        mut promise: Promise<Channel>,
    ) {
        let (found, addresses) = at.new_promise();
        let (overdue, unwanted) = (addresses.canceller(), addresses.canceller());
        promise.on_cancel(move || _ = unwanted.cancel());
        // A loop that has ended rejects the timer: the opening fails as soon as the name is resolved.
        let timer = self.limit.and_then(|limit| at.schedule(limit, move || overdue.cancel()).ok());
        if let Err(panicked) = run_callback("resolver", || resolver.resolve(&name, found)) {
            if let Some(timer) = timer {
                timer.cancel();
            }
            promise.set_failure(panicked);
            return;
        }
        let at = at.clone();
        addresses.on_complete(move |addresses| {
            if let Some(timer) = timer {
                timer.cancel();
            }
            let failure = match (addresses, self.limit) {
                (Ok(addresses), _) if !addresses.is_empty() => {
                    return self.open_at(&at, addresses, promise);
                }
                (Ok(_), _) => Error::new(ResolveError::NoneFound { name }),
                (Err(error), Some(after)) if error.is_cancelled() => {
                    Error::new(ResolveError::Timeout { name, after })
                }
                (Err(error), _) => error,
            };
            promise.set_failure(failure);
        });
    }

    /// Opens the channel on the loop: at once if the caller is on the loop's thread.
    fn open_at(self, at: &EventLoop, addresses: Vec<Address>, promise: Promise<Channel>) {
        let job = (self, addresses, promise);
        if let Some(here) = LocalLoop::current().filter(|_| at.in_event_loop()) {
            return open_on_loop(&here, job);
        }
        let command = |job| LoopCommand::of_any_size(|here| open_on_loop(here, job));
        if let Err(rejected) = at.send_with(job, command) {
            let error = ErrorKind::Rejected(rejected.reason().clone()).into();
            let (_, _, promise) = rejected.into_task();
            promise.set_failure(error);
        }
    }
}

/// Runs user code that creates a part of the channel, on any thread.
///
/// # Errors
/// The code panicked, which is reported too.
pub(super) fn run_callback<R>(what: &'static str, code: impl FnOnce() -> R) -> Result<R, Error> {
    run_user_code(UserCode::Callback, Origin::labelled(what), code)
}

type OpeningJob = (ChannelOpening, Vec<Address>, Promise<Channel>);

/// Creates the channel, on its loop. Any failure closes it.
fn open_on_loop(here: &LocalLoop, (opening, addresses, mut promise): OpeningJob) {
    if promise.is_cancelled() {
        return;
    }
    let channel = match here.register_with(opening.new, |_| Ok(())) {
        Ok(channel) => channel,
        Err(error) => {
            promise.set_failure(error);
            return;
        }
    };
    let cancelled = channel.clone();
    promise.on_cancel(move || drop(cancelled.close()));
    let opened = channel.clone();
    let done = Completion::local(move |result| match result {
        Ok(()) => {
            promise.set_success(opened);
        }
        Err(error) => {
            drop(opened.close());
            promise.set_failure(error);
        }
    });
    let mut rest = Some((addresses, done));
    here.with_pipeline(&channel, |pipeline| {
        if let Some((addresses, done)) = rest.take() {
            (opening.operation)(pipeline, addresses, done);
        }
    });
    if let Some((_, done)) = rest {
        // A handler has closed the channel while it was registered.
        done.fail(channel.closed_error());
    }
}
