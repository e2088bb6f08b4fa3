//! Allocation budgets: no stock handler adds an allocation.

use std::fmt::{Debug, Write};
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use tracing::field::Field;
use tracing::{Event, Metadata, Subscriber, span};
use waterwheel_channel::{Completion, Ctx, Edit, Handler, HandlerResult, Msg};
use waterwheel_executor::Error;
use waterwheel_handlers::{
    Capture, CaptureFile, FlowControl, FlushConsolidation, IdleHandler, ReadTimeout,
    TrafficLimiter, TrafficRate, TrafficShaping, WireLog, WriteTimeout,
};
use waterwheel_testkit::embedded::Embedded;

#[path = "../../../support/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::allocations_in;

const ROUNDS: usize = 200;

const LIMIT: Duration = Duration::from_millis(10);

/// Counts allocations of reads, writes and passing time after a warm-up, on a channel with these handlers.
fn allocated(initialiser: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>) -> u64 {
    let mut channel = Embedded::builder().stream().build(initialiser).unwrap();
    let mut rounds = || {
        for _ in 0..ROUNDS {
            channel.with_pipeline(|pipeline| {
                pipeline.fire_read(Bytes::from_static(b"in"));
                pipeline.fire_read_complete();
                pipeline.write(Bytes::from_static(b"out"));
                pipeline.flush();
            });
            channel.advance(LIMIT / 4);
            while channel.read_outbound_any().is_some() {}
            while channel.read_inbound_any().is_some() {}
        }
    };
    rounds();
    allocations_in(rounds).0
}

#[test]
fn c14_an_idle_handler_allocates_nothing_on_a_busy_channel() {
    let watched = allocated(|edit| {
        let idle = IdleHandler::builder().reader(LIMIT).writer(LIMIT).all(LIMIT);
        edit.add_last("idle", idle.build()?)?;
        Ok(())
    });
    assert_eq!(watched, allocated(|_| Ok(())));
}

#[test]
fn k08_shaping_allocates_nothing_while_the_rates_are_not_reached() {
    let group = TrafficLimiter::new(TrafficRate::per_second(1_000_000));
    let shaping = TrafficShaping::builder()
        .channel_read(TrafficRate::per_second(1_000_000))
        .channel_write(TrafficRate::per_second(1_000_000))
        .read_group(&group)
        .write_group(&group);
    for shaping in [shaping, TrafficShaping::builder()] {
        let shaped = allocated(|edit| {
            edit.add_last("shaping", shaping.build()?.handler())?;
            Ok(())
        });
        assert_eq!(shaped, allocated(|_| Ok(())));
    }
}

/// Counts allocations of writes that take several turns each, after a warm-up.
fn allocated_by_held_writes(initialiser: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>) -> u64 {
    let mut channel = Embedded::builder().stream().build(initialiser).unwrap();
    let mut rounds = || {
        for _ in 0..ROUNDS {
            channel.with_pipeline(|pipeline| {
                pipeline.write(Bytes::from_static(&[0; 6000]));
                pipeline.flush();
            });
            for _ in 0..60 {
                channel.advance(Duration::from_millis(1));
            }
            while channel.read_outbound_any().is_some() {}
        }
    };
    rounds();
    allocations_in(rounds).0
}

#[test]
fn k08_held_writes_allocate_nothing_once_the_queue_has_grown() {
    let shaped = allocated_by_held_writes(|edit| {
        let group = TrafficLimiter::new(TrafficRate::per_second(100_000));
        let shaping = TrafficShaping::builder().write_group(&group).build()?;
        edit.add_last("shaping", shaping.handler())?;
        Ok(())
    });
    assert_eq!(shaped, allocated_by_held_writes(|_| Ok(())));
}

/// A subscriber that formats every field into a buffer of its own.
#[derive(Default)]
struct FormatsAll(Mutex<String>);

impl Subscriber for FormatsAll {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "budget"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = self.0.lock().unwrap();
        line.clear();
        event.record(&mut |field: &Field, value: &dyn Debug| {
            write!(line, "{field}={value:?}").unwrap();
        });
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[test]
fn k06_a_wire_log_allocates_nothing_whether_it_is_enabled_or_not() {
    let logged = || {
        allocated(|edit| {
            let log = WireLog::builder().target("budget");
            edit.add_last("line", log.clone().build())?;
            edit.add_last("dump", log.hex_dump().build())?;
            Ok(())
        })
    };
    let unlogged = allocated(|_| Ok(()));
    assert_eq!(logged(), unlogged, "not enabled");
    let enabled = tracing::subscriber::with_default(FormatsAll::default(), logged);
    assert_eq!(enabled, unlogged, "enabled");
}

#[test]
fn k07_a_read_timeout_allocates_nothing_on_a_busy_channel() {
    let watched = allocated(|edit| {
        edit.add_last("timeout", ReadTimeout::new(LIMIT)?)?;
        Ok(())
    });
    assert_eq!(watched, allocated(|_| Ok(())));
}

/// Waits for each write with a completion that allocates nothing.
struct Awaits;

impl Handler for Awaits {
    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, _: &mut Completion) -> HandlerResult {
        ctx.write_then(msg, |result| assert!(result.is_ok()));
        Ok(())
    }
}

/// The channel allocates for a write with a completion, whoever waits; the handler adds nothing to that.
#[test]
fn k07_a_write_timeout_allocates_nothing_of_its_own_for_a_write() {
    let watched = allocated(|edit| {
        edit.add_last("timeout", WriteTimeout::new(LIMIT)?)?;
        Ok(())
    });
    let awaited = allocated(|edit| {
        edit.add_last("awaits", Awaits)?;
        Ok(())
    });
    assert_eq!(watched, awaited);
}

/// Counts what the loop allocates; the thread that writes the file is another one.
#[test]
fn k06_a_capture_allocates_nothing_per_message() {
    let file = CaptureFile::builder().write_to(std::io::sink()).unwrap();
    let captured = allocated(|edit| {
        edit.add_last("capture", Capture::stream(&file))?;
        Ok(())
    });
    let unlogged = allocated(|_| Ok(()));
    let stats = file.close().join().unwrap();
    assert_eq!((stats.packets, stats.dropped), (3 + 4 * ROUNDS as u64 + 4, 0));
    // Now and then the queue of the executor that writes the file takes a new block.
    assert!(captured <= unlogged + 8, "{captured} instead of {unlogged}");
}

#[test]
fn k11_flow_control_and_consolidated_flushes_allocate_nothing_on_a_busy_channel() {
    let watched = allocated(|edit| {
        edit.add_last("flow control", FlowControl::new())?;
        edit.add_last("flushes", FlushConsolidation::new())?;
        Ok(())
    });
    assert_eq!(watched, allocated(|_| Ok(())));
}
