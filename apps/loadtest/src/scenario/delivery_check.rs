//! The account of a run: what was accepted has to be received, once.

use std::rc::Rc;

use super::load_run::LoadRun;
use crate::client::publisher::LoadPublisher;
use crate::client::subscriber::LoadSubscriber;
use crate::delivery::ledger::PublicationLedger;
use crate::delivery::tracker::SequenceTracker;
use crate::report::figure::FigureUnit;
use crate::report::latency::LatencyCurve;
use crate::report::scenario_report::ScenarioReport;
use crate::stop::wait_until;

/// Publications that subscribers did not receive, each counted for each subscriber.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LostCounts {
    /// Lost publications of which the gateway has told: by a gap, or by the number of missed ones.
    pub(super) told: u64,
    pub(super) silent: u64,
}

impl LostCounts {
    /// Splits what a subscriber lost by what it was told.
    fn of(lost: u64, gaps: u64, missed: u64) -> Self {
        let told = if gaps > 0 { lost } else { lost.min(missed) };
        Self { told, silent: lost - told }
    }

    fn of_all(subscribers: &[Rc<LoadSubscriber>], publishers: &[Rc<LoadPublisher>]) -> Self {
        subscribers.iter().fold(Self::default(), |sum, subscriber| {
            let lost = sum_over(subscriber, publishers, SequenceTracker::count_lost);
            let one = Self::of(lost, subscriber.gaps(), subscriber.missed());
            Self { told: sum.told + one.told, silent: sum.silent + one.silent }
        })
    }
}

/// Sums up what `count` says of a subscriber and each publisher.
fn sum_over(
    subscriber: &LoadSubscriber,
    publishers: &[Rc<LoadPublisher>],
    count: impl Fn(&SequenceTracker, &PublicationLedger) -> u64,
) -> u64 {
    subscriber.with_trackers(|trackers| {
        let pairs = trackers.iter().zip(publishers);
        pairs.map(|(tracker, publisher)| count(tracker, &publisher.ledger())).sum()
    })
}

impl LoadRun {
    /// Waits until all answers and all accepted publications have come, or the time for that is over. An interrupted run
    /// does so too, or it would count as lost what is still on its way.
    pub(super) async fn settle(
        &self,
        subscribers: &[Rc<LoadSubscriber>],
        publishers: &[Rc<LoadPublisher>],
    ) {
        self.progress.note("waiting for the last deliveries", 0, 0);
        let is_complete = |subscriber: &Rc<LoadSubscriber>| {
            sum_over(subscriber, publishers, SequenceTracker::count_awaited) == 0
        };
        let is_settled = || {
            let is_answered = publishers.iter().all(|one| one.ledger().unanswered() == 0);
            is_answered && subscribers.iter().all(is_complete)
        };
        wait_until(self.options.settle, is_settled).await;
    }

    /// Adds what was published, received, lost and received twice, with the failures.
    pub(super) fn add_deliveries(
        &self,
        report: &mut ScenarioReport,
        subscribers: &[Rc<LoadSubscriber>],
        publishers: &[Rc<LoadPublisher>],
    ) {
        let sum = |of: &dyn Fn(&LoadPublisher) -> u64| publishers.iter().map(|one| of(one)).sum();
        let refused: u64 = sum(&|publisher| publisher.ledger().refused());
        report.count(
            "published",
            "published and acknowledged",
            sum(&|one| one.ledger().accepted()),
        );
        report.count("received", "received, all subscribers", self.meter.received());
        let lost = LostCounts::of_all(subscribers, publishers);
        report.count("lost_silently", "lost silently", lost.silent);
        report.count("lost_told", "lost, and the client was told", lost.told);
        report.count("duplicates", "received twice", self.meter.duplicates());
        report.latency = LatencyCurve::of(&self.meter.times());
        report.must_be_zero("publications lost silently", lost.silent);
        if !self.options.may_have_gaps {
            report.must_be_zero("publications lost, of which the clients were told", lost.told);
        }
        self.add_violations(report);
        if let Some(why) = publishers.iter().find_map(|publisher| publisher.last_refusal()) {
            report
                .failures
                .push(format!("publications refused: {refused}, the last because of {why}"));
        }
        let unexpected = sum(&|publisher| publisher.unexpected());
        report.must_be_zero("answers that fit no command", unexpected);
        let unanswered = sum(&|publisher| publisher.ledger().unanswered());
        report.must_be_zero("publications without an answer", unanswered);
    }

    /// Adds failures for what a gateway must never do.
    pub(super) fn add_violations(&self, report: &mut ScenarioReport) {
        report.must_be_zero("publications received twice", self.meter.duplicates());
        report.must_be_zero("publications received out of order", self.meter.out_of_order());
        report.must_be_zero("messages that are none of this run", self.meter.unreadable());
    }

    /// Adds the failure that connections were lost, but for so many.
    pub(super) fn add_lost_connections(&self, report: &mut ScenarioReport, but_for: u64) {
        let lost = self.counts.lost().saturating_sub(but_for);
        report.must_be_zero("connections lost", lost);
    }

    /// Adds how many deliveries came in a second, of all subscribers together.
    pub(super) fn add_throughput(&self, report: &mut ScenarioReport) {
        let seconds = self.meter.elapsed().as_secs_f64();
        if seconds > 0.0 {
            let rate = self.meter.received() as f64 / seconds;
            report.figure("received_per_s", "received per second", rate, FigureUnit::PerSecond);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g09_a_loss_is_told_by_a_gap_or_by_its_number() {
        assert_eq!(LostCounts::of(5, 0, 0), LostCounts { told: 0, silent: 5 });
        assert_eq!(LostCounts::of(5, 1, 0), LostCounts { told: 5, silent: 0 });
        assert_eq!(LostCounts::of(5, 0, 3), LostCounts { told: 3, silent: 2 });
        assert_eq!(LostCounts::of(0, 1, 9), LostCounts::default());
    }
}
