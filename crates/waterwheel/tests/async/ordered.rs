//! Ordered answers with the RESP codec: embedded, over TCP, and with the programs of Redis.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use waterwheel::async_bridge::{AsyncHandler, OrderedAnswers, handler_fn};
use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Channel, Decode, Edit, EventLoopGroup, ServerBootstrap, sleep, yield_now,
};
use waterwheel::codec::{
    RespCommand, RespCommandDecoder, RespEncoder, RespLimits, RespValue, RespVersion,
};
use waterwheel::executor::{Error, EventExecutorGroup};
use waterwheel::net::{Auto, Tcp};
use waterwheel_testkit::embedded::Embedded;

use crate::program::connect;

/// Adds the codec and the answers of a handler.
fn add_resp<H: AsyncHandler<Request = RespCommand, Response = RespValue>>(
    edit: &mut Edit<'_>,
    handler: H,
) -> Result<(), Error> {
    let decoder = Decode::new(RespCommandDecoder::new(RespLimits::default()));
    edit.add_codec("resp", decoder, RespEncoder::new(RespVersion::Resp2))?;
    edit.add_last("answers", OrderedAnswers::new(handler))?;
    Ok(())
}

/// Answers `AFTER millis text` after a time, `ECHO text` and `PING` at once, and everything else with an error.
struct Delays;

impl AsyncHandler for Delays {
    type Request = RespCommand;
    type Response = RespValue;

    async fn call(&self, command: RespCommand) -> Result<RespValue, Error> {
        let last = command.argument(command.len() - 1).unwrap_or_default();
        if command.is("after") {
            let millis = std::str::from_utf8(&command[1]).map_err(Error::new)?;
            sleep(Duration::from_millis(millis.parse().map_err(Error::new)?)).await;
            return Ok(RespValue::bulk(last));
        }
        if command.is("echo") {
            return Ok(RespValue::bulk(last));
        }
        let is_ping = command.is("ping");
        is_ping.then(|| RespValue::simple("PONG")).ok_or_else(|| Error::new("unknown command"))
    }

    fn answer_error(&self, error: Error) -> Result<RespValue, Error> {
        Ok(RespValue::error(format!("ERR {error}")))
    }
}

const PIPELINED: &str = "PING\r\n*3\r\n$5\r\nAFTER\r\n$2\r\n30\r\n$1\r\na\r\n*2\r\n$4\r\nECHO\r\n$1\r\nb\r\n\
                         AFTER 10 c\r\nAFTER x d\r\nNOSUCH\r\nECHO e\r\n";

#[test]
fn c19_ordered_pipelined_redis_commands_are_answered_in_order_however_they_are_cut() {
    for size in [1, 7, PIPELINED.len()] {
        let mut channel =
            Embedded::builder().stream().build(|edit| add_resp(edit, Delays)).unwrap();
        for piece in PIPELINED.as_bytes().chunks(size) {
            channel.write_inbound(Bytes::copy_from_slice(piece));
        }
        // Takes what was answered, and lets ten milliseconds pass.
        let mut answers = || {
            let chunks = std::iter::from_fn(|| channel.read_outbound::<Bytes>());
            let answers = chunks.flat_map(|bytes| bytes.to_vec()).collect();
            channel.advance(Duration::from_millis(10));
            String::from_utf8(answers).unwrap()
        };
        assert_eq!(answers(), "+PONG\r\n", "{size}: the second answer is missing");
        assert_eq!(answers(), "", "{size}: the fourth one is ready");
        assert_eq!(answers(), "");
        let rest = "$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n-ERR invalid digit found in string\r\n\
                    -ERR unknown command\r\n$1\r\ne\r\n";
        assert_eq!(answers(), rest, "{size}");
        assert_eq!(channel.writes(), 2, "{size}: one write for each batch");
    }
}

fn bind(
    group: &EventLoopGroup,
    initialiser: impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync + 'static,
) -> (Channel, SocketAddr) {
    let server = ServerBootstrap::new(group, Tcp)
        .child_allow_half_closure(true)
        .child_initialiser(initialiser)
        .bind("127.0.0.1:0")
        .join()
        .unwrap();
    let address = server.local_address().unwrap().socket_addr().unwrap();
    (server, address)
}

