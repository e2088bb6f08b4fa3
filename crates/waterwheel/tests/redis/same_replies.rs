//! The example and redis-server get the same commands, and have to give the same replies.

use waterwheel::codec::RespValue;

use crate::RedisServer;
use crate::program::Program;
use crate::random::SeededRng;
use crate::raw_client::{RawClient, words};

/// Compares the replies to each line, sent as one pipeline.
fn compare(ours: &mut RawClient, theirs: &mut RawClient, commands: &[Vec<String>]) {
    ours.send(commands);
    theirs.send(commands);
    for (at, command) in commands.iter().enumerate() {
        let (ours, expected) = (ours.reply(), theirs.reply());
        let is_time_left = command[0] == "TTL";
        match (&ours, &expected) {
            // The two servers have set the deadline at different times, on a busy machine by seconds.
            (RespValue::Integer(ours), RespValue::Integer(expected)) if is_time_left => {
                assert_eq!(ours.min(&0), expected.min(&0), "command {at}, {command:?}");
                assert!(ours.abs_diff(*expected) < 60, "{ours} s left, in Redis {expected}");
            }
            _ => assert_eq!(ours, expected, "to command {at} of the pipeline, {command:?}"),
        }
    }
}

#[test]
fn k03_random_pipelines_on_two_loops_have_the_replies_of_redis() {
    let Some(server) = RedisServer::start() else { return };
    let redis = Program::start("redis", &[&"--threads", &2, &0]);
    let mut random = SeededRng::new();
    for round in 0..60 {
        // New connections: they are on both loops in turn.
        let (mut ours, mut theirs) = (RawClient::of_example(&redis), RawClient::of_server(&server));
        let commands: Vec<_> =
            (0..random.below(400)).map(|_| random_command(&mut random)).collect();
        compare(&mut ours, &mut theirs, &commands);
        if round % 20 == 19 {
            assert_eq!(ours.ask("FLUSHALL"), RespValue::simple("OK"));
            assert_eq!(theirs.ask("FLUSHALL"), RespValue::simple("OK"));
        }
    }
}

/// Creates a command with few different keys, so that commands meet each other's values.
fn random_command(random: &mut SeededRng) -> Vec<String> {
    let mut key = || format!("key{}", random.below(12));
    let (one, two, three) = (key(), key(), key());
    // The first may also become a time to live: no key expires during the test, in one server before the other.
    let value = ["7000", "-3", "word", "9223372036854775807", "", "007", "two words"];
    let value = value[random.below(value.len())].to_owned();
    let at = || -> &[&str] {
        &[
            "PING",
            "ECHO v",
            "GET a",
            "GET a",
            "SET a v",
            "SET a v",
            "SET a v",
            "SET a v NX",
            "SET a v XX",
            "SET a v GET",
            "SET a v XX GET",
            "SET a v EX 1000",
            "SET a v PX 1000000 NX",
            "SET a v KEEPTTL",
            "SET a v EX",
            "SET a v EX 0",
            "SET a v EX v",
            "SET a v NX XX",
            "SET a v EX 10 KEEPTTL",
            "SET a v EXAT 9999999999",
            "SET a v PXAT 9999999999999",
            "SET a",
            "DEL a",
            "DEL a b c",
            "UNLINK a b",
            "EXISTS a",
            "EXISTS a a b c",
            "TYPE a",
            "INCR a",
            "INCR a",
            "DECR a",
            "INCRBY a v",
            "DECRBY a v",
            "INCRBY a 10",
            "APPEND a v",
            "STRLEN a",
            "MSET a v b v",
            "MSET a v b",
            "MGET a b c",
            "LPUSH a v",
            "LPUSH a 1 2 3",
            "RPUSH a v 4",
            "LPOP a",
            "RPOP a",
            "LPOP a 2",
            "RPOP a 0",
            "LPOP a -1",
            "LPOP a 1 2",
            "LLEN a",
            "LRANGE a 0 -1",
            "LRANGE a -2 1",
            "LRANGE a 5 -100",
            "LRANGE a 1 v",
            "EXPIRE a 1000",
            "EXPIRE a -1",
            "EXPIRE a v",
            "PEXPIRE a 1000000",
            "EXPIREAT a 1",
            "EXPIREAT a 99999999999",
            "EXPIRE a 9223372036854775807",
            "PERSIST a",
            "TTL a",
            "DBSIZE",
            "PUBLISH a v",
            "SELECT 0",
            "SELECT 1x",
            "FLUSHALL",
            "NOSUCH",
            "nosuch a v",
            "PING v",
            "PING a b",
            "GET",
            "GET a b",
            "CLIENT NOSUCH",
            "CONFIG GET",
            "COMMAND NOSUCH",
            "UNSUBSCRIBE",
        ]
    };
    // A flush would make the keys of most pipelines vanish.
    let line = loop {
        let line = at()[random.below(at().len())];
        if line != "FLUSHALL" || random.below(20) == 0 {
            break line;
        }
    };
    let replace = |word: String| match word.as_str() {
        "a" => one.clone(),
        "b" => two.clone(),
        "c" => three.clone(),
        "v" => value.clone(),
        _ => word,
    };
    words(line).into_iter().map(replace).collect()
}

#[test]
fn k03_errors_have_the_texts_of_redis() {
    let Some(server) = RedisServer::start() else { return };
    let redis = Program::start("redis", &[&0]);
    let (mut ours, mut theirs) = (RawClient::of_example(&redis), RawClient::of_server(&server));
    let long = "x".repeat(300);
    let lines = [
        "RPUSH list 1",
        "GET list",
        "INCR list",
        "APPEND list 1",
        "SET list 1 GET",
        "SET text 1",
        "LPUSH text 1",
        "LPOP text",
        "LRANGE text 0 1",
        "LLEN text",
        "SET text",
        "NOSUCH",
        "NOSUCH 1 2 3",
        &format!("{long} {long} {long}"),
        "SET max 9223372036854775807",
        "INCR max",
        "SET min -9223372036854775808",
        "DECR min",
        "DECRBY text -9223372036854775808",
        "INCRBY text 1.5",
        "INCRBY text +1",
        "INCRBY text 01",
        "SET text 1 PX 1 EX 1",
        "SET text 1 EX 0",
        "SET text 1 EX 9223372036854775807",
        "SET text 1 BAD",
        "SET past 1 EXAT 1",
        "GET past",
        "EXPIRE text 9223372036854775807",
        "PEXPIRE text 9223372036854775807",
        "EXPIRE text word",
        "LPOP list word",
        "LPOP list -1",
        "LPOP list 1 2",
        "SELECT word",
        "SELECT 77",
        "HELLO 4",
        "HELLO word",
        "HELLO 3 NOSUCH",
        "CLIENT SETNAME a\nb",
        "CLIENT SETNAME",
        "CLIENT NOSUCH",
        "CONFIG NOSUCH",
        "CONFIG GET",
        "COMMAND NOSUCH",
        "PING 1 2",
        "ECHO",
        "MSET a",
        "MSET a b c",
        "SUBSCRIBE",
        "CLIENT GETNAME",
        "CLIENT SETNAME me",
        "CLIENT GETNAME",
        "RESET",
        "CLIENT GETNAME",
        "SUBSCRIBE topic",
        "GET text",
        "PING",
        "PING hello",
        "UNSUBSCRIBE topic",
        "GET text",
        "QUIT",
    ];
    let commands: Vec<_> = lines.iter().map(|line| words(line)).collect();
    compare(&mut ours, &mut theirs, &commands);
}
