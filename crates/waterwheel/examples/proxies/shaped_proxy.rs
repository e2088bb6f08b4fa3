//! A TCP proxy with limits: bytes per second of each connection, and of all together.
//!
//! ```sh
//! cargo run --release -p waterwheel --example shaped_proxy -- --each 100000 --total 1000000 127.0.0.1:7001 127.0.0.1:7000
//! ```
//! The rates hold for both directions, each on its own. Shows traffic shaping: what a client sends is read at the rate,
//! what it gets is written at the rate, and neither is collected in memory, because held bytes make a channel
//! unwritable and the other side is not read meanwhile. Every second with traffic a line tells how much passed.
//!
//! ```text
//!   client ⇄ [shaping] front ⇄ back ⇄ target       the limiters of `--total` are shared by all loops
//! ```

use std::error::Error;
use std::net::ToSocketAddrs;
use std::time::Duration;

use waterwheel::channel::{ChannelOptions, EventLoopGroup, ServerBootstrap};
use waterwheel::handlers::{TrafficLimiter, TrafficRate, TrafficShaping};
use waterwheel::net::{Auto, Tcp};

#[path = "../support/forwarding.rs"]
mod forwarding;

use forwarding::{ConnectTarget, side_options};

const USAGE: &str =
    "usage: shaped_proxy [--each BYTES] [--total BYTES] [--threads N] LISTEN TARGET";

/// The command line.
struct Options {
    /// Bytes per second of each connection and direction.
    each: Option<TrafficRate>,
    /// Bytes per second of all connections together, in each direction.
    total: Option<TrafficRate>,
    threads: usize,
    listen: String,
    target: String,
}

fn parse() -> Result<Options, Box<dyn Error>> {
    let (mut each, mut total, mut threads) = (None, None, 2);
    let mut addresses = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || -> Result<u64, Box<dyn Error>> {
            let value = args.next().ok_or_else(|| format!("{arg} needs a number; {USAGE}"))?;
            Ok(value.parse().map_err(|error| format!("{arg} {value}: {error}"))?)
        };
        match arg.as_str() {
            "--each" => each = Some(TrafficRate::per_second(number()?)),
            "--total" => total = Some(TrafficRate::per_second(number()?)),
            "--threads" => threads = usize::try_from(number()?)?,
            _ => addresses.push(arg),
        }
    }
    let [listen, target] = <[String; 2]>::try_from(addresses).map_err(|_| USAGE)?;
    Ok(Options { each, total, threads, listen, target })
}

fn limiter(rate: Option<TrafficRate>) -> TrafficLimiter {
    rate.map_or_else(TrafficLimiter::unlimited, TrafficLimiter::new)
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = parse()?;
    let target = &options.target;
    let mut addresses = target.to_socket_addrs().map_err(|error| format!("{target}: {error}"))?;
    let target = addresses.next().ok_or("the target has no address")?;
    let (from_clients, to_clients) = (limiter(options.total), limiter(options.total));
    let mut shaping = TrafficShaping::builder().read_group(&from_clients).write_group(&to_clients);
    if let Some(each) = options.each {
        shaping = shaping.channel_read(each).channel_write(each);
    }
    let shaping = shaping.build()?;
    let group = EventLoopGroup::builder(Auto).name("proxy").threads(options.threads).build()?;
    let server = ServerBootstrap::new(&group, Tcp)
        .child_options(ChannelOptions { auto_read: false, ..side_options() })
        .child_initialiser(move |edit| {
            edit.add_last("shaping", shaping.handler())?;
            edit.add_last("connect", ConnectTarget(target))?;
            Ok(())
        })
        .bind(options.listen)
        .join()?;
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    let mut last = 0;
    let report = move || {
        let (from, to) = (from_clients.stats(), to_clients.stats());
        if from.bytes + to.bytes > last {
            last = from.bytes + to.bytes;
            println!(
                "from clients {} B/s, to clients {} B/s",
                from.bytes_per_second, to.bytes_per_second
            );
        }
    };
    let second = Duration::from_secs(1);
    let _reports = group.next().schedule_at_fixed_rate(second, second, report)?;
    Ok(server.closed().join()?)
}
