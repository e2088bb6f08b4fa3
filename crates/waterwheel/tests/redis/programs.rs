//! The example with the programs that people use with Redis.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::program::{Program, path_of};
use crate::run_program;

#[test]
fn k03_redis_cli_is_served_in_both_versions() {
    let redis = Program::start("redis", &[&0]);
    let port = redis.address().port().to_string();
    let long = "x".repeat(100_000);
    let script = format!(
        "PING\nECHO \"two words\"\nGET nothing\nSET a \"\\x00\\xff\\r\\n\"\nGET a\nINCR n\nINCR n\nINCR a\n\
         SET long {long}\nGET long\nDEL a long nothing\nSET b 1 EX 0\nSET b 1 EX 100\nGET b\nNOSUCH\n"
    );
    let expected = "PONG\n\"two words\"\n(nil)\nOK\n\"\\x00\\xff\\r\\n\"\n(integer) 1\n(integer) 2\n\
             (error) ERR value is not an integer or out of range\nOK\n\"LONG\"\n(integer) 2\n\
             (error) ERR invalid expire time in 'set' command\nOK\n\"1\"\n\
             (error) ERR unknown command 'NOSUCH', with args beginning with: \n";
    for version in ["-2", "-3"] {
        let args = ["-p", &port, version, "--no-raw"];
        let Some(output) = run_program("redis-cli", &args, &script) else { return };
        assert_eq!(output.replace(&long, "LONG"), expected, "{version}");
        run_program("redis-cli", &["-p", &port, "DEL", "n"], "");
    }
    let output =
        run_program("redis-cli", &["-p", &port, "-3", "--no-raw", "CONFIG", "GET", "save"], "");
    assert_eq!(output.unwrap(), "1# \"save\" => \"\"\n", "RESP3 answers with a map");
}

/// The Python of the system, with the Debian package python3-redis: RESP2.
const SYSTEM_PYTHON: &str = "/usr/bin/python3";

/// Returns a Python with redis-py 5 or later, which speaks RESP3. `scripts/test` installs it beside the build.
fn python_with_resp3() -> PathBuf {
    let target = path_of("").ancestors().nth(2).map(PathBuf::from);
    target.unwrap_or_default().join("redis-py/bin/python3")
}

/// Uses a client library: text and binary values, a pipeline, lists, expiry, errors, pub/sub from a second connection.
fn use_client_library(python: &str, options: &str) {
    let found = Command::new(python).args(["-c", "import redis"]).stderr(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        return println!("not tested: {python} has no module redis");
    }
    let redis = Program::start("redis", &[&"--threads", &2, &0]);
    let port = redis.address().port().to_string();
    let script = r#"
import redis, sys, time
client = redis.Redis(host="127.0.0.1", port=int(sys.argv[1]), client_name="tester" OPTIONS)
value = b"\x00\r\n" * 1000
print(client.ping(), client.set("a", value, ex=100), client.get("a") == value, client.get("none"))
with client.pipeline(transaction=False) as many:
    for number in range(1000):
        many.incr("n")
        many.set(f"key{number}", number)
    print([reply for reply in many.execute() if reply is not True] == list(range(1, 1001)))
print(client.mget([f"key{number}" for number in range(1000)]) == [b"%d" % number for number in range(1000)])
print(client.rpush("list", "x", "y", "z"), client.lrange("list", 0, -1), client.lpop("list", 2), client.llen("list"))
print(client.expire("list", 100), 0 < client.ttl("list") <= 100, client.persist("list"), client.ttl("list"))
print(client.client_getname() in ("tester", b"tester"), client.config_get("save"), client.info()["redis_mode"], client.dbsize())
subscriber = client.pubsub()
subscriber.subscribe("news", "more")
print([subscriber.get_message(timeout=10)["type"] for _ in range(2)])
print(client.publish("news", "hello"), subscriber.get_message(timeout=10)["data"])
subscriber.unsubscribe()
print([subscriber.get_message(timeout=10)["type"] for _ in range(2)])
for command in ["NOSUCH"], ["LPUSH", "a", "b"]:
    try:
        client.execute_command(*command)
    except redis.ResponseError as error:
        print(error)
print(client.flushall(), client.dbsize())
"#;
    let output = run_program(python, &["-", &port], &script.replace("OPTIONS", options)).unwrap();

    let expected = "True True True None\nTrue\nTrue\n3 [b'x', b'y', b'z'] [b'x', b'y'] 1\nTrue True True -1\n\
         True {'save': ''} standalone 1003\n['subscribe', 'subscribe']\n1 b'hello'\n\
         ['unsubscribe', 'unsubscribe']\nunknown command 'NOSUCH', with args beginning with: \n\
         WRONGTYPE Operation against a key holding the wrong kind of value\nTrue 0\n";
    assert_eq!(output, expected);
}

#[test]
fn k03_a_client_library_is_served_in_resp2() {
    use_client_library(SYSTEM_PYTHON, "");
}

#[test]
fn k03_a_client_library_is_served_in_resp3() {
    use_client_library(&python_with_resp3().to_string_lossy(), ", protocol=3");
}

#[test]
fn k03_redis_benchmark_completes_without_errors() {
    for threads in [1, 2] {
        let redis = Program::start("redis", &[&"--threads", &threads, &0]);
        let port = redis.address().port().to_string();
        for pipelined in ["1", "16"] {
            let tests = "ping_inline,ping_mbulk,set,get,incr,lpush,rpush,lpop,rpop,mset";
            for (tests, count, size, lines) in
                [(tests, "2000", "700", 10), ("lrange_100", "100", "3", 2)]
            {
                let args = ["-p", &port, "-c", "50", "-r", "1000", "-P", pipelined, "--csv"];
                let args = [&args[..], &["-t", tests, "-n", count, "-d", size]].concat();
                let Some(output) = run_program("redis-benchmark", &args, "") else { return };
                assert_eq!(
                    output.lines().count(),
                    1 + lines,
                    "a header, and a line each: {output}"
                );
            }
        }
    }
}
