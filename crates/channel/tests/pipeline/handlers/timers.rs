//! Timers of handlers, on the embedded channel's clock.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg, TimerId};
use waterwheel_testkit::recorder::{Log, RecordedMethod};

use crate::support::{PipelineFixture, error, started_fixture, text};

const MS: Duration = Duration::from_millis(1);

#[test]
fn c03_timers_fire_in_order_of_deadline_then_of_creation() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last(
            "app",
            log.recorder().holds(RecordedMethod::UserEvent).at(RecordedMethod::UserEvent, |ctx| {
                for (delay, tag) in [(3, 30), (1, 10), (2, 20), (1, 11), (0, 0), (3, 31)] {
                    ctx.schedule(MS * delay, tag);
                }
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.on_loop(|channel| channel.fire_user_event(text("x")));
    fixture.run();
    assert_eq!(fixture.log.take(), ["app on_user_event x", "app on_timer 0"]);
    fixture.advance(MS);
    assert_eq!(fixture.log.take(), ["app on_timer 10", "app on_timer 11"]);
    fixture.advance(MS * 10);
    assert_eq!(fixture.log.take(), ["app on_timer 20", "app on_timer 30", "app on_timer 31"]);
}

#[test]
fn c03_no_timer_fires_early() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last(
            "app",
            log.recorder().at(RecordedMethod::UserEvent, |ctx| {
                ctx.schedule(MS, 1);
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.on_loop(|channel| channel.fire_user_event(text("x")));
    drop(fixture.log.take());
    fixture.advance(MS - Duration::from_nanos(1));
    assert_eq!(fixture.log.take(), Vec::<String>::new());
    fixture.advance(Duration::from_nanos(1));
    assert_eq!(fixture.log.take(), ["app on_timer 1"]);
}

#[test]
fn c03_a_cancelled_timer_does_not_fire() {
    let taken = Rc::new(Cell::new([false; 3]));
    let into = taken.clone();
    let kept: Rc<Cell<Option<TimerId>>> = Rc::default();
    let mut fixture = started_fixture(|edit, log| {
        let app = log.recorder().at(RecordedMethod::UserEvent, move |ctx| {
            let timer = ctx.schedule(MS, 1);
            kept.set(Some(ctx.schedule(MS, 2)));
            into.set([ctx.cancel(timer), ctx.cancel(timer), false]);
            let (into, kept) = (into.clone(), kept.clone());
            let later = ctx.to_local();
            ctx.event_loop().spawn_local(async move {
                waterwheel_channel::sleep(MS * 2).await;
                let run = later.run(move |ctx| {
                    let due = kept.get().is_some_and(|timer| ctx.cancel(timer));
                    into.set([into.get()[0], into.get()[1], due]);
                });
                assert!(run.is_ok());
            });
            Ok(())
        });
        edit.add_last("app", app)?;
        Ok(())
    });
    fixture.on_loop(|channel| channel.fire_user_event(text("x")));
    fixture.advance(MS * 5);
    assert_eq!(fixture.log.take(), ["app on_user_event x", "app on_timer 2"]);
    assert_eq!(taken.get(), [true, false, false], "cancelled once, and not after it fired");
}

#[test]
fn c03_a_handler_cannot_cancel_the_timer_of_another() {
    let timer: Rc<Cell<Option<TimerId>>> = Rc::default();
    let (theirs, mine) = (timer.clone(), timer);
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last(
            "a",
            log.recorder().at(RecordedMethod::UserEvent, move |ctx| {
                theirs.set(Some(ctx.schedule(MS, 1)));
                Ok(())
            }),
        )?;
        edit.add_last(
            "b",
            log.recorder().at(RecordedMethod::UserEvent, move |ctx| {
                assert!(!ctx.cancel(mine.get().expect("the value was set")));
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.on_loop(|channel| channel.fire_user_event(text("x")));
    fixture.advance(MS);
    assert_eq!(fixture.log.take().last().map(String::as_str), Some("a on_timer 1"));
}

#[test]
fn c03_timers_are_cancelled_with_their_handler() {
    let mut fixture = started_fixture(|edit, log| {
        for name in ["a", "b"] {
            edit.add_last(
                name,
                log.recorder()
                    .at(RecordedMethod::UserEvent, |ctx| {
                        ctx.schedule(MS, 1);
                        Ok(())
                    })
                    .at(RecordedMethod::Removed, |ctx| {
                        ctx.schedule(MS, 2);
                        Ok(())
                    }),
            )?;
        }
        Ok(())
    });
    fixture.on_loop(|channel| channel.fire_user_event(text("x")));
    let log = fixture.log.clone();
    fixture.with_pipeline(move |pipeline| {
        pipeline.remove("a").expect("it is there");
        // At the same position and under the same name.
        pipeline.add_first("a", log.recorder()).expect("the handler can be added");
    });
    drop(fixture.log.take());
    fixture.advance(MS * 5);
    assert_eq!(fixture.log.take(), ["b on_timer 1"]);
}

#[test]
fn c03_timers_are_cancelled_with_their_channel() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last(
            "app",
            log.recorder().at(RecordedMethod::UserEvent, |ctx| {
                ctx.schedule(MS, 1);
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.on_loop(|channel| channel.fire_user_event(text("x")));
    fixture.close();
    drop(fixture.log.take());
    fixture.advance(MS * 5);
    assert_eq!(fixture.log.take(), Vec::<String>::new());
}

#[test]
fn c03_a_timer_may_schedule_the_next_one() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last(
            "app",
            log.recorder()
                .at(RecordedMethod::Added, |ctx| {
                    ctx.schedule(MS, 1);
                    Ok(())
                })
                .at(RecordedMethod::Timer, |ctx| {
                    ctx.schedule(MS, 1);
                    Ok(())
                }),
        )?;
        Ok(())
    });
    for _ in 0..5 {
        fixture.advance(MS);
        assert_eq!(fixture.log.take(), ["app on_timer 1"]);
    }
}

#[test]
fn c05_rule_10_the_error_of_a_timer_goes_to_the_handlers_error_method() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last(
            "app",
            log.recorder()
                .at(RecordedMethod::Added, |ctx| {
                    ctx.schedule(MS, 1);
                    Ok(())
                })
                .at(RecordedMethod::Timer, |_| Err(error("no"))),
        )?;
        Ok(())
    });
    fixture.advance(MS);
    assert_eq!(fixture.log.take(), ["app on_timer 1", "app on_error no"]);
}

/// At the first event schedules a timer, then sends itself an event for each one it gets, until `left` is zero.
struct LongBacklog {
    left: u32,
    /// True if the timer is cancelled before the last event.
    cancels: bool,
    timer: Option<TimerId>,
    log: Log,
}

impl Handler for LongBacklog {
    fn on_user_event(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        let timer = *self.timer.get_or_insert_with(|| ctx.schedule(Duration::ZERO, 7));
        if self.left == 1 && self.cancels {
            self.log.push(format!("cancelled: {}", ctx.cancel(timer)));
        }
        if self.left > 0 {
            self.left -= 1;
            ctx.pipeline().fire_user_event(());
        } else {
            self.log.push("last event".to_owned());
        }
        Ok(())
    }

    fn on_timer(&mut self, _: &Ctx<'_>, tag: u32) -> HandlerResult {
        self.log.push(format!("timer {tag}"));
        Ok(())
    }
}

/// Delivers more events than a channel does before tasks and timers of its loop get a turn.
fn long_backlog(cancels: bool) -> PipelineFixture {
    let mut fixture = started_fixture(|edit, log| {
        let app = LongBacklog { left: 20_000, cancels, timer: None, log: log.clone() };
        edit.add_last("app", app)?;
        Ok(())
    });
    fixture.fire_user_event(());
    fixture.advance(MS);
    fixture
}

#[test]
fn c03_a_timer_that_is_due_while_a_long_backlog_is_delivered_fires_after_it() {
    let fixture = long_backlog(false);
    assert_eq!(fixture.log.take(), ["last event", "timer 7"], "it is not lost, and fires once");
}

#[test]
fn c03_a_timer_that_waits_for_a_long_backlog_can_be_cancelled() {
    let fixture = long_backlog(true);
    assert_eq!(fixture.log.take(), ["cancelled: true", "last event"]);
}
