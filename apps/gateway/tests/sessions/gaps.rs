//! Publications that the engine has lost on the way are filled in from its history, in order and once; what cannot be filled
//! in is told.

use std::time::Duration;

use waterwheel_gateway::session::limits::GatewayLimits;

use crate::support::{Bench, TestClient, subscribe, subscribe_with_presence};

/// A gateway with a client that is subscribed to `a`, and has seen the publications 1 and 2.
fn bench(change: impl FnOnce(&mut GatewayLimits)) -> (Bench, TestClient) {
    let mut bench = Bench::with(change);
    let client = bench.client();
    bench.subscribe(&client, "a");
    bench.publish("a", 2);
    assert_eq!(client.told(), ["1", "2"]);
    (bench, client)
}

#[test]
fn g02_what_was_lost_comes_from_the_history_before_what_is_new() {
    let (mut bench, client) = bench(|_| {});
    bench.engine.add("a", true);
    bench.engine.add("b", true);
    bench.engine.add("a", true);
    bench.engine.tell_gap(Some(2));
    bench.engine.add("a", false);
    bench.event_loop.run();
    assert_eq!(client.told(), ["3", "5", "6"]);
    bench.publish("a", 1);
    assert_eq!(client.told(), ["7"]);
}

#[test]
fn g02_what_comes_while_a_gap_is_filled_waits_and_comes_once() {
    let (mut bench, client) = bench(|_| {});
    bench.engine.hold(true);
    bench.engine.add("a", true);
    bench.engine.tell_gap(None);
    bench.publish("a", 2);
    // Another gap, in the middle of the first.
    bench.engine.add("a", true);
    bench.engine.tell_gap(Some(5));
    bench.publish("a", 1);
    assert!(client.told().is_empty(), "the order is kept");
    bench.engine.hold(false);
    bench.event_loop.run();
    assert_eq!(client.told(), ["3", "4", "5", "6", "7"]);
}

#[test]
fn g02_a_gap_that_the_history_does_not_cover_is_told_before_what_is_still_there() {
    let (mut bench, client) = bench(|_| {});
    for _ in 0..3 {
        bench.engine.add("a", true);
    }
    bench.engine.forget_before(5);
    bench.engine.tell_gap(Some(2));
    bench.publish("a", 1);
    assert_eq!(client.told(), ["missed 0 after 2", "5", "6"]);
}

#[test]
fn g02_a_gap_is_told_if_the_engine_does_not_answer_and_what_was_held_comes() {
    for fails in [true, false] {
        let (mut bench, client) = bench(|limits| limits.engine_timeout = Duration::from_secs(3));
        bench.engine.hold(true);
        bench.engine.add("a", true);
        bench.engine.tell_gap(Some(2));
        bench.publish("a", 1);
        if fails {
            bench.engine.fail(1);
            bench.engine.hold(false);
            bench.event_loop.run();
        } else {
            bench.advance(Duration::from_secs(3));
        }
        assert_eq!(client.told(), ["missed 0 after 2", "4"], "fails: {fails}");
        bench.engine.hold(false);
        bench.publish("a", 1);
        assert_eq!(client.told(), ["5"]);
    }
}

#[test]
fn g02_a_gap_at_the_very_beginning_is_told() {
    let mut bench = Bench::start();
    let client = bench.client();
    bench.subscribe(&client, "a");
    bench.engine.tell_gap(None);
    bench.event_loop.run();
    assert_eq!(client.told(), ["missed 0 after 0"]);
    bench.publish("a", 1);
    assert_eq!(client.told(), ["1"]);
}

#[test]
fn r04_publications_that_wait_while_a_gap_is_filled_are_limited_and_the_loss_is_told() {
    let (mut bench, client) = bench(|limits| limits.loop_backlog = 3);
    bench.engine.hold(true);
    bench.engine.tell_gap(Some(2));
    bench.publish("a", 10);
    // The history is read before the end of what is held.
    bench.engine.forget_before(100);
    bench.engine.hold(false);
    bench.event_loop.run();
    let told = client.told();
    assert!(told.iter().any(|note| note.starts_with("missed")), "{told:?}");
}

