//! tonic's services and clients on loops: the service and the client of the example `grpc`, and the example itself.

#[path = "../../examples/async/grpc/calculator.rs"]
#[allow(unreachable_pub, missing_docs, reason = "generated code")]
#[allow(clippy::allow_attributes_without_reason, reason = "generated code")]
mod calculator;
#[path = "../../examples/async/grpc/client.rs"]
mod client;
#[path = "../../examples/async/grpc/service.rs"]
mod service;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;

use futures_util::stream::{self, BoxStream, StreamExt};
use hyper::server::conn::http2;
use hyper_util::service::TowerToHyperService;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::mpsc::unbounded_channel;
use tonic::{Code, Request, Response, Status, Streaming};
use waterwheel::async_bridge::{LoopTimer, Serve, serve_http};
use waterwheel::channel::{Bootstrap, DrainOptions, EventLoopGroup, LocalLoop, ServerBootstrap};
use waterwheel::net::{Auto, Tcp};

use self::calculator::calculator_client::CalculatorClient;
use self::calculator::calculator_server::{Calculator, CalculatorServer};
use self::calculator::{Number, Range};
use self::client::Http2Connection;
use self::service::CalculatorService;
use crate::program::{Program, WAIT_LIMIT, path_of};

type Client = CalculatorClient<Http2Connection>;

/// A server of gRPC on a loop of the test, and a loop for its clients.
struct GrpcServer {
    group: EventLoopGroup,
    clients: EventLoopGroup,
    address: String,
}

impl GrpcServer {
    fn start(service: impl Calculator) -> Self {
        let group = EventLoopGroup::builder(Auto).threads(1).name("server").build().unwrap();
        let clients = EventLoopGroup::builder(Auto).threads(1).name("client").build().unwrap();
        let service = CalculatorServer::new(service);
        let server = ServerBootstrap::new(&group, Tcp)
            .serve(move |connection| {
                let service = TowerToHyperService::new(service.clone());
                serve_http(
                    connection,
                    |io, executor| {
                        http2::Builder::new(executor).timer(LoopTimer).serve_connection(io, service)
                    },
                    http2::Connection::graceful_shutdown,
                )
            })
            .bind("127.0.0.1:0")
            .join()
            .unwrap();
        let address = server.local_address().unwrap().to_string();
        Self { group, clients, address }
    }

    /// Runs an async function with a client, on the client's loop.
    fn call<F, T>(&self, use_client: impl FnOnce(Client) -> F + Send + 'static) -> T
    where
        F: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let (bootstrap, address) = (Bootstrap::new(&self.clients, Tcp), self.address.clone());
        let (sender, outcome) = mpsc::channel();
        let run = move || {
            LocalLoop::current().unwrap().spawn_local(async move {
                let client = client::connect(&bootstrap, &address).await.unwrap();
                let _ = sender.send(use_client(client).await);
            });
        };
        self.clients.execute(run).unwrap();
        outcome.recv_timeout(WAIT_LIMIT).unwrap()
    }
}

async fn square(client: &mut Client, value: i64) -> Result<i64, Code> {
    let answer = client.square(Number { value }).await;
    answer.map(|answer| answer.into_inner().value).map_err(|status| status.code())
}

async fn next_value(numbers: &mut Streaming<Number>) -> Option<i64> {
    numbers.message().await.unwrap().map(|number| number.value)
}

#[test]
fn a04_tonic_unary_and_streaming_calls_run_on_loops() {
    let server = GrpcServer::start(CalculatorService);
    server.call(|mut client| async move {
        assert_eq!(square(&mut client, -12).await, Ok(144));
        assert_eq!(square(&mut client, i64::MAX).await, Err(Code::OutOfRange));

        // More than a window of HTTP/2: the stream waits for its reader.
        let range = Range { first: 1, last: 50_000, pause_milliseconds: 0 };
        let mut numbers = client.count(range).await.unwrap().into_inner();
        for expected in 1..=50_000 {
            assert_eq!(next_value(&mut numbers).await, Some(expected));
        }
        assert_eq!(next_value(&mut numbers).await, None);

        // Both directions at once: a number is sent when the last total has come.
        let (values, receiver) = unbounded_channel();
        let mut totals = client.total(to_stream(receiver)).await.unwrap().into_inner();
        for (value, total) in [(10, 10), (20, 30), (-5, 25)] {
            values.send(Number { value }).unwrap();
            assert_eq!(next_value(&mut totals).await, Some(total));
        }
        drop(values);
        assert_eq!(next_value(&mut totals).await, None);
    });
}

fn to_stream(
    receiver: tokio::sync::mpsc::UnboundedReceiver<Number>,
) -> impl stream::Stream<Item = Number> + Send + 'static {
    stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|number| (number, receiver))
    })
}

/// A calculator that panics when it is to square 13, and whose streams tell their end.
struct FragileCalculator {
    dropped: mpsc::Sender<&'static str>,
}

