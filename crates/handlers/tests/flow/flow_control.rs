//! `FlowControl`: one message per read.

use waterwheel_channel::ChannelOptions;
use waterwheel_handlers::FlowControl;

use crate::support::{batch, bench, bench_with};

#[test]
fn k11_each_read_is_answered_by_one_message_and_the_end_of_a_round() {
    let mut bench = bench();
    bench.send([1, 2, 3]);
    assert_eq!(bench.seen(), "", "nothing was requested");
    for expected in ["1 /", "2 /", "3 /", ""] {
        bench.read();
        assert_eq!(bench.seen(), expected);
    }
    bench.send([4, 5]);
    assert_eq!(bench.seen(), "4 /", "the read that waited");
    bench.read();
    bench.read();
    bench.read();
    bench.send([6, 7]);
    assert_eq!(bench.seen(), "5 / 6 /", "reads that wait are one");
}

#[test]
fn k11_a_read_reaches_the_transport_only_if_nothing_waits() {
    let mut bench = bench();
    bench.send([1, 2]);
    bench.send([3]);
    bench.read();
    assert_eq!((bench.seen().as_str(), bench.unread()), ("1 /", 0), "one round of two reads");
    bench.send([4]);
    bench.read();
    bench.read();
    assert_eq!((bench.seen().as_str(), bench.unread()), ("2 / 3 /", 1));
    bench.read();
    assert_eq!((bench.seen().as_str(), bench.unread()), ("4 /", 0));
}

#[test]
fn k11_with_auto_read_messages_and_rounds_pass_unchanged() {
    let mut bench = bench_with(ChannelOptions::default());
    bench.send([1, 2, 3]);
    bench.send([]);
    bench.send([4]);
    assert_eq!(bench.seen(), "1 2 3 / / 4 /");
}

#[test]
fn k11_turning_auto_read_on_releases_what_waits_and_begins_to_read() {
    let mut bench = bench();
    bench.read();
    bench.send([1, 2, 3]);
    bench.send([4, 5]);
    assert_eq!(bench.seen(), "1 /");
    bench.set_auto_read(true);
    assert_eq!(bench.seen(), "2 3 / 4 5 /");
    bench.send([6]);
    assert_eq!(bench.seen(), "6 /");
    bench.set_auto_read(false);
    bench.send([7, 8]);
    assert_eq!(bench.seen(), "");
    bench.read();
    assert_eq!(bench.seen(), "7 /");
}

#[test]
fn k11_auto_read_that_is_turned_off_while_messages_are_released_keeps_the_rest() {
    let mut bench = bench();
    bench.read();
    bench.send([1, 2, 3, 4]);
    bench.at_message(|ctx, number| {
        if number == 3 {
            ctx.channel().set_auto_read(false);
        }
    });
    bench.set_auto_read(true);
    assert_eq!(bench.seen(), "1 / 2 3 /");
    bench.send([5]);
    assert_eq!(bench.unread(), 1, "reading is off");
    bench.read();
    bench.read();
    assert_eq!(bench.seen(), "4 / 5 /");
}

#[test]
fn k11_auto_read_that_is_turned_off_in_a_round_keeps_the_rest_of_it() {
    let mut bench = bench_with(ChannelOptions::default());
    bench.at_message(|ctx, number| {
        if number == 2 {
            ctx.channel().set_auto_read(false);
        }
    });
    bench.send([1, 2, 3, 4]);
    assert_eq!(bench.seen(), "1 2 /", "the round of the messages that passed has its end");
    bench.read();
    bench.read();
    assert_eq!(bench.seen(), "3 / 4 /");
}

#[test]
fn k11_a_handler_may_read_in_on_read_and_in_on_read_complete() {
    let mut in_read = bench();
    in_read.at_message(|ctx, number| {
        if number % 4 != 0 {
            ctx.read();
        }
    });
    in_read.read();
    in_read.send(1..=6);
    assert_eq!(in_read.seen(), "1 / 2 / 3 / 4 /");
    in_read.read();
    assert_eq!(in_read.seen(), "5 / 6 /");
    in_read.send([7, 8, 9]);
    assert_eq!(in_read.seen(), "7 / 8 /", "6 has requested the next");

    let mut in_complete = bench();
    in_complete.app.reads_on.set(true);
    in_complete.read();
    in_complete.send([1, 2, 3]);
    in_complete.send([4]);
    assert_eq!(in_complete.seen(), "1 / 2 / 3 / 4 /");
}

#[test]
fn k11_a_long_queue_is_read_in_on_read_without_a_deep_stack() {
    let mut bench = bench();
    bench.read();
    bench.send(1..=100_000);
    assert_eq!(bench.seen(), "1 /");
    bench.at_message(|ctx, _| ctx.read());
    bench.read();
    let seen = bench.app.seen.take();
    assert_eq!(seen.len(), 2 * 99_999);
    assert_eq!(seen[seen.len() - 2], "100000");
}

