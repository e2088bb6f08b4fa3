//! Futures of the loop that wait for time, or for one another.

use std::future::pending;
use std::time::Duration;

use waterwheel_channel::{Interval, LocalJoin, LocalLoop, interval, sleep, timeout, yield_now};
use waterwheel_testkit::embedded::Embedded;

use crate::support::{drive, drop_at_every_await};

const SECOND: Duration = Duration::from_secs(1);

fn channel() -> Embedded {
    Embedded::new(|_| Ok(())).unwrap()
}

fn advance(channel: &mut Embedded, n: usize) {
    if n == 1 {
        channel.advance(SECOND);
    }
}

#[test]
fn a06_a_dropped_sleep_leaves_no_timer() {
    drop_at_every_await(
        || (channel(), ()),
        |()| Box::pin(async { sleep(SECOND).await }),
        advance,
        |channel, (), output| {
            let timers = channel.channel().event_loop().metrics().timers;
            assert_eq!(timers, 0, "completed: {}", output.is_some());
        },
    );
}

#[test]
fn a06_a_dropped_timeout_leaves_no_timer_and_drops_its_future() {
    drop_at_every_await(
        || (channel(), std::rc::Rc::new(())),
        |held| {
            let held = held.clone();
            Box::pin(async move {
                let waits = async move {
                    let _held = held;
                    pending::<()>().await;
                };
                timeout(SECOND, waits).await.unwrap_err();
            })
        },
        advance,
        |channel, held, _| {
            assert_eq!(std::rc::Rc::strong_count(held), 1);
            assert_eq!(channel.channel().event_loop().metrics().timers, 0);
        },
    );
}

#[test]
fn a06_a_dropped_tick_is_the_next_one() {
    drop_at_every_await(
        || {
            let (mut channel, mut ticks) = (channel(), interval(SECOND));
            drive(&mut channel, ticks.tick());
            let due = channel.now().plus(SECOND);
            (channel, (ticks, due))
        },
        |(ticks, _): &mut (Interval, _)| Box::pin(ticks.tick()),
        advance,
        |channel, (ticks, due), output| {
            let tick = output.unwrap_or_else(|| {
                channel.advance(SECOND);
                drive(channel, ticks.tick())
            });
            assert_eq!(tick, *due);
        },
    );
}

#[test]
fn a06_a_dropped_yield_leaves_nothing() {
    drop_at_every_await(
        || (channel(), ()),
        |()| Box::pin(yield_now()),
        |channel, _| channel.run(),
        |_, (), _| {},
    );
}

#[test]
fn a06_an_outcome_that_was_awaited_in_vain_comes_with_the_next_await() {
    drop_at_every_await(
        || {
            let mut channel = channel();
            let join = channel.on_loop(|_| {
                let here = LocalLoop::current().unwrap();
                here.spawn_local(async {
                    sleep(SECOND).await;
                    42
                })
            });
            channel.run();
            (channel, join)
        },
        |join: &mut LocalJoin<i32>| Box::pin(join),
        advance,
        |channel, join, output| {
            channel.advance(SECOND);
            let outcome = output.unwrap_or_else(|| drive(channel, join));
            assert_eq!(outcome.unwrap(), 42);
        },
    );
}
