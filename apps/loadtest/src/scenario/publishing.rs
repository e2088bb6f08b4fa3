//! Publishing: at a rate, or as fast as what was published is received.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use waterwheel::channel::{sleep_until, timeout, yield_now};
use waterwheel::executor::{Clock, Nanos};

use super::load_run::LoadRun;
use crate::client::publisher::LoadPublisher;
use crate::wire::command::PublishTemplate;

/// Publications that are sent in a row when they are due, before other work of the loop.
const AT_A_TIME: u64 = 64;

/// How to publish.
#[derive(Clone, Debug)]
pub(crate) struct PublishingPlan {
    pub(crate) pace: PublishingPace,
    /// The end, unless the scenario ends it before; none if only the scenario does.
    pub(crate) duration: Option<Duration>,
    /// True once the scenario ends it.
    pub(crate) is_ended: Rc<Cell<bool>>,
}

/// When the next publication is due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PublishingPace {
    /// Publications per second, all publishers together. Times count from when a publication was due, whether or not it could
    /// be sent then: a gateway that stops for a second is charged for all that was due in it.
    Rate(f64),
    /// The next one as soon as all but so many publications were received by all subscribers.
    Window {
        /// Publications on their way.
        publications: u64,
        /// The subscribers of each.
        subscribers: u64,
    },
}

impl LoadRun {
    /// Publishes by turns. `template` makes the commands of a publisher.
    pub(super) async fn publish(
        &self,
        publishers: &[Rc<LoadPublisher>],
        templates: &[PublishTemplate],
        plan: &PublishingPlan,
    ) {
        let start = Clock::Monotonic.now();
        let end = plan.duration.map_or(Nanos::MAX, |duration| start.plus(duration));
        let mut sent: u64 = 0;
        let mut in_a_row = 0;
        let mut noted = None;
        while !self.stop.is_set() && !plan.is_ended.get() {
            let due = match plan.pace {
                PublishingPace::Rate(rate) => {
                    start.plus(Duration::from_secs_f64(sent as f64 / rate))
                }
                PublishingPace::Window { publications, subscribers } => {
                    let least = (sent + 1).saturating_sub(publications) * subscribers;
                    let left = end.since(Clock::Monotonic.now());
                    if timeout(left, self.meter.received_at_least(least)).await.is_err() {
                        return;
                    }
                    Clock::Monotonic.now()
                }
            };
            if due >= end {
                return;
            }
            in_a_row += 1;
            if due > Clock::Monotonic.now() {
                in_a_row = 0;
                self.wait_until(due, plan).await;
                continue;
            }
            if in_a_row % AT_A_TIME == 0 {
                yield_now().await;
            }
            let at = (sent % publishers.len() as u64) as usize;
            publishers[at].publish(&templates[at], due);
            sent += 1;
            if let Some(duration) = plan.duration {
                // Once a second: a note wakes the thread that shows it.
                let done = due.since(start).as_secs();
                if noted.replace(done) != Some(done) {
                    self.progress.note("publishing, seconds", done, duration.as_secs());
                }
            }
        }
    }

    /// Waits until a publication is due, in steps after which an end is noticed.
    async fn wait_until(&self, due: Nanos, plan: &PublishingPlan) {
        const LOOK: Duration = Duration::from_millis(50);
        while !self.stop.is_set() && !plan.is_ended.get() {
            let now = Clock::Monotonic.now();
            if now >= due {
                return;
            }
            sleep_until(due.min(now.plus(LOOK))).await;
        }
    }
}
