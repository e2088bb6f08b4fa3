//! Allocation budget: an idle handler adds no allocation.

use std::time::Duration;

use bytes::Bytes;
use waterwheel_handlers::IdleHandler;
use waterwheel_testkit::embedded::Embedded;

#[path = "../../../support/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::allocations_in;

const ROUNDS: usize = 200;

/// Counts allocations of reads, writes and passing time after a warm-up.
fn allocated(watched: bool) -> u64 {
    let limit = Duration::from_millis(10);
    let mut channel = Embedded::builder()
        .stream()
        .build(|edit| {
            if watched {
                let idle = IdleHandler::builder().reader(limit).writer(limit).all(limit);
                edit.add_last("idle", idle.build()?)?;
            }
            Ok(())
        })
        .unwrap();
    let mut rounds = || {
        for _ in 0..ROUNDS {
            channel.with_pipeline(|pipeline| {
                pipeline.fire_read(Bytes::from_static(b"in"));
                pipeline.fire_read_complete();
                pipeline.write(Bytes::from_static(b"out"));
                pipeline.flush();
            });
            channel.advance(limit / 4);
            while channel.read_outbound_any().is_some() {}
            while channel.read_inbound_any().is_some() {}
        }
    };
    rounds();
    allocations_in(rounds).0
}

#[test]
fn c14_an_idle_handler_allocates_nothing_on_a_busy_channel() {
    assert_eq!(allocated(true), allocated(false));
}
