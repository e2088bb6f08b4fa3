//! Sends every message back: a WebSocket server in one handler.
//!
//! ```sh
//! cargo run --release -p waterwheel --example ws_echo -- 8080
//! cargo run --release -p waterwheel --example ws_client -- ws://localhost:8080/     # in another terminal
//! ```
//!
//! Clients that offer compression get it. With `--keep-context`, compressors keep their window from message to message, if
//! the client wants that too. SIGTERM and Ctrl-C close the connections with 1001.

use std::error::Error;
use std::time::Duration;

use waterwheel::channel::{DrainOptions, EventLoopGroup, HandlerResult};
use waterwheel::http::{Request, Response, serve};
use waterwheel::net::{Auto, Tcp, Terminate};
use waterwheel::websocket::{
    DeflateOptions, HandshakeError, WebSocketContext, WebSocketHandler, WebSocketLimits,
    WebSocketMessage, WebSocketOptions, WebSocketUpgrade,
};

/// Maximum size of a message. A connection holds one message at a time.
const MAX_MESSAGE: u64 = 16 * 1024 * 1024;

/// The handler of one connection.
struct Echo;

impl WebSocketHandler for Echo {
    fn on_message(
        &mut self,
        socket: &WebSocketContext<'_>,
        message: WebSocketMessage,
    ) -> HandlerResult {
        Ok(socket.send(message)?)
    }
}

async fn echo(request: Request, options: WebSocketOptions) -> Result<Response, HandshakeError> {
    let upgrade = WebSocketUpgrade::of(&request, &options)?; // A wrong request gets its answer.
    Ok(upgrade.require_same_origin()?.handle(Echo))
}

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: ws_echo PORT [--keep-context]";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (port, keeps_context) = match &arguments[..] {
        [port] => (port, false),
        [port, option] if option == "--keep-context" => (port, true),
        _ => return Err(usage.into()),
    };
    let port: u16 = port.parse().map_err(|_| usage)?;
    let deflate = DeflateOptions::builder()
        .context_takeover(keeps_context)
        .peer_context_takeover(keeps_context)
        .build()?;
    let options = WebSocketOptions::builder()
        .limits(WebSocketLimits::default().max_message(MAX_MESSAGE))
        .deflate(deflate)
        .build()?;
    let group = EventLoopGroup::builder(Auto).name("echo").build()?;
    let service = move |request| echo(request, options.clone());
    let server = serve(&group, Tcp, ("127.0.0.1", port), service).join()?;
    let drain = DrainOptions::within(Duration::from_secs(10));
    Terminate::new()?.drain(&group, drain.shutdown(Duration::ZERO, Duration::from_secs(5))?);
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    group.termination().join()?;
    Ok(())
}
