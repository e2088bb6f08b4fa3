//! A TCP proxy: forwards connections to another server in both directions.
//!
//! ```sh
//! cargo run --release -p waterwheel --example proxy -- 127.0.0.1:7001 127.0.0.1:7000 # from, to
//! ```
//! Shows back-pressure: a side is read only while the other one is writable, so that a slow reader slows down its
//! writer and costs no memory. A half-close is forwarded, and the other direction continues. When one side is closed,
//! the other is closed after its pending bytes are written.
//!
//! ```text
//!   client ⇄ front ⇄ back ⇄ target            two channels on one loop, a `Forward` in each (support/forwarding.rs)
//! ```

use std::error::Error;
use std::net::ToSocketAddrs;

use waterwheel::channel::{ChannelOptions, EventLoopGroup, ServerBootstrap};
use waterwheel::net::{Auto, Tcp};

#[path = "../support/forwarding.rs"]
mod forwarding;

use forwarding::{ConnectTarget, side_options};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(listen), Some(target)) = (args.next(), args.next()) else {
        return Err("usage: proxy LISTEN TARGET, two addresses".into());
    };
    let mut addresses = target.to_socket_addrs().map_err(|error| format!("{target}: {error}"))?;
    let target = addresses.next().ok_or("the target has no address")?;
    let group = EventLoopGroup::builder(Auto).name("proxy").build()?;
    let server = ServerBootstrap::new(&group, Tcp)
        .child_options(ChannelOptions { auto_read: false, ..side_options() })
        .child_initialiser(move |edit| {
            Ok(edit.add_last("connect", ConnectTarget(target)).map(drop)?)
        })
        .bind(listen)
        .join()?;
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    Ok(server.closed().join()?)
}
