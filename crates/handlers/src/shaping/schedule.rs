//! The arithmetic of a rate limit, without clock, lock or channel.
//!
//! Bytes are a stream of positions. `issued` is the position after the last byte that was given to a taker, `granted`
//! the position up to which time has paid:
//!
//! ```text
//!                  granted grows with time, at most to issued + burst
//!                     ▼
//!   ──────────────────┼───────────────┬─────────┬──────► bytes
//!      passed         │   ticket a    │ ticket b│
//!                     └ a is due when `granted` reaches its end   ▲ issued
//! ```
//!
//! 1. A ticket is a place in the stream. Tickets become due in the order in which they were issued, each taker has at
//!    most one, and none is larger than a quantum: takers alternate, and a greedy one waits for all others between two
//!    of its tickets.
//! 2. A change of the rate moves no ticket. Only the time at which `granted` reaches it changes.
//! 3. Debt (a message larger than its ticket, bytes that were read before anybody could ask) lowers `granted`: all
//!    tickets become due later.
//! 4. Positions are counted in units of a byte divided by 10⁹, the bytes that a rate of one grants in a nanosecond. So
//!    every sum is exact, whatever the intervals are, and nothing drifts.

use waterwheel_executor::Nanos;

use super::rate::TrafficRate;

/// Units of position per byte: nanoseconds per second.
const UNITS_PER_BYTE: i128 = 1_000_000_000;

/// The positions of a rate limit. See the module's documentation.
#[derive(Debug)]
pub(super) struct RateSchedule {
    /// The rate; `None` for no limit.
    rate: Option<TrafficRate>,
    /// The time up to which `granted` has grown.
    at: Nanos,
    granted: i128,
    issued: i128,
}

/// A place in the stream of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    end: i128,
    pub(super) bytes: u64,
}

impl RateSchedule {
    /// Creates a schedule with a full burst.
    pub(super) fn new(rate: Option<TrafficRate>) -> Self {
        let granted = rate.map_or(0, |rate| units(rate.burst()));
        Self { rate, at: Nanos::default(), granted, issued: 0 }
    }

    pub(super) fn rate(&self) -> Option<TrafficRate> {
        self.rate
    }

    /// Changes the rate. Time before `now` counts at the old rate. A limit where there was none begins with a full burst.
    pub(super) fn set_rate(&mut self, rate: Option<TrafficRate>, now: Nanos) {
        self.grant_until(now);
        match (self.rate, rate) {
            (None, Some(rate)) => self.granted = self.most_granted(rate),
            (Some(_), Some(rate)) => self.granted = self.granted.min(self.most_granted(rate)),
            (_, None) => {}
        }
        self.rate = rate;
    }

    /// Takes `bytes` if they are paid already. Returns false, and takes nothing, if they are not.
    pub(super) fn try_take(&mut self, bytes: u64, now: Nanos) -> bool {
        self.grant_until(now);
        let end = self.issued.saturating_add(units(bytes));
        let fits = self.rate.is_none() || end <= self.granted;
        if fits && self.rate.is_some() {
            self.issued = end;
        }
        fits
    }

    /// Issues a ticket for the next `bytes`.
    pub(super) fn issue(&mut self, bytes: u64, now: Nanos) -> Ticket {
        self.grant_until(now);
        if self.rate.is_some() {
            self.issued = self.issued.saturating_add(units(bytes));
        }
        Ticket { end: self.issued, bytes }
    }

    /// Returns when a ticket is due: `now` if it is due already, [`Nanos::MAX`] if the rate is zero.
    pub(super) fn due(&mut self, ticket: Ticket, now: Nanos) -> Nanos {
        self.grant_until(now);
        let Some(rate) = self.rate else { return now };
        let missing = ticket.end.saturating_sub(self.granted);
        if missing <= 0 {
            return now;
        }
        let wait = div_ceil(missing.unsigned_abs(), u128::from(rate.bytes_per_second()));
        // `at` is later than `now` if another loop has read its clock later.
        Nanos(u64::try_from(wait.saturating_add(u128::from(self.at.0))).unwrap_or(u64::MAX))
    }

    /// Adds `bytes` to the debt. Returns true if nothing is left for the next taker.
    pub(super) fn charge(&mut self, bytes: u64, now: Nanos) -> bool {
        self.grant_until(now);
        if self.rate.is_none() {
            return false;
        }
        self.granted = self.granted.saturating_sub(units(bytes));
        self.granted <= self.issued
    }

    /// Gives back bytes that were taken, issued or charged, and not used.
    pub(super) fn give_back(&mut self, bytes: u64) {
        if let Some(rate) = self.rate {
            let granted = self.granted.saturating_add(units(bytes));
            self.granted = granted.min(self.most_granted(rate));
        }
    }

