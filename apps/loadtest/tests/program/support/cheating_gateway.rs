//! A server that speaks the protocol of the gateway as far as the program uses it, and does not keep its promises.

use std::net::SocketAddr;

use serde_json::{Value, json};
use waterwheel::channel::{Address, Channel, ChannelGroup, EventLoopGroup, HandlerResult};
use waterwheel::executor::Error;
use waterwheel::http::{Request, Response, serve};
use waterwheel::net::{Auto, Tcp};
use waterwheel::websocket::{
    BroadcastMessage, HandshakeError, WebSocketContext, WebSocketHandler, WebSocketMessage,
    WebSocketOptions, WebSocketUpgrade,
};

/// The server's way with each tenth publication of a publisher.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cheat {
    /// Acknowledges it, and sends it to nobody.
    Lose,
    /// Sends it twice.
    Repeat,
    /// Sends it after the next one.
    Swap,
    /// Refuses it.
    Refuse,
}

/// A running server. All of its topics are one.
pub(crate) struct CheatingGateway {
    _loops: EventLoopGroup,
    _server: Channel,
    address: SocketAddr,
}

impl CheatingGateway {
    pub(crate) fn start(cheat: Cheat) -> Self {
        let loops = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
        let subscribers = ChannelGroup::new("subscribers");
        let service = async move |request: Request| -> Result<Response, HandshakeError> {
            let upgrade = WebSocketUpgrade::of(&request, &WebSocketOptions::default())?;
            let subscribers = subscribers.clone();
            Ok(upgrade.handle(CheatingConnection { cheat, subscribers, kept_back: None }))
        };
        let server = serve(&loops, Tcp, "127.0.0.1:0", service).join().unwrap();
        let Some(Address::Ip(address)) = server.local_address() else { panic!("it listens") };
        Self { _loops: loops, _server: server, address }
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}/ws", self.address)
    }
}

struct CheatingConnection {
    cheat: Cheat,
    subscribers: ChannelGroup,
    kept_back: Option<String>,
}

impl CheatingConnection {
    /// Answers a publish, and sends the publication on, more or less.
    fn publish(&mut self, id: &Value, publication: &Value) -> String {
        let push = json!({
            "push": "message", "topic": publication["topic"], "data": publication["data"], "position": "e-1", "time": 1
        });
        let is_tenth = publication["data"]["n"].as_u64().unwrap() % 10 == 5;
        let copies = match self.cheat {
            Cheat::Refuse if is_tenth => {
                let error = json!({ "code": 111, "name": "rate_exceeded", "message": "too many" });
                return json!({ "id": id, "error": error }).to_string();
            }
            Cheat::Lose if is_tenth => 0,
            Cheat::Repeat if is_tenth => 2,
            Cheat::Swap if is_tenth => {
                self.kept_back = Some(push.to_string());
                0
            }
            _ => 1,
        };
        for _ in 0..copies {
            self.subscribers.send(BroadcastMessage::text(push.to_string()));
        }
        if copies == 1
            && let Some(late) = self.kept_back.take()
        {
            self.subscribers.send(BroadcastMessage::text(late));
        }
        json!({ "id": id, "ok": { "position": "e-1" } }).to_string()
    }
}

impl WebSocketHandler for CheatingConnection {
    fn on_message(
        &mut self,
        socket: &WebSocketContext<'_>,
        message: WebSocketMessage,
    ) -> HandlerResult {
        let WebSocketMessage::Text(text) = message else { return Ok(()) };
        let command: Value = serde_json::from_str(&text).map_err(Error::new)?;
        let answer = match command.get("publish") {
            Some(publication) => self.publish(&command["id"], publication),
            None => {
                self.subscribers.add(&socket.channel());
                json!({ "id": command["id"], "ok": { "position": "e-0", "recovered": 0, "gap": false } }).to_string()
            }
        };
        socket.send(answer)?;
        Ok(())
    }
}