#[test]
fn k11_a_round_without_a_message_requests_the_next() {
    let options = ChannelOptions { auto_read: false, reads_per_round: 1, ..Default::default() };
    let mut bench = bench_with(options);
    for _ in 0..3 {
        bench.send([]);
    }
    bench.send([1]);
    bench.read();
    assert_eq!((bench.seen().as_str(), bench.unread()), ("1 /", 0));
    bench.send([2]);
    assert_eq!((bench.seen().as_str(), bench.unread()), ("", 1), "the read was answered");
}

#[test]
fn k11_errors_and_the_end_of_the_data_come_after_the_messages_before_them() {
    let mut bench = bench();
    bench.read();
    bench.send([1, 2, 0, 3, 0]);
    bench.fire_user_event("other");
    assert_eq!(bench.seen(), "1 / event", "other events pass at once");
    bench.read();
    assert_eq!(bench.seen(), "2 / bad");
    bench.read();
    assert_eq!(bench.seen(), "3 / bad");
    bench.send([0]);
    bench.read();
    bench.finish_inbound();
    assert_eq!(bench.seen(), "bad end", "nothing waits");

    let mut bench = self::bench();
    bench.read();
    bench.send([1, 2]);
    // The end is read ahead, by a handler before.
    bench.on_loop(|channel| drop(channel.shutdown_input()));
    bench.run();
    assert_eq!(bench.seen(), "1 /");
    bench.read();
    assert_eq!(bench.seen(), "2 / end");
}

#[test]
fn k11_an_inactive_channel_has_passed_everything_on() {
    let mut bench = bench();
    bench.read();
    bench.send([1, 2, 0, 3]);
    bench.close();
    assert_eq!(bench.seen(), "1 / 2 bad 3 / inactive");
}

#[test]
fn k11_a_failure_of_the_connection_comes_after_the_messages() {
    let mut bench = bench();
    bench.read();
    bench.send([1, 2]);
    bench.fail(waterwheel_executor::Error::new("reset"));
    assert_eq!(bench.seen(), "1 / 2 reset / inactive");
}

#[test]
fn k11_a_removed_handler_passes_on_what_waits_in_order() {
    let mut bench = bench();
    bench.read();
    bench.send([1, 2, 3]);
    bench.with_pipeline(|pipeline| pipeline.remove("flow").unwrap());
    assert_eq!(bench.seen(), "1 / 2 3 /");
    bench.send([4, 5]);
    bench.read();
    assert_eq!(bench.seen(), "4 5 /");
}

#[test]
fn k11_a_handler_removed_at_a_message_passes_the_rest_of_the_round_in_order() {
    let mut bench = bench();
    bench.at_message(|ctx, number| {
        if number == 2 {
            ctx.pipeline().remove("flow").unwrap();
        }
    });
    bench.read();
    bench.send([1, 2, 3, 4]);
    bench.read();
    assert_eq!(bench.seen(), "1 / 2 / 3 4 /");
    let mut bench = self::bench();
    bench.at_message(|ctx, number| {
        if number == 1 {
            ctx.pipeline().remove("flow").unwrap();
        }
    });
    bench.read();
    bench.send([1, 2, 3]);
    assert_eq!(bench.seen(), "1 / 2 3 /", "the round goes on without it");
}

#[test]
fn k11_a_handler_added_while_a_read_is_under_way_answers_it() {
    let mut bench = bench();
    bench.with_pipeline(|pipeline| pipeline.remove("flow").unwrap());
    bench.read();
    bench.with_pipeline(|pipeline| {
        pipeline.add_after("unpack", "flow", FlowControl::new()).unwrap();
    });
    bench.send([1, 2, 3]);
    assert_eq!(bench.seen(), "1 /");
}

#[test]
fn k11_a_flooding_peer_makes_no_more_than_two_rounds_wait() {
    let options = ChannelOptions { auto_read: false, reads_per_round: 4, ..Default::default() };
    let mut bench = bench_with(options);
    // The worst case: the first message is answered by a read, and the application takes no other.
    bench.at_message(|ctx, number| {
        if number == 1 {
            ctx.read();
        }
    });
    bench.read();
    let floods = (0..1_000).map(|_| waterwheel_channel::Msg::new(batch(1..=10)));
    bench.write_inbound_all(floods);
    let taken = 1_000 - bench.unread();
    assert!(taken <= 8, "{taken} reads of at most four in a round");
    assert_eq!(bench.seen(), "1 / 2 /");
}

#[test]
fn k11_debug_shows_what_waits() {
    assert_eq!(format!("{:?}", FlowControl::new()), "FlowControl { waiting: 0, is_wanted: false }");
}
