//! A server that discards its input and prints the throughput every second.
//!
//! ```sh
//! cargo run --release -p waterwheel --example discard -- 7000
//! head -c 2G /dev/zero | nc -q1 localhost 7000     # in another terminal
//! ```
//!
//! Shows a counter shared by the handlers of all loops, and a periodic timer of a group.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Ctx, EventLoopGroup, HandlerResult, In, InboundHandler, ServerBootstrap,
};
use waterwheel::net::{Auto, Tcp};

/// Interval of the output.
const PERIOD: Duration = Duration::from_secs(1);

/// Counts received bytes. One handler per connection, one counter for all.
struct Discard(Arc<AtomicU64>);

impl InboundHandler for Discard {
    type In = Bytes;

    /// Drops the bytes; their memory is reused for the next read.
    fn on_read(&mut self, _: &Ctx<'_>, bytes: Bytes) -> HandlerResult {
        self.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "7000".into());
    let port: u16 = port.parse().map_err(|_| format!("{port} is not a port number"))?;
    let group = EventLoopGroup::builder(Auto).name("discard").build()?;
    let total = Arc::new(AtomicU64::new(0));

    let counter = total.clone();
    let server = ServerBootstrap::new(&group, Tcp)
        .child_initialiser(move |edit| {
            edit.add_last("discard", In(Discard(counter.clone())))?;
            Ok(())
        })
        .bind(("127.0.0.1", port))
        .join()?;
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);

    let mut before = 0;
    let print_rate = move || {
        let now = total.load(Ordering::Relaxed);
        if now != before {
            let rate = (now - before) as f64 / PERIOD.as_secs_f64() / 1e6;
            println!("{now} bytes in total, {rate:.1} MB/s");
        }
        before = now;
    };
    let timer = group.schedule_at_fixed_rate(PERIOD, PERIOD, print_rate)?;

    server.closed().join()?;
    timer.cancel();
    Ok(())
}
