//! What became of something that many channels were asked for.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use waterwheel_executor::{Error, GlobalExecutor, Promise, PromiseFuture};

use crate::channel::handle::Channel;
use crate::event_loop::handle::EventLoop;
use crate::pipeline::Completion;

/// The future of something that the channels of a group were asked for: completes when all of them are
/// done, and does not fail.
pub type ChannelGroupFuture = PromiseFuture<GroupOutcome>;

/// What became of something that the channels of a group were asked for, channel by channel.
#[derive(Clone)]
pub struct GroupOutcome {
    group: Arc<str>,
    channels: Vec<Channel>,
    /// By place in that list, ascending.
    failures: Vec<(usize, Error)>,
}

impl GroupOutcome {
    /// How many channels were asked.
    #[must_use]
    pub fn len(&self) -> usize {
        self.channels.len()
    }

    /// Whether nobody was asked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    /// Whether it succeeded with all of them; if nobody was asked, it did.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.failures.is_empty()
    }

    /// Whether it succeeded with some of them, and with some it did not.
    #[must_use]
    pub fn is_partial_success(&self) -> bool {
        !self.is_success() && self.failures.len() < self.len()
    }

    /// What became of it with this channel, if that was asked.
    #[must_use]
    pub fn find(&self, channel: &Channel) -> Option<Result<(), &Error>> {
        let at = self.channels.iter().position(|asked| asked == channel)?;
        Some(self.result(at))
    }

    /// What became of it with each.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Channel, Result<(), &Error>)> {
        self.channels.iter().enumerate().map(|(at, channel)| (channel, self.result(at)))
    }

    /// Those with whom it failed, and why.
    pub fn failures(&self) -> impl ExactSizeIterator<Item = (&Channel, &Error)> {
        self.failures.iter().map(|(at, error)| (&self.channels[*at], error))
    }

    /// Success, or all failures as one.
    ///
    /// # Errors
    /// It failed with at least one of them.
    pub fn into_result(self) -> Result<(), GroupError> {
        if self.is_success() { Ok(()) } else { Err(GroupError(self)) }
    }

    fn result(&self, at: usize) -> Result<(), &Error> {
        match self.failures.binary_search_by_key(&at, |(at, _)| *at) {
            Ok(failure) => Err(&self.failures[failure].1),
            Err(_) => Ok(()),
        }
    }
}

impl fmt::Debug for GroupOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (failed, of) = (self.failures.len(), self.len());
        write!(f, "GroupOutcome({failed} of {of} channels of `{}` failed)", self.group)
    }
}

/// So many channels are named in the text of an error.
const NAMED: usize = 8;

/// It failed with some channels of a group, or with all. Its text names the first eight of them.
#[derive(Clone, Debug)]
pub struct GroupError(GroupOutcome);

impl GroupError {
    /// What became of it with each.
    #[must_use]
    pub fn outcome(&self) -> &GroupOutcome {
        &self.0
    }
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (failed, of) = (self.0.failures.len(), self.0.len());
        write!(f, "{failed} of {of} channels of the group `{}` failed:", self.0.group)?;
        for (at, (channel, error)) in self.0.failures().take(NAMED).enumerate() {
            let separator = if at == 0 { "" } else { ";" };
            write!(f, "{separator} {channel:?}: {error}")?;
        }
        if failed > NAMED {
            write!(f, "; and {} more", failed - NAMED)?;
        }
        Ok(())
    }
}

impl std::error::Error for GroupError {}

/// Collects the answers. Whichever thread an answer comes from notes it; the last one keeps the promise.
pub(super) struct OutcomeCollector {
    group: Arc<str>,
    channels: Vec<Channel>,
    /// A channel that is gone is what was asked for.
    closed_is_success: bool,
    outstanding: AtomicUsize,
    failures: Mutex<Vec<(usize, Error)>>,
    promise: Mutex<Option<Promise<GroupOutcome>>>,
}

impl OutcomeCollector {
    #[track_caller]
    pub(super) fn begin(
        group: Arc<str>,
        channels: Vec<Channel>,
        closed_is_success: bool,
    ) -> (Arc<Self>, ChannelGroupFuture) {
        let (mut promise, future) = match EventLoop::current() {
            Some(here) => here.new_promise(),
            None => GlobalExecutor::get().new_promise(),
        };
        promise.set_uncancellable();
        let collector = Arc::new(Self {
            group,
            outstanding: AtomicUsize::new(channels.len()),
            channels,
            closed_is_success,
            failures: Mutex::default(),
            promise: Mutex::new(Some(promise)),
        });
        if collector.channels.is_empty() {
            collector.complete();
        }
        (collector, future)
    }

    pub(super) fn reporter(self: &Arc<Self>, at: usize) -> OutcomeReporter {
        OutcomeReporter { collector: Some(self.clone()), at }
    }

    fn record(&self, at: usize, result: Result<(), Error>) {
        if let Err(error) = result {
            self.failures.lock().unwrap_or_else(PoisonError::into_inner).push((at, error));
        }
        // Publishes what was noted, and sees what the others have.
        if self.outstanding.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.complete();
        }
    }

    fn complete(&self) {
        let promise = self.promise.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut failures =
            std::mem::take(&mut *self.failures.lock().unwrap_or_else(PoisonError::into_inner));
        failures.sort_unstable_by_key(|(at, _)| *at);
        let (group, channels) = (self.group.clone(), self.channels.clone());
        if let Some(promise) = promise {
            promise.set_success(GroupOutcome { group, channels, failures });
        }
    }
}

/// The right to say what became of one channel's part. Dropped, it says that the channel is gone.
pub(super) struct OutcomeReporter {
    /// `None` once it was said.
    collector: Option<Arc<OutcomeCollector>>,
    at: usize,
}

impl OutcomeReporter {
    pub(super) fn report(mut self, result: Result<(), Error>) {
        if let Some(collector) = self.collector.take() {
            collector.record(self.at, result);
        }
    }

    pub(super) fn into_completion(self) -> Completion {
        Completion::local(move |result| self.report(result))
    }
}

impl Drop for OutcomeReporter {
    fn drop(&mut self) {
        if let Some(collector) = self.collector.take() {
            let gone = || collector.channels[self.at].closed_error();
            let result = if collector.closed_is_success { Ok(()) } else { Err(gone()) };
            collector.record(self.at, result);
        }
    }
}
