//! Two gateways that tell each other, without a server.

use super::*;
use crate::topic::limits::TopicLimits;

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Nanos {
    Nanos(seconds * 1_000_000_000)
}

fn room() -> Topic {
    Topic::parse("room", &TopicLimits::default()).unwrap()
}

fn member(client: &str) -> PresentClient {
    PresentClient { client: client.into(), user: Some("ann".into()) }
}

fn gateway(id: &str) -> PresenceExchange {
    PresenceExchange::new(id.to_owned(), SECOND, 10_000)
}

/// Hands all messages of one gateway to another, and returns what changes there as client and presence.
fn tell(from: &mut PresenceExchange, to: &mut PresenceExchange, now: Nanos) -> Vec<(String, bool)> {
    let me = from.me.clone();
    let messages = from.messages(now);
    let changes = messages.iter().flat_map(|json| to.take_message(&me, json, now));
    changes.map(|change| (change.member.client.to_string(), change.is_present)).collect()
}

#[test]
fn g08_changes_of_one_gateway_reach_another_each_once() {
    let (mut a, mut b) = (gateway("a"), gateway("b"));
    a.begin(at(10));
    assert!(tell(&mut a, &mut b, at(10)).is_empty());
    assert!(a.enter(&room(), &member("c1")).is_some());
    assert!(a.enter(&room(), &member("c1")).is_none(), "a refresh");
    assert_eq!(tell(&mut a, &mut b, at(10)), [("c1".to_owned(), true)]);
    assert_eq!(b.page(&room(), 10).clients, [member("c1")]);
    assert!(a.leave(&room(), "c1").is_some() && a.leave(&room(), "c1").is_none());
    assert_eq!(tell(&mut a, &mut b, at(10)), [("c1".to_owned(), false)]);
    assert_eq!(b.page(&room(), 10).count, 0);
    assert!(a.messages(at(10)).is_empty(), "nothing is new");
}

#[test]
fn g08_a_gateway_that_has_missed_a_change_asks_and_is_told_everything_in_parts() {
    let (mut a, mut b) = (gateway("a"), gateway("b"));
    a.begin(at(10));
    tell(&mut a, &mut b, at(10));
    for n in 0..1_200 {
        a.enter(&room(), &member(&format!("c{n:04}")));
    }
    assert_eq!(a.messages(at(10)).len(), 3, "lost on the way to b");
    a.leave(&room(), "c0000");
    assert!(tell(&mut a, &mut b, at(10)).is_empty());
    assert_eq!(b.next_question().as_deref(), Some("a"));
    a.take_question(b"other");
    assert!(a.messages(at(10)).is_empty(), "asked was another");
    a.take_question(b"a");
    let messages = a.messages(at(11));
    assert_eq!(messages.len(), 3);
    let told: usize = messages.iter().map(|json| b.take_message("a", json, at(11)).len()).sum();
    assert_eq!((told, b.page(&room(), 1).count), (1_199, 1_199));
    // The parts of two answers are not mixed.
    a.leave(&room(), "c0001");
    a.take_question(b"");
    assert!(a.messages(at(11)).is_empty(), "the last answer was a moment ago");
    let again = a.messages(at(12));
    for json in [&again[0], &messages[1], &again[2]] {
        assert!(b.take_message("a", json, at(12)).is_empty());
    }
    assert_eq!(b.page(&room(), 1).count, 1_199);
    let changes: Vec<_> = again.iter().flat_map(|json| b.take_message("a", json, at(12))).collect();
    assert_eq!(changes.len(), 1);
    assert!(!changes[0].is_present && &*changes[0].member.client == "c0001");
}

#[test]
fn g08_the_clients_of_a_gateway_that_falls_silent_or_ends_leave() {
    let (mut a, mut b) = (gateway("a"), gateway("b"));
    a.begin(at(10));
    a.enter(&room(), &member("c1"));
    assert_eq!(tell(&mut a, &mut b, at(10)).len(), 1);
    assert!(b.expire(at(13)).is_empty());
    assert!(tell(&mut a, &mut b, at(13)).is_empty(), "a sign of life");
    assert!(b.expire(at(16)).is_empty());
    b.begin(at(17));
    assert!(b.expire(at(20)).is_empty(), "could not be heard");
    assert_eq!(b.expire(at(21)).len(), 1);
    assert_eq!(b.page(&room(), 1).count, 0);
    // The other gateway was stopped for a while: its next number is of a gateway that is not known.
    tell(&mut a, &mut b, at(22));
    assert_eq!(b.next_question().as_deref(), Some(""), "of the connection");
    tell(&mut a, &mut b, at(24));
    a.take_question(b.next_question().unwrap().as_bytes());
    assert_eq!(tell(&mut a, &mut b, at(24)), [("c1".to_owned(), true)]);
    assert_eq!(b.take_message("a", &a.farewell(), at(24)).len(), 1);
    assert!(b.peers.is_empty());
}

#[test]
fn g08_presence_that_is_not_understood_is_ignored_and_gateways_are_limited() {
    let mut a = gateway("a");
    for json in ["", "[]", "{\"number\":-1}", "{\"notes\":[{\"topic\":\"a b\",\"client\":\"c\"}]}"]
    {
        assert!(a.take_message("b", json.as_bytes(), at(1)).is_empty());
    }
    for n in 0..2 * MAX_PEERS {
        a.take_message(&format!("g{n}"), b"{}", at(1));
    }
    assert_eq!(a.peers.len(), MAX_PEERS);
}

#[test]
fn g08_messages_of_presence_are_bounded_however_long_the_names_are() {
    let (mut a, mut b) = (gateway("a"), gateway("b"));
    a.begin(at(10));
    for n in 0..100 {
        let long = PresentClient {
            client: format!("c{n}").into(),
            user: Some("\u{1}".repeat(10_000).into()),
        };
        a.enter(&room(), &long);
    }
    let messages = a.messages(at(10));
    assert!(messages.len() > 15 && messages.iter().all(|json| json.len() < 1_000_000));
    messages.iter().for_each(|json| drop(b.take_message("a", json, at(10))));
    assert_eq!(b.page(&room(), 1).count, 100);
}
