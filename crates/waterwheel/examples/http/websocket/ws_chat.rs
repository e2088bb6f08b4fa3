//! A chat in the browser: each line of a member is sent to all.
//!
//! ```sh
//! cargo run --release -p waterwheel --example ws_chat -- 8080     # then http://localhost:8080/ in two windows
//! cargo run --release -p waterwheel --example ws_client -- ws://localhost:8080/chat     # or in a terminal
//! ```
//!
//! The first line of a member is its name. A line is encoded, and compressed, once for all members (`BroadcastMessage`); a
//! `ChannelGroup` hands it to the channels of all loops. A member that does not read misses lines, and costs no memory
//! beyond the high-water mark. SIGTERM and Ctrl-C close the connections with 1001.

use std::error::Error;
use std::time::Duration;

use waterwheel::channel::{ChannelGroup, DrainOptions, EventLoopGroup, HandlerResult, matchers};
use waterwheel::http::{Body, HttpServer, InvalidRoute, Request, Response, Router};
use waterwheel::net::{Auto, Tcp, Terminate};
use waterwheel::websocket::{
    BroadcastMessage, CloseCode, CloseOutcome, CloseReason, DeflateOptions, HandshakeError,
    WebSocketContext, WebSocketHandler, WebSocketLimits, WebSocketMessage, WebSocketOptions,
    WebSocketUpgrade,
};

const PAGE: &str = r#"<!doctype html>
<meta charset="utf-8">
<title>Chat</title>
<pre id="lines"></pre>
<form id="form"><input id="line" placeholder="your name" autocomplete="off" autofocus></form>
<script>
const show = text => lines.textContent += text + "\n";
const socket = new WebSocket(location.origin.replace(/^http/, "ws") + "/chat");
socket.onmessage = event => show(event.data);
socket.onclose = event => show(`closed: ${event.code} ${event.reason}`);
form.onsubmit = event => {
  event.preventDefault();
  socket.send(line.value);
  line.value = "";
  line.placeholder = "a line";
};
</script>
"#;

/// Maximum number of bytes of a line.
const MAX_LINE: u64 = 4096;

/// The handler of one connection.
struct Member {
    room: ChannelGroup,
    name: Option<String>,
}

impl Member {
    /// Sends a line to all members whose channels are writable.
    fn say_to_all(&self, line: &str) {
        self.room.matching(matchers::writable()).send(BroadcastMessage::text(line));
    }
}

impl WebSocketHandler for Member {
    fn on_open(&mut self, socket: &WebSocketContext<'_>) -> HandlerResult {
        Ok(socket.send_text("What is your name?")?)
    }

    fn on_message(
        &mut self,
        socket: &WebSocketContext<'_>,
        message: WebSocketMessage,
    ) -> HandlerResult {
        let WebSocketMessage::Text(line) = message else {
            socket.close(CloseReason::new(CloseCode::UNSUPPORTED, "only texts, please"));
            return Ok(());
        };
        match &self.name {
            Some(name) => self.say_to_all(&format!("{name}: {line}")),
            None => {
                self.name = Some(line.trim().to_owned());
                self.room.add(&socket.channel()); // A closed channel leaves the room by itself.
                self.say_to_all(&format!("* {} is here", line.trim()));
            }
        }
        Ok(())
    }

    fn on_close(&mut self, socket: &WebSocketContext<'_>, _: &CloseOutcome) {
        if let Some(name) = self.name.take() {
            self.room.remove(&socket.channel()); // The last lines of a closing handshake are not for it.
            self.say_to_all(&format!("* {name} has gone"));
        }
    }
}

async fn page(_: Request) -> Body {
    Body::from(PAGE).with_content_type("text/html; charset=utf-8")
}

async fn chat(
    request: Request,
    options: WebSocketOptions,
    room: ChannelGroup,
) -> Result<Response, HandshakeError> {
    let upgrade = WebSocketUpgrade::of(&request, &options)?;
    Ok(upgrade.require_same_origin()?.handle(Member { room, name: None }))
}

/// Returns the routes of one loop. The room behind them is shared.
fn routes(options: &WebSocketOptions, room: &ChannelGroup) -> Result<Router, InvalidRoute> {
    let (options, room) = (options.clone(), room.clone());
    let chat = move |request| chat(request, options.clone(), room.clone());
    Router::builder().get("/", page).get("/chat", chat).build()
}

fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = std::env::args().nth(1).ok_or("usage: ws_chat PORT")?.parse()?;
    let options = WebSocketOptions::builder()
        .limits(WebSocketLimits::default().max_message(MAX_LINE))
        .deflate(DeflateOptions::default())
        .build()?;
    let room = ChannelGroup::new("room");
    routes(&options, &room)?; // An invalid pattern fails here, and not at the first connection of a loop.
    let group = EventLoopGroup::builder(Auto).name("chat").build()?;
    let server = HttpServer::per_loop(move || {
        routes(&options, &room).expect("the routes were built before")
    })
    .build()?
    .bind(&group, Tcp, ("127.0.0.1", port))
    .join()?;
    let drain = DrainOptions::within(Duration::from_secs(10));
    Terminate::new()?.drain(&group, drain.shutdown(Duration::ZERO, Duration::from_secs(5))?);
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    group.termination().join()?;
    Ok(())
}
