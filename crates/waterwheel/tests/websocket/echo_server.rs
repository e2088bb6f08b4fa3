//! A server that sends every message back, does what some texts say, and notes what it sees.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};

use waterwheel::channel::{Channel, EventLoopGroup, HandlerResult, ServerBootstrap};
use waterwheel::executor::Error;
use waterwheel::http::{HttpServer, Request, Response};
use waterwheel::net::Tcp;
use waterwheel::tls::{ServerTls, TlsHandler};
use waterwheel::websocket::{
    CloseCode, CloseOutcome, CloseReason, HandshakeError, MessagePart, PartData, WebSocketContext,
    WebSocketHandler, WebSocketMessage, WebSocketOptions, WebSocketUpgrade,
};

use crate::program::WAIT_LIMIT;
use crate::support::one_loop;

/// A running server; it ends with the value.
pub(crate) struct EchoServer {
    _group: EventLoopGroup,
    listener: Channel,
    notes: Receiver<String>,
}

impl EchoServer {
    pub(crate) fn start(options: &WebSocketOptions) -> Self {
        Self::start_with(options, None)
    }

    /// Starts a server of `wss`.
    pub(crate) fn start_tls(options: &WebSocketOptions, tls: ServerTls) -> Self {
        Self::start_with(options, Some(tls))
    }

    fn start_with(options: &WebSocketOptions, tls: Option<ServerTls>) -> Self {
        let (sender, notes) = channel();
        let options = options.clone();
        let http = HttpServer::new(async move |request: Request| {
            let upgrade = WebSocketUpgrade::of(&request, &options)?.choose_subprotocol(["v2"]);
            let echo = Echo { notes: sender.clone() };
            Ok::<Response, HandshakeError>(upgrade.handle(echo))
        });
        let group = one_loop();
        let mut bootstrap = ServerBootstrap::new(&group, Tcp);
        if let Some(tls) = tls {
            bootstrap = bootstrap.child_initialiser(move |edit| {
                edit.add_last("tls", TlsHandler::server(tls.clone()))?;
                Ok(())
            });
        }
        let listener = http.extend(bootstrap).bind(("127.0.0.1", 0)).join().unwrap();
        Self { _group: group, listener, notes }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_address().unwrap().socket_addr().unwrap()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("ws://{}{path}", self.address())
    }

    /// Waits for the notes of this many connections: how each was opened, which pings and pongs came, how it ended.
    pub(crate) fn notes(&self, connections: usize) -> Vec<String> {
        let (mut notes, mut ended) = (Vec::new(), 0);
        while ended < connections {
            let note = self.notes.recv_timeout(WAIT_LIMIT).expect("the end of a connection");
            ended += usize::from(note.starts_with("closed"));
            notes.push(note);
        }
        notes
    }
}

/// The handler of one connection.
///
/// | text | what the server does |
/// |---|---|
/// | `ping` | sends a ping, `are you there` |
/// | `fragments` | sends a text of three frames |
/// | `close 4002 enough` | closes with this code and text |
/// | another one, or bytes | sends it back |
struct Echo {
    notes: Sender<String>,
}

impl Echo {
    fn note(&self, note: String) {
        let _ = self.notes.send(note); // A test that checks replies alone may have ended.
    }
}

impl WebSocketHandler for Echo {
    fn on_open(&mut self, socket: &WebSocketContext<'_>) -> HandlerResult {
        let compressed = if socket.deflate().is_some() { ", compressed" } else { "" };
        self.note(format!("open {}{compressed}", socket.subprotocol().unwrap_or("-")));
        Ok(())
    }

    fn on_message(
        &mut self,
        socket: &WebSocketContext<'_>,
        message: WebSocketMessage,
    ) -> HandlerResult {
        match &message {
            WebSocketMessage::Text(text) if text == "ping" => {
                socket.send(WebSocketMessage::Ping("are you there".into()))?;
            }
            WebSocketMessage::Text(text) if text == "fragments" => {
                for (text, is_last) in [("one ", false), ("zwöi ", false), ("三", true)] {
                    let data = PartData::Text(text.into());
                    socket.send(WebSocketMessage::Part(MessagePart { data, is_last }))?;
                }
            }
            WebSocketMessage::Text(text) if text.starts_with("close ") => {
                let (_, reason) = text.split_once(' ').unwrap();
                let (code, text) = reason.split_once(' ').unwrap();
                let code = CloseCode::new(code.parse().unwrap()).unwrap();
                socket.close(CloseReason::new(code, text));
            }
            WebSocketMessage::Ping(bytes) => self.note(format!("ping {}", bytes.escape_ascii())),
            WebSocketMessage::Pong(bytes) => self.note(format!("pong {}", bytes.escape_ascii())),
            _ => socket.send(message)?,
        }
        Ok(())
    }

    fn on_close(&mut self, _: &WebSocketContext<'_>, outcome: &CloseOutcome) {
        self.note(match outcome {
            CloseOutcome::Received(Some(reason)) => {
                format!("closed {} {}", reason.code(), reason.text()).trim_end().to_owned()
            }
            CloseOutcome::Received(None) => "closed".to_owned(),
            CloseOutcome::Failed(violation) => format!("closed by us: {violation}"),
            CloseOutcome::Lost => "closed: lost".to_owned(),
        });
    }

    fn on_error(&mut self, _: &WebSocketContext<'_>, error: Error) {
        self.note(format!("error: {error}"));
    }
}
