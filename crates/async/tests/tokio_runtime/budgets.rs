//! Budgets of a call: one command for a result, and no allocation on the way to the loop.

use tokio::sync::oneshot;

use super::counting_allocator::allocations_in;
use super::support::Bench;

#[test]
fn a05_the_result_of_a_call_wakes_the_loop_by_one_command() {
    let mut bench = Bench::new();
    let event_loop = bench.channel.channel().event_loop();
    let (answer, question) = oneshot::channel();
    let output = bench.start(bench.runtime.spawn(async { question.await.unwrap() }));
    bench.drive_both();
    let (before, polled) = (event_loop.stats().queue_depth, event_loop.metrics());
    answer.send(42).unwrap();
    bench.drive_tokio();
    assert_eq!(event_loop.stats().queue_depth, before + 1);
    bench.channel.run();
    assert_eq!(output.take(), Some(Ok(42)));
    assert_eq!(event_loop.metrics().futures_polled, polled.futures_polled + 1);
}

/// Makes calls one after the other, and returns the allocations that their completion adds on the runtime's side.
fn allocations_of_wakes(bench: &mut Bench) -> u64 {
    let mut allocated = 0;
    for n in 0..100 {
        let (answer, question) = oneshot::channel();
        let output = bench.start(bench.runtime.spawn(async { question.await.unwrap() }));
        bench.drive_both();
        let (of_the_runtime, ()) = allocations_in(|| bench.drive_tokio());
        let (with_the_wake, ()) = allocations_in(|| {
            answer.send(n).unwrap();
            bench.drive_tokio();
        });
        allocated += with_the_wake - of_the_runtime;
        bench.channel.run();
        assert_eq!(output.take(), Some(Ok(n)));
    }
    allocated
}

#[test]
fn a05_results_wake_the_loop_without_allocations() {
    let mut bench = Bench::new();
    allocations_of_wakes(&mut bench); // The queue gets the blocks that it then uses again and again.
    assert_eq!(allocations_of_wakes(&mut bench), 0);
}