/// Echoes in one of three ways: at once, after turns of the loop, or by an executor.
fn add_mixed(edit: &mut Edit<'_>, workers: &EventExecutorGroup) -> Result<(), Error> {
    let workers = workers.clone();
    let handler = handler_fn(move |command: RespCommand| {
        let workers = workers.clone();
        async move {
            let text = command.argument(1).unwrap_or_default();
            let number = text.iter().map(|byte| usize::from(*byte)).sum::<usize>();
            for _ in 0..number % 3 {
                yield_now().await;
            }
            if number % 5 > 2 {
                workers.next().submit(|| ())?.await?;
            }
            Ok::<_, Error>(RespValue::bulk(text))
        }
    });
    add_resp(edit, handler)
}

#[test]
fn c19_ordered_thousands_of_pipelined_commands_are_answered_in_order_over_tcp() {
    const COMMANDS: usize = 5000;
    let group = EventLoopGroup::builder(Auto).threads(2).build().unwrap();
    let workers = EventExecutorGroup::builder().threads(2).build().unwrap();
    let (_server, address) = bind(&group, move |edit| add_mixed(edit, &workers));
    let clients: Vec<_> = (0..4)
        .map(|client| {
            std::thread::spawn(move || {
                let stream = connect(address);
                let text = move |number: usize| format!("{client}-{number}");
                let mut sender = stream.try_clone().unwrap();
                let sending = std::thread::spawn(move || {
                    for number in 0..COMMANDS {
                        let command = RespCommand::new(&["ECHO".to_owned(), text(number)]);
                        sender.write_all(command.wire()).unwrap();
                    }
                    sender.shutdown(Shutdown::Write).unwrap();
                });
                let mut answers = String::new();
                (&stream).read_to_string(&mut answers).unwrap();
                sending.join().unwrap();
                let expected: String = (0..COMMANDS)
                    .map(|number| format!("${}\r\n{1}\r\n", text(number).len(), text(number)))
                    .collect();
                assert!(answers == expected, "client {client}");
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
}

#[test]
fn c19_ordered_calls_are_dropped_when_the_peer_leaves() {
    struct Dropped(Sender<()>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let (begun, on_begun) = mpsc::channel();
    let (dropped, on_dropped) = mpsc::channel();
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let (_server, address) = bind(&group, move |edit| {
        let (begun, dropped) = (begun.clone(), dropped.clone());
        let handler = handler_fn(move |_: RespCommand| {
            let (begun, guard) = (begun.clone(), Dropped(dropped.clone()));
            async move {
                let _guard = guard;
                begun.send(()).map_err(Error::new)?;
                std::future::pending::<Result<RespValue, Error>>().await
            }
        });
        add_resp(edit, handler)
    });
    let mut stream = connect(address);
    stream.write_all(b"PING\r\nPING\r\nPING\r\n").unwrap();
    (0..3).for_each(|_| on_begun.recv().unwrap());
    // A reset: with half-closure an end of the peer's data alone would be answered.
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
    (0..3).for_each(|_| on_dropped.recv().unwrap());
}

/// Runs a program of Redis against a server, and returns its output.
fn run_redis_program(program: &str, args: &[&str], address: SocketAddr) -> String {
    let port = address.port().to_string();
    let mut command = Command::new(program);
    command.args(["-p", &port]).args(args).stdin(Stdio::null());
    let output = command.output().unwrap_or_else(|error| {
        panic!("{program} does not start, scripts/test installs it (redis-tools): {error}")
    });
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{program}: {text}");
    text
}

#[test]
fn c19_ordered_redis_cli_and_redis_benchmark_are_served() {
    let group = EventLoopGroup::builder(Auto).threads(2).build().unwrap();
    let (_server, address) = bind(&group, |edit| add_resp(edit, Delays));
    let output = run_redis_program("redis-cli", &["AFTER", "1", "hello"], address);
    assert_eq!(output, "hello\n");
    let args = ["-q", "-c", "10", "-n", "5000", "-P", "16", "AFTER", "1", "hello"];
    let output = run_redis_program("redis-benchmark", &args, address);
    assert!(output.contains("requests per second"), "{output}");
}
