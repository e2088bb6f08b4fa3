//! RESP against other implementations: redis-cli, redis-benchmark and redis-py as clients, redis-server as a server.
//!
//! A test whose program is not installed prints a note and passes; `scripts/test` installs the programs.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use waterwheel::channel::{
    Address, Bootstrap, Channel, Ctx, Decode, EventLoopGroup, HandlerResult, In, InboundHandler,
    UnixAddress,
};
use waterwheel::codec::{RespCommand, RespDecoder, RespEncoder, RespValue};
use waterwheel::executor::Error;
use waterwheel::net::{Auto, Unix};

#[path = "support/program.rs"]
mod program;

use program::{Program, WAIT_LIMIT};

/// Runs a program with this standard input, and returns its output, or `None` if it is not installed.
fn run_program(program: &str, args: &[&str], input: &str) -> Option<String> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("not tested: {program}: {error}");
            return None;
        }
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{program} {args:?}: {text}");
    Some(text)
}

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
             (error) ERR invalid expire time\nOK\n\"1\"\n\
             (error) ERR unknown command or wrong number of arguments\n";
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

#[test]
fn k03_invalid_resp_is_answered_with_an_error_and_a_close() {
    let redis = Program::start("redis", &[&0]);
    for (sent, answer) in [
        ("*1\r\n+PING\r\n", "an argument of a command begins with '+' instead of '$'"),
        (
            "PING\r\n*1000000\r\n",
            "a message has at least 1000000 values; at most 131072 are allowed",
        ),
        ("*1\r\n$9000000\r\n", "a bulk string is longer than 8388608 bytes"),
    ] {
        let mut client = redis.connect();
        client.write_all(sent.as_bytes()).unwrap();
        let mut received = String::new();
        client.read_to_string(&mut received).unwrap();
        let received = received.strip_prefix("+PONG\r\n").unwrap_or(&received);
        assert_eq!(received, format!("-ERR Protocol error: RESP: {answer}\r\n"));
    }
}

/// Uses redis-py of the system's Python: the Debian package python3-redis.
#[test]
fn k03_a_client_library_is_served() {
    const PYTHON: &str = "/usr/bin/python3";
    let found = Command::new(PYTHON).args(["-c", "import redis"]).stderr(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        return println!("not tested: {PYTHON} has no module redis");
    }
    let redis = Program::start("redis", &[&0]);
    let port = redis.address().port().to_string();
    let script = r#"
import redis, sys
client = redis.Redis(port=int(sys.argv[1]))
value = b"\x00\r\n" * 1000
print(client.ping(), client.set("a", value, ex=100), client.get("a") == value, client.get("none"))
with client.pipeline(transaction=False) as many:
    for number in range(1000):
        many.execute_command("INCR", "n")
    print(many.execute() == list(range(1, 1001)))
try:
    client.execute_command("NOSUCH")
except redis.ResponseError as error:
    print(error)
"#;
    let output = run_program(PYTHON, &["-", &port], script).unwrap();
    let error = "unknown command or wrong number of arguments";
    assert_eq!(output, format!("True True True None\nTrue\n{error}\n"));
}

#[test]
fn k03_redis_benchmark_completes_without_errors() {
    let redis = Program::start("redis", &[&0]);
    let port = redis.address().port().to_string();
    for pipelined in ["1", "16"] {
        let tests = "ping_inline,ping_mbulk,set,get,incr";
        let args = [
            "-p", &port, "-c", "20", "-n", "5000", "-P", pipelined, "-d", "700", "-t", tests,
            "--csv",
        ];
        let Some(output) = run_program("redis-benchmark", &args, "") else { return };
        let lines: Vec<_> = output.lines().collect();
        assert_eq!(lines.len(), 1 + 5, "a header, and a line for each benchmark: {output}");
    }
}

/// A running redis-server at a Unix socket in a directory of its own; dropping the value kills it.
struct RedisServer {
    child: Child,
    directory: PathBuf,
}

impl RedisServer {
    /// Starts a server, or returns `None` if redis-server is not installed.
    fn start() -> Option<Self> {
        let directory =
            std::env::temp_dir().join(format!("waterwheel-redis-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--enable-debug-command", "yes"]);
        command.arg("--unixsocket").arg(directory.join("redis.sock")).arg("--dir").arg(&directory);
        match command.stdout(Stdio::piped()).spawn() {
            Ok(mut child) => {
                wait_for_output("ready to accept connections", child.stdout.take().unwrap());
                Some(Self { child, directory })
            }
            Err(error) => {
                println!("not tested: redis-server: {error}");
                None
            }
        }
    }

    fn address(&self) -> Address {
        Address::Unix(UnixAddress::path(self.directory.join("redis.sock")))
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Waits until a program prints this text. A thread reads the later output, so that the program never blocks on it.
fn wait_for_output(text: &str, mut stdout: impl Read + Send + 'static) {
    let mut all = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&all).contains(text) {
        assert_eq!(stdout.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&all));
        all.push(byte[0]);
    }
    std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
}