struct DropGuard(mpsc::Sender<&'static str>);

impl Drop for DropGuard {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

#[tonic::async_trait]
impl Calculator for FragileCalculator {
    type CountStream = BoxStream<'static, Result<Number, Status>>;
    type TotalStream = BoxStream<'static, Result<Number, Status>>;

    async fn square(&self, request: Request<Number>) -> Result<Response<Number>, Status> {
        assert_ne!(request.get_ref().value, 13, "an unlucky number");
        CalculatorService.square(request).await
    }

    /// Sends the first number, and waits forever.
    async fn count(&self, request: Request<Range>) -> Result<Response<Self::CountStream>, Status> {
        let guard = DropGuard(self.dropped.clone());
        let first = Number { value: request.get_ref().first };
        let numbers = stream::iter([Ok(first)]).chain(stream::pending()).map(move |item| {
            let _ = &guard;
            item
        });
        Ok(Response::new(numbers.boxed()))
    }

    async fn total(
        &self,
        request: Request<Streaming<Number>>,
    ) -> Result<Response<Self::TotalStream>, Status> {
        CalculatorService.total(request).await
    }
}

#[test]
fn a04_a_call_that_its_client_cancels_drops_the_servers_stream() {
    let (dropped, events) = mpsc::channel();
    let server = GrpcServer::start(FragileCalculator { dropped });
    let mut client = server.call(|mut client| async move {
        let range = Range { first: 7, last: 9, pause_milliseconds: 0 };
        let mut numbers = client.count(range).await.unwrap().into_inner();
        assert_eq!(next_value(&mut numbers).await, Some(7));
        drop(numbers);
        client // Keeps the connection open.
    });
    assert_eq!(events.recv_timeout(WAIT_LIMIT), Ok("dropped"));
    let answer = server.call(move |_| async move { square(&mut client, 3).await });
    assert_eq!(answer, Ok(9), "the connection of the cancelled call goes on");
}

#[test]
fn a04_a_panic_in_a_call_costs_its_stream_only() {
    let (dropped, events) = mpsc::channel();
    let server = GrpcServer::start(FragileCalculator { dropped });
    server.call(move |mut client| async move {
        let range = Range { first: 7, last: 9, pause_milliseconds: 0 };
        let mut numbers = client.count(range).await.unwrap().into_inner();
        assert_eq!(next_value(&mut numbers).await, Some(7));
        assert!(square(&mut client, 13).await.is_err(), "the service has panicked");
        assert_eq!(square(&mut client, 3).await, Ok(9), "the connection goes on");
        assert!(events.try_recv().is_err(), "and so does its other call");
    });
}

#[test]
fn a04_a_drain_finishes_the_calls_under_way() {
    let server = GrpcServer::start(CalculatorService);
    let group = server.group.clone();
    let (drained, connection) = server.call(move |mut client| async move {
        let (values, receiver) = unbounded_channel();
        let mut totals = client.total(to_stream(receiver)).await.unwrap().into_inner();
        values.send(Number { value: 1 }).unwrap();
        assert_eq!(next_value(&mut totals).await, Some(1));
        let drained = group.drain(DrainOptions::within(WAIT_LIMIT));
        for total in 2..=10 {
            values.send(Number { value: 1 }).unwrap();
            assert_eq!(next_value(&mut totals).await, Some(total));
        }
        assert!(!drained.is_done(), "a call is under way");
        drop(values);
        assert_eq!(next_value(&mut totals).await, None);
        (drained, client)
    });
    drained.join().unwrap();
    drop(connection);
}

#[test]
fn a04_the_grpc_example_asks_itself_and_finishes_at_sigterm() {
    let mut program = Program::start("grpc", &[&"--threads", &2, &0]);
    let client = Command::new(path_of("grpc")).arg("--ask").arg(&program.listen_address).output();
    let client = client.unwrap();
    let expected = "the square of 12 is 144\n\
         the square of 9223372036854775807 is refused: the square of 9223372036854775807 is too large\n\
         counted 1\ncounted 2\ncounted 3\nthe total is 10\nthe total is 30\nthe total is 25\n";
    assert_eq!(String::from_utf8_lossy(&client.stdout), expected, "{client:?}");
    assert!(client.status.success());
    kill_process(Pid::from_child(&program.child), Signal::TERM).unwrap();
    assert!(program.child.wait().unwrap().success());
}

/// Returns a Python with grpcio, which `scripts/test` installs beside the build.
fn python_with_grpc() -> PathBuf {
    let target = path_of("").ancestors().nth(2).map(PathBuf::from);
    target.unwrap_or_default().join("grpcio/bin/python3")
}

#[test]
fn a04_grpcio_calls_the_service() {
    let program = Program::start("grpc", &[&0]);
    let script = r#"
import grpc, sys
sys.path.insert(0, sys.argv[2])
messages, services = grpc.protos_and_services("calculator.proto")
with grpc.insecure_channel(sys.argv[1]) as channel:
    calculator = services.CalculatorStub(channel)
    print(calculator.Square(messages.Number(value=-12), timeout=60).value)
    try:
        calculator.Square(messages.Number(value=2**62), timeout=60)
    except grpc.RpcError as error:
        print(error.code(), error.details())
    counted = calculator.Count(messages.Range(first=-3, last=10000), timeout=60)
    print([number.value for number in counted] == list(range(-3, 10001)))
    numbers = iter([messages.Number(value=value) for value in (5, -7, 100)])
    print([total.value for total in calculator.Total(numbers, timeout=60)])
    endless = calculator.Count(messages.Range(first=0, last=2**62), timeout=60)
    print(next(endless).value, next(endless).value)
    endless.cancel()
    try:
        channel.unary_unary("/calculator.Calculator/Nothing")(b"", timeout=60)
    except grpc.RpcError as error:
        print(error.code())
"#;
    let python = python_with_grpc();
    let protos = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/async/grpc");
    let mut command = Command::new(&python);
    command.args(["-c", script]).arg(&program.listen_address).arg(protos);
    let output = command.output();
    let output =
        output.unwrap_or_else(|error| panic!("{python:?}: {error}; scripts/test installs it"));
    let expected = "144\n\
         StatusCode.OUT_OF_RANGE the square of 4611686018427387904 is too large\n\
         True\n[5, -2, 98]\n0 1\nStatusCode.UNIMPLEMENTED\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{output:?}");
}
