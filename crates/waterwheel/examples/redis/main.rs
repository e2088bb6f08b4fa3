//! A Redis server: strings, counters and lists with expiry, and pub/sub, in RESP2 and RESP3.
//!
//! ```sh
//! cargo run --release -p waterwheel --example redis -- 7379
//! redis-cli -p 7379 set greeting hello EX 60                                   # in another terminal
//! redis-benchmark -p 7379 -t set,get,incr,lpush -P 16
//! ```
//!
//! `--threads N` serves on N event loops (default: one). Each loop owns the keys of its shard, without a lock: a command
//! for a key of another loop is sent there as a task, and its reply takes its place among those of the connection. A
//! command with keys of several loops (`DEL`, `MSET`) is not atomic then.
//!
//! Shows a decoder and a stage as a static chain in one slot, replies that are written without an allocation, state that
//! belongs to a loop (`LoopLocal`), messages between loops, a periodic timer for each loop, and a limit for slow
//! receivers.
//!
//! | file | contents |
//! |---|---|
//! | `connection.rs` | the pipeline of a connection |
//! | `client.rs` | its state: sends commands to the owners of their keys, keeps the replies in order |
//! | `commands.rs` | the table of commands |
//! | `session.rs`, `strings.rs`, `lists.rs`, `keys.rs`, `pubsub.rs` | the commands |
//! | `shard.rs`, `store.rs` | the data of one loop: keys, values, deadlines |

mod client;
mod commands;
mod connection;
mod keys;
mod lists;
mod pubsub;
mod session;
mod shard;
mod store;
mod strings;

use std::error::Error;

use waterwheel::channel::{ChannelOptions, EventLoopGroup, ServerBootstrap};
use waterwheel::net::{Auto, Tcp};

/// Maximum number of connections, as in Redis.
const MAX_CLIENTS: usize = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let (port, threads) = arguments()?;
    let group = EventLoopGroup::builder(Auto).threads(threads).name("redis").build()?;
    shard::divide_keys(&group)?;
    let server = ServerBootstrap::new(&group, Tcp)
        // A client that has sent its last command still gets the replies of other loops.
        .child_options(ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() })
        .child_initialiser(connection::serve)
        .max_connections(MAX_CLIENTS)
        .bind(("127.0.0.1", port))
        .join()?;
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    Ok(server.closed().join()?)
}

/// `[--threads N] PORT`
fn arguments() -> Result<(u16, usize), Box<dyn Error>> {
    let (mut port, mut threads) = (7379, 1);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--threads" => threads = args.next().ok_or("--threads N")?.parse()?,
            other => port = other.parse().map_err(|_| format!("{other} is not a port number"))?,
        }
    }
    Ok((port, threads))
}
