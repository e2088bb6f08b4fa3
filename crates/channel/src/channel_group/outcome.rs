//! The outcome of an operation on a group.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use waterwheel_executor::{Error, GlobalExecutor, Promise, PromiseFuture};

use crate::channel::handle::Channel;
use crate::event_loop::handle::EventLoop;
use crate::pipeline::Completion;

/// The future of an operation on a group: completes when all channels are done, and does not fail.
pub type ChannelGroupFuture = PromiseFuture<GroupOutcome>;

/// The outcome of an operation on a group, by channel.
#[derive(Clone)]
pub struct GroupOutcome {
    group: Arc<str>,
    channels: Vec<Channel>,
    /// The failures, each with its index in `channels`, in ascending order.
    failures: Vec<(usize, Error)>,
}

impl GroupOutcome {
    /// Returns the number of channels that the operation was for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.channels.len()
    }

    /// True if the operation was for no channel.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    /// True if the operation succeeded on all channels, or was for none.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.failures.is_empty()
    }

    /// True if the operation succeeded on some channels and failed on others.
    #[must_use]
    pub fn is_partial_success(&self) -> bool {
        !self.is_success() && self.failures.len() < self.len()
    }

    /// Returns the result for a channel; `None` if the operation was not for it.
    #[must_use]
    pub fn find(&self, channel: &Channel) -> Option<Result<(), &Error>> {
        let at = self.channels.iter().position(|asked| asked == channel)?;
        Some(self.result(at))
    }

    /// Returns the result for each channel.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Channel, Result<(), &Error>)> {
        self.channels.iter().enumerate().map(|(at, channel)| (channel, self.result(at)))
    }

    /// Returns the channels on which the operation failed, with the errors.
    pub fn failures(&self) -> impl ExactSizeIterator<Item = (&Channel, &Error)> {
        self.failures.iter().map(|(at, error)| (&self.channels[*at], error))
    }

    /// Converts the outcome to a result with all failures as one error.
    ///
    /// # Errors
    /// The operation failed on at least one channel.
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

/// The number of channels that the text of an error names.
const MAX_NAMED_CHANNELS: usize = 8;

/// An operation that failed on some or all channels of a group. Its text names the first eight of them.
#[derive(Clone, Debug)]
pub struct GroupError(GroupOutcome);

impl GroupError {
    /// Returns the outcome by channel.
    #[must_use]
    pub fn outcome(&self) -> &GroupOutcome {
        &self.0
    }
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (failed, of) = (self.0.failures.len(), self.0.len());
        write!(f, "{failed} of {of} channels of the group `{}` failed:", self.0.group)?;
        for (at, (channel, error)) in self.0.failures().take(MAX_NAMED_CHANNELS).enumerate() {
            let separator = if at == 0 { "" } else { ";" };
            write!(f, "{separator} {channel:?}: {error}")?;
        }
        if failed > MAX_NAMED_CHANNELS {
            write!(f, "; and {} more", failed - MAX_NAMED_CHANNELS)?;
        }
        Ok(())
    }
}

impl std::error::Error for GroupError {}

/// Collects the results, from any thread; the last result completes the promise.
pub(super) struct OutcomeCollector {
    group: Arc<str>,
    channels: Vec<Channel>,
    /// True if a channel that is gone counts as a success, because the operation closes it.
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
        // Release publishes this result, Acquire sees the results of the others.
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

/// Reports the result of one channel. A reporter that is dropped reports that the channel is gone.
pub(super) struct OutcomeReporter {
    /// `None` once the result was reported.
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
