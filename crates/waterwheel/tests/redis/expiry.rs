//! Keys that expire.

use waterwheel::codec::RespValue;

use crate::program::Program;
use crate::raw_client::{RawClient, text, words};

fn integer(reply: RespValue) -> i64 {
    match reply {
        RespValue::Integer(number) => number,
        other => panic!("{other:?} is not an integer"),
    }
}

#[test]
fn k03_a_key_expires_for_readers_and_is_removed_without_them() {
    let redis = Program::start("redis", &[&"--threads", &2, &0]);
    let mut client = RawClient::of_example(&redis);
    let keys = 3000;
    let commands: Vec<_> = (0..keys).map(|n| words(&format!("SET key{n} {n} PX 300"))).collect();
    client.send(&commands);
    (0..keys).for_each(|_| assert_eq!(client.reply(), RespValue::simple("OK")));
    client.ask("SET kept 1 EX 1000");
    client.ask("SET watched 1 PX 200");
    // A reader never sees a key whose time has come, and sees it until then.
    loop {
        client.send(&[words("PTTL watched"), words("GET watched")]);
        let (left, value) = (integer(client.reply()), client.reply());
        match left {
            -2 => {
                assert_eq!(value, RespValue::Null);
                break;
            }
            left => assert!((0..=200).contains(&left), "{left} ms left of 200"),
        }
    }
    // No client asks for the others: the timer removes them.
    client.ask_until("DBSIZE", &RespValue::Integer(1));
    assert!((900..=1000).contains(&integer(client.ask("TTL kept"))));
    assert_eq!(client.ask("PERSIST kept"), RespValue::Integer(1));
    assert_eq!(client.ask("TTL kept"), RespValue::Integer(-1));
    assert_eq!(client.ask("GET kept"), text("1"));
}

#[test]
fn k03_a_key_that_is_set_again_keeps_only_its_last_deadline() {
    let redis = Program::start("redis", &[&0]);
    let mut client = RawClient::of_example(&redis);
    client.send(&[
        words("SET a 1 PX 50"),
        words("SET a 2"), // No deadline any more.
        words("SET b 1 PX 50"),
        words("SET b 2 EX 1000"), // A later one.
        words("SET c 1 PX 50"),
        words("DEL c"),
        words("SET c 2"),
        words("SET d 1 PX 1000"),
        words("SET d 2 KEEPTTL"),
        words("SET e 5 PX 1000"),
        words("INCR e"), // Keeps it.
    ]);
    (0..11).for_each(|_| drop(client.reply()));
    client.ask_until("EXISTS d e", &RespValue::Integer(0));
    client.ask_until("DBSIZE", &RespValue::Integer(3));
    for (key, ttl) in [("a", -1..=-1), ("b", 900..=1000), ("c", -1..=-1)] {
        assert_eq!(client.ask(&format!("GET {key}")), text("2"));
        assert!(ttl.contains(&integer(client.ask(&format!("TTL {key}")))), "{key}");
    }
}
