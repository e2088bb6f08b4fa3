//! The end of one direction.

use waterwheel_channel::ChannelOptions;

use crate::support::{Bench, bench, bench_with};

fn half_closing(max_concurrent: usize, keep_open: bool) -> Bench {
    let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
    bench_with(options, |builder| {
        let builder = builder.max_concurrent(max_concurrent);
        if keep_open { builder.keep_output_open() } else { builder }
    })
}

#[test]
fn c19_ordered_requests_are_answered_after_the_peer_has_finished_and_then_the_channel_is_closed() {
    let mut bench = half_closing(2, false);
    bench.send([1, 2, 3]);
    bench.finish_inbound();
    bench.finish(1);
    bench.finish(2);
    assert!(bench.tail().is_empty(), "the end of the input comes after the last answer");
    assert!(bench.channel().is_open());
    bench.finish(3);
    assert_eq!(bench.answers(), ["a1", "a2", "a3"]);
    assert_eq!(bench.tail(), ["input over", "output over", "inactive", "unregistered"]);
}

#[test]
fn c19_ordered_the_end_of_the_input_passes_at_once_if_everything_is_answered() {
    let mut bench = half_closing(2, false);
    bench.calls.finish(1);
    bench.send([1]);
    bench.finish_inbound();
    assert_eq!(bench.answers(), ["a1"]);
    assert_eq!(bench.tail(), ["input over", "output over", "inactive", "unregistered"]);
}

#[test]
fn c19_ordered_the_output_can_stay_open() {
    let mut bench = half_closing(2, true);
    bench.send([1]);
    bench.finish_inbound();
    bench.finish(1);
    assert_eq!((bench.answers(), bench.tail()), (vec!["a1".into()], vec!["input over".into()]));
    assert!(bench.channel().is_open());
    bench.write_outbound(String::from("more")).join().unwrap();
    assert_eq!(bench.answers(), ["more"]);
}

#[test]
fn c19_ordered_without_half_closure_the_end_of_the_input_closes_and_drops_the_calls() {
    let mut bench = bench(2);
    bench.send([1]);
    bench.finish_inbound();
    assert_eq!(bench.dropped(), [1]);
    assert!(!bench.channel().is_open());
}

#[test]
fn c19_ordered_calls_end_with_the_output_and_the_input_is_read_to_its_end() {
    let mut bench = half_closing(1, false);
    bench.send([1, 2]);
    bench.send([3]);
    drop(bench.on_loop(|channel| channel.shutdown_output()));
    bench.run();
    assert_eq!(bench.dropped(), [1], "no answer could be written");
    assert_eq!(bench.unread(), 0, "reads go on");
    assert_eq!(bench.calls.begun(), [1]);
    bench.finish_inbound();
    assert_eq!(bench.tail(), ["output over", "input over", "inactive", "unregistered"]);
}

#[test]
fn c19_ordered_the_end_of_the_input_is_not_lost_in_a_close() {
    let mut bench = half_closing(2, false);
    bench.send([1]);
    bench.finish_inbound();
    bench.close();
    assert_eq!(bench.tail(), ["input over", "inactive", "unregistered"]);
    assert_eq!(bench.dropped(), [1]);
}
