//! Publishing and subscribing, on one loop and between two.

use std::io::Read;

use waterwheel::codec::RespValue;

use crate::program::Program;
use crate::raw_client::{RawClient, text, words};

fn message(topic: &str, payload: &str) -> Vec<RespValue> {
    vec![text("message"), text(topic), text(payload)]
}

#[test]
fn k03_messages_reach_subscribers_of_all_loops_in_both_versions() {
    let redis = Program::start("redis", &[&"--threads", &2, &0]);
    // Connections alternate between the loops: each has subscribers of both versions.
    let mut subscribers: Vec<_> = (0..8).map(|_| RawClient::of_example(&redis)).collect();
    for (number, subscriber) in subscribers.iter_mut().enumerate() {
        if number < 4 {
            assert!(matches!(subscriber.ask("HELLO 3"), RespValue::Map(_)));
        }
        let confirmed = vec![text("subscribe"), text("news"), RespValue::Integer(1)];
        let confirmed =
            if number < 4 { RespValue::Push(confirmed) } else { RespValue::Array(confirmed) };
        assert_eq!(subscriber.ask("SUBSCRIBE news"), confirmed);
    }
    let mut publisher = RawClient::of_example(&redis);
    let commands: Vec<_> =
        (0..100).map(|number| words(&format!("PUBLISH news {number}"))).collect();
    publisher.send(&commands);
    for _ in 0..100 {
        assert_eq!(publisher.reply(), RespValue::Integer(8));
    }
    for (number, subscriber) in subscribers.iter_mut().enumerate() {
        for payload in 0..100 {
            let message = message("news", &payload.to_string());
            let expected =
                if number < 4 { RespValue::Push(message) } else { RespValue::Array(message) };
            assert_eq!(subscriber.reply(), expected);
        }
        // RESP3 allows other commands meanwhile; every version can leave.
        if number < 4 {
            assert_eq!(subscriber.ask("PUBLISH nothing x"), RespValue::Integer(0));
        }
        subscriber.send(&[words("UNSUBSCRIBE")]);
        let (RespValue::Push(left) | RespValue::Array(left)) = subscriber.reply() else { panic!() };
        assert_eq!(left, [text("unsubscribe"), text("news"), RespValue::Integer(0)]);
    }
    assert_eq!(publisher.ask("PUBLISH news gone"), RespValue::Integer(0));
}

#[test]
fn k03_a_closed_connection_has_no_subscriptions() {
    let redis = Program::start("redis", &[&0]);
    let mut publisher = RawClient::of_example(&redis);
    let mut subscriber = RawClient::of_example(&redis);
    subscriber.ask("SUBSCRIBE a");
    subscriber.ask("SUBSCRIBE b");
    assert_eq!(publisher.ask("PUBLISH a x"), RespValue::Integer(1));
    drop(subscriber);
    // The server learns of the close at its own time.
    publisher.ask_until("PUBLISH b x", &RespValue::Integer(0));
}

/// A subscriber that does not read is disconnected at 32 MiB; others and the publisher go on.
#[test]
fn k03_a_slow_subscriber_is_disconnected() {
    let redis = Program::start("redis", &[&0]);
    let mut publisher = RawClient::of_example(&redis);
    let mut reading = RawClient::of_example(&redis);
    reading.ask("SUBSCRIBE news");
    let mut slow = redis.connect();
    let mut slow_client = RawClient::of_stream(&slow);
    slow_client.ask("SUBSCRIBE news");
    let before = redis.memory();
    let payload = "x".repeat(1024 * 1024);
    let mut published = 0;
    loop {
        published += 1;
        assert!(published < 100, "the subscriber holds {published} MiB and is still served");
        let receivers = publisher.ask(&format!("PUBLISH news {payload}"));
        assert!(matches!(reading.reply(), RespValue::Array(_)));
        if receivers == RespValue::Integer(1) {
            break;
        }
    }
    assert!(published > 32, "disconnected after {published} MiB");
    let mut received = Vec::new();
    let _ = slow.read_to_end(&mut received); // A reset is an end as well.
    assert!(received.len() < 100 << 20);
    let grown = (redis.peak_memory() - before) / 1024;
    assert!(grown < 128, "{grown} MiB for a subscriber with a limit of 32");
}

#[test]
fn k03_a_subscriber_gets_its_own_message_before_the_reply() {
    let redis = Program::start("redis", &[&0]);
    let mut client = RawClient::of_example(&redis);
    client.ask("HELLO 3");
    client.ask("SUBSCRIBE news");
    assert_eq!(client.ask("PUBLISH news me"), RespValue::Push(message("news", "me")));
    assert_eq!(client.reply(), RespValue::Integer(1));
}

/// A message never precedes the confirmation of its subscription, although replies before that come from another loop.
#[test]
fn k03_a_subscription_is_confirmed_before_its_first_message() {
    let redis = Program::start("redis", &[&"--threads", &2, &0]);
    let mut publisher = RawClient::of_example(&redis);
    for round in 0..50 {
        let mut subscriber = RawClient::of_example(&redis);
        let mut commands: Vec<_> = (0..20).map(|n| words(&format!("INCR {round}-{n}"))).collect();
        commands.extend([words("HELLO 3"), words("SUBSCRIBE news"), words("GET nothing")]);
        subscriber.send(&commands);
        publisher.send(&(0..5).map(|n| words(&format!("PUBLISH news {n}"))).collect::<Vec<_>>());
        (0..20).for_each(|_| assert_eq!(subscriber.reply(), RespValue::Integer(1)));
        assert!(matches!(subscriber.reply(), RespValue::Map(_)), "the reply to HELLO");
        let confirmed = vec![text("subscribe"), text("news"), RespValue::Integer(1)];
        assert_eq!(subscriber.reply(), RespValue::Push(confirmed));
        // Messages may come before the reply to GET, or after it.
        let receivers: i64 = (0..5)
            .map(|_| match publisher.reply() {
                RespValue::Integer(receivers) => receivers,
                other => panic!("{other:?}"),
            })
            .sum();
        let replies: Vec<_> = (0..=receivers).map(|_| subscriber.reply()).collect();
        let pushes = replies.iter().filter(|reply| matches!(reply, RespValue::Push(_))).count();
        assert_eq!((pushes as i64, replies.contains(&RespValue::Null)), (receivers, true));
        assert!(matches!(subscriber.ask("UNSUBSCRIBE"), RespValue::Push(_)));
    }
}