struct Answers(Sender<Result<RespValue, Error>>);

impl InboundHandler for Answers {
    type In = RespValue;

    fn on_read(&mut self, _: &Ctx<'_>, value: RespValue) -> HandlerResult {
        let _ = self.0.send(Ok(value));
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        let _ = self.0.send(Err(error));
        Ok(())
    }
}

struct Client {
    channel: Channel,
    answers: Receiver<Result<RespValue, Error>>,
}

impl Client {
    fn connect(group: &EventLoopGroup, to: Address) -> Self {
        let (sender, answers) = channel();
        let channel = Bootstrap::new(group, Unix)
            .initialiser(move |edit| {
                edit.add_codec(
                    "resp",
                    Decode::new(RespDecoder::default()),
                    RespEncoder::default(),
                )?;
                edit.add_last("answers", In(Answers(sender.clone())))?;
                Ok(())
            })
            .connect(to)
            .join()
            .unwrap();
        Self { channel, answers }
    }

    fn answer(&self) -> RespValue {
        self.answers.recv_timeout(WAIT_LIMIT).unwrap().unwrap()
    }

    fn ask(&self, words: &[&str]) -> RespValue {
        self.channel.send(RespCommand::new(words));
        self.answer()
    }
}

fn text(value: &str) -> RespValue {
    RespValue::bulk(value.to_owned())
}

#[test]
fn k03_a_client_speaks_resp3_with_a_redis_server() {
    let Some(server) = RedisServer::start() else { return };
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let client = Client::connect(&group, server.address());
    assert_eq!(client.ask(&["PING"]), RespValue::simple("PONG"));
    assert_eq!(client.ask(&["GET", "nothing"]), RespValue::Null);
    assert!(matches!(client.ask(&["CONFIG", "GET", "save"]), RespValue::Array(_)));
    assert!(matches!(client.ask(&["HELLO", "3"]), RespValue::Map(_)));
    assert_eq!(client.ask(&["GET", "nothing"]), RespValue::Null);
    assert_eq!(
        client.ask(&["CONFIG", "GET", "save"]),
        RespValue::Map(vec![(text("save"), text(""))])
    );
    let long = "\r\n".repeat(500_000);
    assert_eq!(client.ask(&["SET", "long", &long]), RespValue::simple("OK"));
    assert_eq!(client.ask(&["GET", "long"]), text(&long));
    assert!(
        matches!(client.ask(&["INCR", "long"]), RespValue::Error(error) if error.starts_with(b"ERR"))
    );
    // Every RESP type, by the DEBUG PROTOCOL command.
    let int = RespValue::Integer;
    let three = || (0..3).map(int).collect::<Vec<_>>();
    for (kind, expected) in [
        ("string", text("Hello World")),
        ("integer", int(12345)),
        ("double", RespValue::Double("3.141".parse().unwrap())),
        ("null", RespValue::Null),
        ("array", RespValue::Array(three())),
        ("set", RespValue::Set(three())),
        ("map", RespValue::Map((0..3).map(|n| (int(n), RespValue::Boolean(n == 1))).collect())),
        ("true", RespValue::Boolean(true)),
        ("false", RespValue::Boolean(false)),
        ("bignum", RespValue::BigNumber("1234567999999999999999999999999999999".into())),
        (
            "verbatim",
            RespValue::Verbatim { format: *b"txt", text: "This is a verbatim\nstring".into() },
        ),
        (
            "attrib",
            RespValue::Attributed {
                attributes: vec![(
                    text("key-popularity"),
                    RespValue::Array(vec![text("key:123"), int(90)]),
                )],
                value: Box::new(text("Some real reply following the attribute")),
            },
        ),
    ] {
        assert_eq!(client.ask(&["DEBUG", "PROTOCOL", kind]), expected, "{kind}");
    }
    // A push arrives between answers.
    assert!(matches!(client.ask(&["SUBSCRIBE", "news"]), RespValue::Push(_)));
    assert_eq!(
        client.ask(&["PUBLISH", "news", "hello"]),
        RespValue::Push(vec![text("message"), text("news"), text("hello"),])
    );
    assert_eq!(client.answer(), int(1));
}

#[test]
fn k03_a_thousand_pipelined_commands_are_answered_in_order() {
    let redis = Program::start("redis", &[&0]);
    let mut client = redis.connect();
    let mut sent = Vec::new();
    let mut expected = String::new();
    for number in 0..1000 {
        sent.extend_from_slice(RespCommand::new(&["ECHO", &number.to_string()]).wire());
        let length = number.to_string().len();
        expected += &format!("${length}\r\n{number}\r\n");
    }
    client.write_all(&sent).unwrap();
    let mut answers = vec![0; expected.len()];
    client.read_exact(&mut answers).unwrap();
    assert_eq!(String::from_utf8(answers).unwrap(), expected);
}
