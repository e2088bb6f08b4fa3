//! gRPC on event loops: a server and a client of tonic, with a unary call and streams.
//!
//! ```sh
//! cargo run --release -p waterwheel --example grpc -- 7051
//! cargo run --release -p waterwheel --example grpc -- --ask localhost:7051    # in another terminal
//! ```
//!
//! `--threads N` serves on N event loops (default: one). SIGTERM and Ctrl-C end the server when every call is finished.
//!
//! tonic is built without its servers and clients, which need tokio's runtime: hyper speaks HTTP/2 on the loop of the
//! connection, for both.
//!
//! | file | contents |
//! |---|---|
//! | `calculator.proto` | the service and its messages |
//! | `calculator.rs` | the code that tonic generates for them |
//! | `service.rs` | the methods of the service |
//! | `client.rs` | a client's connection |

#[allow(unused_qualifications, unreachable_pub, missing_docs, reason = "generated code")]
#[allow(clippy::allow_attributes_without_reason, reason = "generated code")]
mod calculator;
mod client;
mod service;

use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

use futures_util::stream;
use hyper::server::conn::http2;
use hyper_util::service::TowerToHyperService;
use waterwheel::async_bridge::{LoopTimer, Serve, serve_http};
use waterwheel::channel::{Bootstrap, DrainOptions, EventLoopGroup, LocalLoop, ServerBootstrap};
use waterwheel::net::{Auto, Tcp, Terminate};

use calculator::calculator_server::CalculatorServer;
use calculator::{Number, Range};
use service::CalculatorService;

/// Maximum number of simultaneous connections.
const MAX_CONNECTIONS: usize = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let (mut port, mut threads, mut server) = (7051, 1, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--ask" => server = Some(args.next().ok_or("--ask ADDRESS")?),
            "--threads" => threads = args.next().ok_or("--threads N")?.parse()?,
            other => port = other.parse().map_err(|_| format!("{other} is not a port number"))?,
        }
    }
    let group = EventLoopGroup::builder(Auto).threads(threads).name("grpc").build()?;
    match server {
        None => serve(&group, port),
        Some(address) => ask_on_a_loop(&group, address),
    }
}

fn serve(group: &EventLoopGroup, port: u16) -> Result<(), Box<dyn Error>> {
    let calculator = CalculatorServer::new(CalculatorService);
    let server = ServerBootstrap::new(group, Tcp)
        .serve(move |connection| {
            let service = TowerToHyperService::new(calculator.clone());
            serve_http(
                connection,
                |io, executor| {
                    http2::Builder::new(executor).timer(LoopTimer).serve_connection(io, service)
                },
                http2::Connection::graceful_shutdown,
            )
        })
        .max_connections(MAX_CONNECTIONS)
        .bind(("127.0.0.1", port))
        .join()?;
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    let drain = DrainOptions::within(Duration::from_secs(30));
    Terminate::new()?.drain(group, drain.shutdown(Duration::ZERO, Duration::from_secs(5))?);
    group.termination().join()?;
    Ok(())
}

/// Runs the client on a loop: its futures are not `Send`.
fn ask_on_a_loop(group: &EventLoopGroup, address: String) -> Result<(), Box<dyn Error>> {
    let bootstrap = Bootstrap::new(group, Tcp);
    let (sender, outcome) = mpsc::channel();
    group.execute(move || {
        let Some(here) = LocalLoop::current() else { return };
        here.spawn_local(async move {
            let _ = sender.send(ask(&bootstrap, &address).await);
        });
    })?;
    outcome.recv()?.map_err(|error| error as Box<dyn Error>)
}

async fn ask(bootstrap: &Bootstrap, address: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut calculator = client::connect(bootstrap, address).await?;
    let square = calculator.square(Number { value: 12 }).await?.into_inner();
    println!("the square of 12 is {}", square.value);

    let refused = calculator.square(Number { value: i64::MAX }).await;
    println!(
        "the square of {} is refused: {}",
        i64::MAX,
        refused.err().ok_or("a square")?.message()
    );

    let range = Range { first: 1, last: 3, pause_milliseconds: 100 };
    let mut numbers = calculator.count(range).await?.into_inner();
    while let Some(Number { value }) = numbers.message().await? {
        println!("counted {value}");
    }

    let values = stream::iter([10, 20, -5].map(|value| Number { value }));
    let mut totals = calculator.total(values).await?.into_inner();
    while let Some(Number { value }) = totals.message().await? {
        println!("the total is {value}");
    }
    Ok(())
}