    fn grant_until(&mut self, now: Nanos) {
        let elapsed = now.0.saturating_sub(self.at.0);
        self.at = self.at.max(now);
        let Some(rate) = self.rate else { return };
        let gain = u128::from(rate.bytes_per_second()) * u128::from(elapsed);
        let gain = i128::try_from(gain).unwrap_or(i128::MAX);
        self.granted = self.granted.saturating_add(gain).min(self.most_granted(rate));
    }

    fn most_granted(&self, rate: TrafficRate) -> i128 {
        self.issued.saturating_add(units(rate.burst()))
    }
}

fn units(bytes: u64) -> i128 {
    i128::from(bytes) * UNITS_PER_BYTE
}

/// Divides and rounds up. The quotient by zero is the largest value.
fn div_ceil(a: u128, b: u128) -> u128 {
    if b == 0 { u128::MAX } else { a.div_ceil(b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn schedule(rate: u64, burst: u64) -> RateSchedule {
        RateSchedule::new(Some(TrafficRate::per_second(rate).with_burst(burst)))
    }

    #[test]
    fn k08_a_burst_passes_at_once_and_then_the_rate() {
        let mut schedule = schedule(1000, 5000);
        assert!(schedule.try_take(5000, Nanos(SECOND)));
        assert!(!schedule.try_take(1, Nanos(SECOND)));
        let ticket = schedule.issue(250, Nanos(SECOND));
        assert_eq!(schedule.due(ticket, Nanos(SECOND)), Nanos(SECOND + SECOND / 4));
        assert_eq!(schedule.due(ticket, Nanos(2 * SECOND)), Nanos(2 * SECOND));
    }

    #[test]
    fn k08_tickets_are_due_in_order_and_a_change_of_the_rate_moves_none() {
        let mut schedule = schedule(1000, 2000);
        assert!(schedule.try_take(2000, Nanos(0)));
        let (a, b) = (schedule.issue(500, Nanos(0)), schedule.issue(500, Nanos(0)));
        assert_eq!(schedule.due(a, Nanos(0)), Nanos(SECOND / 2));
        assert_eq!(schedule.due(b, Nanos(0)), Nanos(SECOND));
        schedule.set_rate(Some(TrafficRate::per_second(5000)), Nanos(SECOND / 4));
        assert_eq!(schedule.due(a, Nanos(SECOND / 4)), Nanos(SECOND / 4 + SECOND / 20));
        assert_eq!(schedule.due(b, Nanos(SECOND / 4)), Nanos(SECOND / 4 + 3 * SECOND / 20));
        schedule.set_rate(Some(TrafficRate::per_second(0)), Nanos(SECOND / 4));
        assert_eq!(schedule.due(a, Nanos(SECOND)), Nanos::MAX);
        schedule.set_rate(None, Nanos(SECOND));
        assert_eq!(schedule.due(b, Nanos(SECOND)), Nanos(SECOND));
    }

    #[test]
    fn k08_odd_intervals_do_not_drift() {
        let mut schedule = schedule(7, 14);
        assert!(schedule.try_take(14, Nanos(0)));
        let (mut now, mut taken) = (0u64, 0);
        for step in 0..1_000_000u64 {
            now += 1 + step % 3333; // No step is long enough for a whole byte.
            taken += u64::from(schedule.try_take(1, Nanos(now)));
        }
        assert_eq!(taken, 7 * now / SECOND);
    }

    #[test]
    fn k08_jumps_of_the_clock_grant_a_burst_at_most() {
        let mut schedule = schedule(1000, 3000);
        assert!(schedule.try_take(3000, Nanos(SECOND)));
        assert!(schedule.try_take(3000, Nanos(u64::MAX)), "far ahead");
        assert!(!schedule.try_take(1, Nanos(u64::MAX)));
        assert!(!schedule.try_take(1, Nanos(5)), "and back");
    }

    #[test]
    fn k08_huge_values_saturate() {
        let mut schedule = schedule(u64::MAX, u64::MAX);
        assert!(schedule.try_take(u64::MAX, Nanos(0)));
        assert!(schedule.try_take(u64::MAX, Nanos(u64::MAX)));
        let ticket = schedule.issue(u64::MAX, Nanos(u64::MAX));
        assert_eq!(schedule.due(ticket, Nanos(u64::MAX)), Nanos::MAX);
        for _ in 0..100 {
            schedule.charge(u64::MAX, Nanos(0));
            schedule.issue(u64::MAX, Nanos(0));
        }
        schedule.give_back(u64::MAX);
        let mut slow = super::tests::schedule(1, 0);
        let ticket = slow.issue(u64::MAX, Nanos(0));
        assert_eq!(slow.due(ticket, Nanos(0)), Nanos::MAX);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take(u64),
        Issue(u64),
        Charge(u64),
        GiveBack(u64),
        SetRate(u64, u64),
    }

    fn step() -> impl Strategy<Value = (u64, Step)> {
        let bytes = || prop_oneof![0u64..20, 0u64..20_000, Just(1_000_000)];
        let after = prop_oneof![0u64..10, 0u64..SECOND, Just(0), Just(3 * SECOND)];
        let step = prop_oneof![
            bytes().prop_map(Step::Take),
            bytes().prop_map(Step::Issue),
            bytes().prop_map(Step::Charge),
            bytes().prop_map(Step::GiveBack),
            (0u64..20_000, bytes()).prop_map(|(rate, burst)| Step::SetRate(rate, burst)),
        ];
        (after, step)
    }

    /// Keeps the history and computes everything from its start: the level of a bucket, and the bytes issued after a
    /// ticket. A time is found by trying, not by dividing.
    #[derive(Clone)]
    struct SlowReference {
        start: TrafficRate,
        history: Vec<(u64, Step)>,
    }

    impl SlowReference {
        /// Returns the level of the bucket in billionths of a byte; negative while tickets wait.
        fn level_at(&self, now: u64) -> i128 {
            let mut rate = self.start;
            let cap = |rate: TrafficRate| i128::from(rate.burst()) * i128::from(SECOND);
            let (mut level, mut at) = (cap(rate), 0);
            let end = (now, Step::Charge(0));
            for (time, step) in self.history.iter().chain([&end]) {
                let gain = i128::from(time - at) * i128::from(rate.bytes_per_second());
                level = (level + gain).min(cap(rate));
                at = *time;
                match step {
                    Step::Take(n) | Step::Issue(n) | Step::Charge(n) => {
                        level -= i128::from(*n) * i128::from(SECOND);
                    }
                    Step::GiveBack(n) => {
                        level = (level + i128::from(*n) * i128::from(SECOND)).min(cap(rate));
                    }
                    Step::SetRate(new, burst) => {
                        rate = TrafficRate::per_second(*new).with_burst(*burst);
                        level = level.min(cap(rate));
                    }
                }
            }
            level
        }

        /// True if the ticket that was issued before `issued_after` more bytes is due.
        fn is_due(&self, issued_after: u64, now: u64) -> bool {
            self.level_at(now) + i128::from(issued_after) * i128::from(SECOND) >= 0
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

        #[test]
        fn k08_the_schedule_agrees_with_a_slow_reference(
            rate in 0u64..20_000, burst in 0u64..50_000, steps in prop::collection::vec(step(), 1..40),
        ) {
            let start = TrafficRate::per_second(rate).with_burst(burst);
            let mut schedule = RateSchedule::new(Some(start));
            let mut reference = SlowReference { start, history: Vec::new() };
            let mut tickets: Vec<(Ticket, u64)> = Vec::new();
            let mut now = 0;
            for (after, step) in steps {
                now += after;
                match step {
                    Step::Take(n) => {
                        let fits = reference.level_at(now) >= i128::from(n) * i128::from(SECOND);
                        prop_assert_eq!(schedule.try_take(n, Nanos(now)), fits);
                        if !fits { continue; }
                        tickets.iter_mut().for_each(|(_, later)| *later += n);
                    }
                    Step::Issue(n) => {
                        tickets.iter_mut().for_each(|(_, later)| *later += n);
                        tickets.push((schedule.issue(n, Nanos(now)), 0));
                    }
                    Step::Charge(n) => {
                        schedule.charge(n, Nanos(now));
                    }
                    Step::GiveBack(n) => {
                        schedule.charge(0, Nanos(now));
                        schedule.give_back(n);
                    }
                    Step::SetRate(rate, burst) => {
                        let rate = TrafficRate::per_second(rate).with_burst(burst);
                        schedule.set_rate(Some(rate), Nanos(now));
                    }
                }
                reference.history.push((now, step));
                for (ticket, later) in &tickets {
                    let due = schedule.due(*ticket, Nanos(now)).0;
                    if due == u64::MAX {
                        prop_assert!(!reference.is_due(*later, now + 1_000_000 * SECOND));
                    } else {
                        prop_assert!(reference.is_due(*later, due));
                        prop_assert!(due == now || !reference.is_due(*later, due - 1));
                    }
                }
            }
        }
    }
}
