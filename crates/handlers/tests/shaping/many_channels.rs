//! Two hundred channels on loops of their own share one limiter: the sum, and the wake-ups it takes.

use bytes::Bytes;
use waterwheel_channel::{Ctx, Events, Handler, HandlerResult, Msg};
use waterwheel_handlers::{TrafficLimiter, TrafficRate, TrafficShaping};
use waterwheel_testkit::embedded::Embedded;

use crate::support::{MS, numbered};

const CHANNELS: usize = 200;
const RATE: u64 = 2_000_000;

/// Writes as long as the channel is writable.
struct Flood;

impl Flood {
    fn fill(ctx: &Ctx<'_>) {
        while ctx.is_writable() {
            ctx.write(Bytes::from_static(&[0; 4096]));
        }
        ctx.flush();
    }
}

impl Handler for Flood {
    fn interest(&self) -> Events {
        Events::ACTIVE | Events::WRITABILITY_CHANGED
    }

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        Self::fill(ctx);
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        Self::fill(ctx);
        Ok(())
    }
}

fn channels(shaping: &TrafficShaping, flood: bool) -> Vec<Embedded> {
    let build = |_| {
        let channel = Embedded::builder().stream().build(|edit| {
            edit.add_last("shaping", shaping.handler())?;
            if flood {
                edit.add_last("flood", Flood)?;
            }
            Ok(())
        });
        let mut channel = channel.unwrap();
        channel.run();
        channel
    };
    (0..CHANNELS).map(build).collect()
}

/// Returns the bytes that `count` finds in each channel after each half second.
fn run(
    channels: &mut [Embedded],
    mut count: impl FnMut(&mut Embedded) -> usize,
) -> Vec<Vec<usize>> {
    let mut counts = Vec::new();
    for step in 1..=750 {
        channels.iter_mut().for_each(|channel| channel.advance(MS * 2));
        if step % 250 == 0 {
            counts.push(channels.iter_mut().map(&mut count).collect());
        }
    }
    counts
}

fn assert_within_five_percent(counts: &[Vec<usize>]) {
    let sum = |at: usize| counts[at].iter().sum::<usize>() as u64;
    let first_second = sum(0) + sum(1);
    assert!(first_second.abs_diff(RATE) <= RATE / 20, "{first_second} bytes in the first second");
    assert!(sum(2).abs_diff(RATE / 2) <= RATE / 40, "{} bytes in the next half", sum(2));
}

#[test]
fn k08_the_writes_of_two_hundred_channels_are_within_five_percent_of_the_limit_after_a_second() {
    let group = TrafficLimiter::new(TrafficRate::per_second(RATE));
    let shaping = TrafficShaping::builder().write_group(&group).no_longest_delay().build().unwrap();
    let mut channels = channels(&shaping, true);
    let counts = run(&mut channels, |channel| {
        std::iter::from_fn(|| channel.read_outbound::<Bytes>()).map(|bytes| bytes.len()).sum()
    });
    assert_within_five_percent(&counts);
    // A turn is 20,000 bytes: a hundred turns in a second, so half of the channels had one.
    let served = (0..CHANNELS).filter(|at| counts[0][*at] + counts[1][*at] + counts[2][*at] > 0);
    assert!(served.count() >= 140);
}

#[test]
fn k08_the_reads_of_two_hundred_channels_are_within_five_percent_of_the_limit_after_a_second() {
    let group = TrafficLimiter::new(TrafficRate::per_second(RATE));
    let shaping = TrafficShaping::builder().read_group(&group).no_longest_delay().build().unwrap();
    let mut channels = channels(&shaping, false);
    for channel in &mut channels {
        channel.write_inbound_all((0..40).map(|_| Msg::from(numbered(2000))));
    }
    let counts = run(&mut channels, |channel| {
        std::iter::from_fn(|| channel.read_inbound::<Bytes>()).map(|bytes| bytes.len()).sum()
    });
    assert_within_five_percent(&counts);
}

#[test]
fn k08_both_limits_hold_for_two_hundred_channels() {
    let group = TrafficLimiter::new(TrafficRate::per_second(RATE));
    let each = TrafficRate::per_second(15_000);
    let shaping = TrafficShaping::builder().write_group(&group).channel_write(each);
    let shaping = shaping.no_longest_delay().build().unwrap();
    let mut channels = channels(&shaping, true);
    let counts = run(&mut channels, |channel| {
        std::iter::from_fn(|| channel.read_outbound::<Bytes>()).map(|bytes| bytes.len()).sum()
    });
    assert_within_five_percent(&counts);
    for at in 0..CHANNELS {
        let sent: usize = counts.iter().map(|half| half[at]).sum();
        assert!((10_000..=15_000 * 3 / 2 + 3000).contains(&sent), "channel {at}: {sent}");
    }
}
