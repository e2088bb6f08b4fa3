//! Allocations of events that pass through a pipeline: none.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{
    Completion, Ctx, Edit, Events, Handler, HandlerResult, Msg, Name, SlotId,
};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

use crate::counting_allocator::allocations_in;

const ROUNDS: usize = 200;

/// Returns the allocations of `ROUNDS` rounds after a warm-up.
fn allocated(channel: &mut Embedded, mut round: impl FnMut(&mut Embedded)) -> u64 {
    let mut run = || {
        for _ in 0..ROUNDS {
            round(channel);
        }
    };
    run();
    allocations_in(run).0
}

struct Pass;

impl Handler for Pass {}

struct Echo;

impl Handler for Echo {
    fn interest(&self) -> Events {
        Events::READ | Events::READ_COMPLETE
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write(msg);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }
}

fn passing(slots: usize) -> impl FnOnce(&mut Edit<'_>) -> Result<(), Error> {
    move |edit| {
        for _ in 0..slots {
            edit.add_last(Name::auto(), Pass)?;
        }
        Ok(())
    }
}

fn embedded(slots: usize) -> Embedded {
    Embedded::builder().stream().build(passing(slots)).unwrap()
}

#[test]
fn c06_a_hop_allocates_nothing() {
    let mut channel = embedded(10);
    let fire = |channel: &mut Embedded| {
        channel.with_pipeline(|pipeline| {
            pipeline.fire_read_complete();
            pipeline.fire_user_event(()); // A box of a zero-sized value does not allocate.
        });
    };
    // Entering the loop of an embedded channel allocates: measured without an event.
    let nothing = allocated(&mut channel, |channel| {
        channel.with_pipeline(|_| ());
    });
    assert_eq!(allocated(&mut channel, fire), nothing);
}

#[test]
fn c06_bytes_go_in_and_out_through_ten_handlers_without_an_allocation() {
    let mut channel = embedded(10);
    channel.with_pipeline(|pipeline| pipeline.add_last("echo", Echo).unwrap());
    let echo = |channel: &mut Embedded| {
        channel.on_loop(|_| ()); // The allocation for entering the loop is not part of the measurement.
        channel.write_inbound(Bytes::from_static(b"hello"));
        assert!(channel.read_outbound_any().is_some());
    };
    let nothing = allocated(&mut channel, |channel| {
        channel.on_loop(|_| ());
        channel.on_loop(|_| ());
        channel.run();
    });
    assert_eq!(allocated(&mut channel, echo), nothing);
}

#[test]
fn c08_writes_on_the_loop_allocate_nothing() {
    let mut channel = embedded(3);
    let costs = |channel: &mut Embedded| {
        let (count, ()) = channel.on_loop(|channel| {
            let send = || {
                for _ in 0..ROUNDS {
                    channel.send(Bytes::from_static(b"hello"));
                }
            };
            send();
            allocations_in(send)
        });
        while channel.read_outbound_any().is_some() {}
        count
    };
    costs(&mut channel);
    assert_eq!(costs(&mut channel), 0);
}

#[test]
fn c07_writes_with_completions_allocate_nothing_of_their_own() {
    let mut channel = embedded(3);
    let nothing = allocated(&mut channel, |channel| {
        channel.with_pipeline(|_| ());
        while channel.read_outbound_any().is_some() {}
    });
    let written = allocated(&mut channel, |channel| {
        channel.with_pipeline(|pipeline| {
            for _ in 0..3 {
                // The box of a closure that captures nothing is no allocation.
                let done = Completion::local(|result| assert!(result.is_ok()));
                pipeline.write_and_flush_with(Bytes::from_static(b"hello"), done);
            }
        });
        while channel.read_outbound_any().is_some() {}
    });
    assert_eq!(written, nothing);
}

/// Writes through its whole pipeline while it runs: the writes are deferred.
struct Reentrant;

impl Handler for Reentrant {
    fn on_user_event(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        for _ in 0..10 {
            ctx.pipeline().write(Bytes::from_static(b"again"));
        }
        ctx.flush();
        Ok(())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        ctx.write_with(msg, done.take());
        Ok(())
    }
}

#[test]
fn c05_events_that_wait_at_a_busy_handler_allocate_nothing() {
    let mut channel = embedded(0);
    channel.with_pipeline(|pipeline| pipeline.add_last("again", Reentrant).unwrap());
    let costs = |channel: &mut Embedded| {
        let (count, _) = channel.on_loop(|channel| {
            allocations_in(|| (0..ROUNDS).for_each(|_| channel.fire_user_event(())))
        });
        while channel.read_outbound_any().is_some() {}
        count
    };
    costs(&mut channel);
    assert_eq!(costs(&mut channel), 0);
}

/// Schedules a timer for each timer that fires.
struct Ticking;

impl Handler for Ticking {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.schedule(Duration::from_millis(1), 0);
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, tag: u32) -> HandlerResult {
        ctx.schedule(Duration::from_millis(1), tag + 1);
        Ok(())
    }
}

#[test]
fn c04_a_timer_of_a_handler_allocates_nothing() {
    let add = |edit: &mut Edit<'_>| edit.add_last("tick", Ticking).map(drop).map_err(Error::from);
    let mut channel = Embedded::new(add).unwrap();
    let tick = allocated(&mut channel, |channel| channel.advance(Duration::from_millis(1)));
    let nothing = allocated(&mut channel, Embedded::run);
    assert_eq!(tick, nothing);
}

#[test]
fn c03_a_slot_is_reused() {
    let mut channel = embedded(1);
    let slots: Vec<SlotId> = (0..100)
        .map(|_| {
            let added = channel.with_pipeline(|pipeline| {
                let slot = pipeline.add_last("new", Pass).unwrap();
                pipeline.remove(slot).unwrap();
                slot
            });
            added.unwrap()
        })
        .collect();
    let all_live = Rc::new(slots);
    let found = channel.with_pipeline({
        let slots = all_live.clone();
        move |pipeline| slots.iter().filter(|slot| pipeline.remove(**slot).is_ok()).count()
    });
    assert_eq!(found, Some(0), "the id of a removed handler does not match its successor");
    let first = format!("{:?}", all_live[0]);
    let place = first.split('.').next().unwrap();
    assert!(
        all_live.iter().all(|slot| format!("{slot:?}").starts_with(place)),
        "one place for all"
    );
}
