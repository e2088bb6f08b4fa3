//! The clients of a scenario: subscribers and publishers.

use std::rc::Rc;

use waterwheel::executor::Nanos;

use super::load_run::LoadRun;
use crate::client::opening::{OpeningPlan, open_all};
use crate::client::publisher::LoadPublisher;
use crate::client::subscriber::{LoadSubscriber, SubscriberParts};
use crate::delivery::tracker::SequenceTracker;
use crate::error::LoadError;

impl LoadRun {
    /// Returns subscribers without connections. `describe` says, for the number of a client, the topic and the trackers.
    pub(super) fn subscribers(
        &self,
        count: usize,
        describe: impl Fn(usize) -> (Rc<str>, Vec<SequenceTracker>),
    ) -> Vec<Rc<LoadSubscriber>> {
        (0..count).map(|index| self.subscriber(index, describe(index))).collect()
    }

    /// Returns a subscriber without a connection.
    pub(super) fn subscriber(
        &self,
        index: usize,
        (topic, trackers): (Rc<str>, Vec<SequenceTracker>),
    ) -> Rc<LoadSubscriber> {
        let (meter, counts) = (self.meter.clone(), self.counts.clone());
        LoadSubscriber::new(index, SubscriberParts { topic, meter, counts, trackers })
    }

    /// Opens the connections of subscribers. Those that fail try again until `retry_until`. Returns the number of attempts
    /// that failed.
    pub(super) async fn open_subscribers(
        &self,
        subscribers: &[Rc<LoadSubscriber>],
        phase: &'static str,
        retry_until: Option<Nanos>,
    ) -> Result<u64, LoadError> {
        let plan = OpeningPlan {
            in_flight: self.options.in_flight,
            retry_until,
            phase,
            counts: self.counts.clone(),
            progress: self.progress.clone(),
            stop: self.stop.clone(),
        };
        open_all(subscribers, &self.connector, &plan).await
    }

    /// Returns connected publishers.
    pub(super) async fn open_publishers(
        &self,
        count: usize,
    ) -> Result<Vec<Rc<LoadPublisher>>, LoadError> {
        let mut publishers = Vec::with_capacity(count);
        for index in 0..count {
            let publisher = LoadPublisher::new(index);
            publisher.open(&self.connector).await?;
            publishers.push(publisher);
        }
        Ok(publishers)
    }
}

/// Returns a new tracker for each publisher.
pub(super) fn trackers_from_the_start(publishers: usize) -> Vec<SequenceTracker> {
    vec![SequenceTracker::starting_at(0); publishers]
}