#[test]
fn r04_a_loop_that_is_behind_drops_publications_and_tells_its_clients_once() {
    let (mut bench, client) = bench(|limits| limits.loop_backlog = 3);
    for _ in 0..10 {
        bench.engine.add("a", false); // The loop does not run.
    }
    bench.event_loop.run();
    assert_eq!(client.told(), ["3", "4", "5", "missed 0 after 5"]);
    bench.publish("a", 1);
    assert_eq!(client.told(), ["13"]);
}

#[test]
fn g02_a_subscription_that_recovers_takes_what_comes_meanwhile_once_and_behind_the_rest() {
    let (mut bench, client) = bench(|_| {});
    bench.engine.hold(true);
    bench.execute(&client, 1, subscribe("*", Some(0)));
    // For the other subscription at once, and for this one afterwards.
    bench.publish("a", 1);
    bench.publish("b", 1);
    assert_eq!(client.told(), ["3"]);
    bench.engine.hold(false);
    bench.event_loop.run();
    assert_eq!(client.told(), ["1 subscribed at 4 with 4", "1", "2", "3", "4"]);
    bench.publish("b", 1);
    bench.publish("a", 1);
    assert_eq!(client.told(), ["5", "6"]);
}

#[test]
fn r04_the_bytes_that_wait_while_a_gap_is_filled_are_limited_and_the_loss_is_told() {
    let (mut bench, client) = bench(|limits| limits.loop_backlog_bytes = 1_000);
    bench.engine.hold(true);
    bench.engine.tell_gap(Some(2));
    bench.publish_large("a", 5, 300);
    bench.engine.fail(1);
    bench.engine.hold(false);
    bench.event_loop.run();
    assert_eq!(client.told(), ["missed 0 after 2", "3", "4", "5", "missed 0 after 5"]);
    bench.publish_large("a", 1, 300);
    assert_eq!(client.told(), ["8"], "there is room again");
}

#[test]
fn r04_what_a_recovering_subscription_keeps_is_limited_in_bytes_and_the_loss_is_told() {
    let mut bench = Bench::with(|limits| limits.recovered_bytes = 1_000);
    let client = bench.client();
    bench.engine.hold(true);
    bench.execute(&client, 1, subscribe("a", Some(0)));
    bench.publish_large("a", 5, 300);
    bench.engine.forget_before(6);
    assert_eq!(bench.engine.held(), 3, "the subscription keeps the last three");
    bench.engine.hold(false);
    bench.event_loop.run();
    assert_eq!(client.told(), ["1 subscribed at 5 with 0 gap"], "the history has none of them");
}

#[test]
fn r04_texts_and_notes_of_presence_that_wait_for_a_loop_are_limited_and_the_loss_is_told() {
    let (mut bench, client) = bench(|limits| limits.loop_backlog = 3);
    bench.execute(&client, 1, subscribe_with_presence("b"));
    client.told();
    for number in 0..1_000 {
        bench.engine.tell_presence("b", &format!("c{number}"), true); // The loop does not run.
    }
    bench.event_loop.run();
    let told = client.told();
    assert_eq!(told, ["c0 b joins", "c1 b joins", "c2 b joins", "missed 0 after 2"]);
}

#[test]
fn r04_a_subscription_does_not_make_the_loop_dispatch_all_that_waits_in_one_turn() {
    let mut bench = Bench::start();
    let clients: Vec<_> = (0..64).map(|_| bench.client()).collect();
    clients.iter().for_each(|client| _ = bench.subscribe(client, "a"));
    let late = bench.client();
    for _ in 0..200 {
        bench.engine.add("a", false); // The loop does not run.
    }
    bench.event_loop.on_loop(|_| late.session().execute(Some(1), Ok(subscribe("b", None))));
    let first = clients[0].told().len();
    assert!((1..100).contains(&first), "{first} of 200 publications for 64 clients in one turn");
    assert!(late.told().is_empty(), "the answer comes after what came before");
    bench.event_loop.run();
    assert_eq!(late.told(), ["1 subscribed at 200 with 0"]);
    assert_eq!(first + clients[0].told().len(), 200);
}
