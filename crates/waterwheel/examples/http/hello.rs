//! Greets: the smallest HTTP server.
//!
//! ```sh
//! cargo run --release -p waterwheel --example hello -- 8080
//! curl -i http://localhost:8080/     # in another terminal
//! ```

use std::error::Error;

use waterwheel::channel::EventLoopGroup;
use waterwheel::http::{Request, serve};
use waterwheel::net::{Auto, Tcp};

async fn hello(_: Request) -> &'static str {
    "Hello, World!"
}

fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = std::env::args().nth(1).ok_or("usage: hello PORT")?.parse()?;
    let group = EventLoopGroup::builder(Auto).build()?;
    let server = serve(&group, Tcp, ("127.0.0.1", port), hello).join()?;
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    server.closed().join()?;
    Ok(())
}
