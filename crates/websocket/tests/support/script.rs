//! A handler of messages that logs its calls, and does what the test says.

use std::sync::{Arc, Mutex};

use waterwheel_channel::{Channel, HandlerResult, Msg};
use waterwheel_testkit::recorder::Log;
use waterwheel_websocket::{
    CloseOutcome, PartData, WebSocketContext, WebSocketHandler, WebSocketMessage,
};

use super::frames::show;

type Act = dyn Fn(&WebSocketContext<'_>, &str) -> HandlerResult + Send + Sync;

/// Logs each call as a line, then calls a closure with that line.
#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) log: Log,
    /// The channel, from `on_open` on.
    pub(crate) channel: Arc<Mutex<Option<Channel>>>,
    act: Arc<Act>,
}

impl Script {
    pub(crate) fn new(
        act: impl Fn(&WebSocketContext<'_>, &str) -> HandlerResult + Send + Sync + 'static,
    ) -> Self {
        Self { log: Log::new(), channel: Arc::default(), act: Arc::new(act) }
    }

    /// Returns a handler that only logs.
    pub(crate) fn silent() -> Self {
        Self::new(|_, _| Ok(()))
    }

    /// Returns a handler that echoes texts.
    pub(crate) fn echo() -> Self {
        Self::new(|socket, line| {
            if let Some(text) = line.strip_prefix("text ") {
                socket.send_text(text)?;
            }
            Ok(())
        })
    }

    /// Takes the calls without the ends of rounds, changes of writability, and ends of a direction.
    pub(crate) fn calls(&self) -> Vec<String> {
        const LEFT_OUT: [&str; 4] =
            ["complete", "writable ", "event HalfClosed", "event PeerFinished"];
        let mut lines = self.log.take();
        lines.retain(|line| !LEFT_OUT.iter().any(|prefix| line.starts_with(prefix)));
        lines
    }

    fn line(&self, socket: &WebSocketContext<'_>, line: &str) -> HandlerResult {
        self.log.push(line);
        (self.act)(socket, line)
    }
}

impl WebSocketHandler for Script {
    fn on_open(&mut self, socket: &WebSocketContext<'_>) -> HandlerResult {
        *self.channel.lock().unwrap() = Some(socket.channel());
        self.line(socket, "open")
    }

    fn on_message(
        &mut self,
        socket: &WebSocketContext<'_>,
        message: WebSocketMessage,
    ) -> HandlerResult {
        self.line(socket, &describe(&message))
    }

    fn on_read_complete(&mut self, socket: &WebSocketContext<'_>) -> HandlerResult {
        self.line(socket, "complete")
    }

    fn on_close(&mut self, socket: &WebSocketContext<'_>, outcome: &CloseOutcome) {
        let outcome = match outcome {
            CloseOutcome::Received(None) => "received".to_owned(),
            CloseOutcome::Received(Some(reason)) => format!("received {reason}"),
            CloseOutcome::Failed(error) => format!("failed: {error}"),
            CloseOutcome::Lost => "lost".to_owned(),
        };
        self.line(socket, &format!("closed: {outcome}")).unwrap();
    }

    fn on_writability_changed(&mut self, socket: &WebSocketContext<'_>) -> HandlerResult {
        self.line(socket, &format!("writable {}", socket.is_writable()))
    }

    fn on_user_event(&mut self, socket: &WebSocketContext<'_>, event: Msg) -> HandlerResult {
        let name = event.type_name().rsplit("::").next().unwrap_or_default();
        self.line(socket, &format!("event {name}"))
    }

    fn on_timer(&mut self, socket: &WebSocketContext<'_>, tag: u32) -> HandlerResult {
        self.line(socket, &format!("timer {tag}"))
    }
}

/// Returns a message as a line.
pub(crate) fn describe(message: &WebSocketMessage) -> String {
    match message {
        WebSocketMessage::Text(text) => format!("text {}", show(text.as_bytes())),
        WebSocketMessage::Binary(bytes) => format!("binary {}", show(bytes)),
        WebSocketMessage::Part(part) => {
            let end = if part.is_last { "last" } else { "part" };
            match &part.data {
                PartData::Text(text) => format!("{end} text {}", show(text.as_bytes())),
                PartData::Binary(bytes) => format!("{end} binary {}", show(bytes)),
            }
        }
        WebSocketMessage::Ping(payload) => format!("ping {}", show(payload)),
        WebSocketMessage::Pong(payload) => format!("pong {}", show(payload)),
        WebSocketMessage::Close(None) => "close".into(),
        WebSocketMessage::Close(Some(reason)) => format!("close {reason}"),
    }
}
