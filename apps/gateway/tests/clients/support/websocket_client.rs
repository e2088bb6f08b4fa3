//! A client that speaks WebSocket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use waterwheel::bytes::{Bytes, BytesMut};
use waterwheel::websocket::{
    MessageDecoder, MessageEncoder, WebSocketLimits, WebSocketMessage, WebSocketRole,
};

use super::connect;

/// A client that speaks WebSocket.
pub(crate) struct WebSocketClient {
    stream: TcpStream,
    decoder: MessageDecoder,
    encoder: MessageEncoder,
    unread: Bytes,
}

impl WebSocketClient {
    /// Connects, with these lines of fields, each with its end.
    pub(crate) fn connect(to: SocketAddr, target: &str, fields: &str) -> Self {
        Self::try_connect(to, target, fields).unwrap_or_else(|status| panic!("status {status}"))
    }

    /// Connects, or returns the status of the refusal.
    pub(crate) fn try_connect(to: SocketAddr, target: &str, fields: &str) -> Result<Self, u16> {
        let mut stream = connect(to);
        let head = format!(
            "GET {target} HTTP/1.1\r\nHost: gateway\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{fields}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a head");
            answer.push(byte[0]);
        }
        let answer = String::from_utf8(answer).unwrap();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        if status != 101 {
            return Err(status);
        }
        let limits = WebSocketLimits::default().max_message(1 << 30);
        Ok(Self {
            stream,
            decoder: MessageDecoder::new(WebSocketRole::Client, limits),
            encoder: MessageEncoder::new(WebSocketRole::Client),
            unread: Bytes::new(),
        })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the gateway reads");
    }

    pub(crate) fn send_message(&mut self, message: impl Into<WebSocketMessage>) {
        let bytes = self.encoded(message);
        self.send_raw(&bytes);
    }

    /// Returns the frame of a message.
    pub(crate) fn encoded(&mut self, message: impl Into<WebSocketMessage>) -> BytesMut {
        let mut bytes = BytesMut::new();
        if let Some(payload) = self.encoder.encode(message.into(), &mut bytes).unwrap() {
            bytes.extend_from_slice(&payload);
        }
        bytes
    }

    pub(crate) fn send(&mut self, command: &Value) {
        self.send_message(command.to_string());
    }

    /// Reads the next message; `None` at the end.
    pub(crate) fn next_message(&mut self) -> Option<WebSocketMessage> {
        loop {
            if let Some(message) = self.decoder.decode(&mut self.unread).expect("a frame") {
                return Some(message);
            }
            let mut block = vec![0; 16 * 1024];
            let read = self.stream.read(&mut block).expect("a message, or the end");
            if read == 0 {
                return None;
            }
            let mut all = BytesMut::from(&self.unread[..]);
            all.extend_from_slice(&block[..read]);
            self.unread = all.freeze();
        }
    }

    /// Reads the next text as JSON.
    pub(crate) fn next(&mut self) -> Value {
        loop {
            match self.next_message() {
                Some(WebSocketMessage::Text(text)) => {
                    return serde_json::from_str(&text).expect("JSON");
                }
                Some(WebSocketMessage::Ping(payload)) => {
                    self.send_message(WebSocketMessage::Pong(payload));
                }
                other => panic!("a text, not {other:?}"),
            }
        }
    }

    /// Sends a command, and returns the `ok` of its answer, which is the next message.
    #[track_caller]
    pub(crate) fn ask(&mut self, command: Value) -> Value {
        let mut answer = self.answer(command);
        assert!(answer.get("ok").is_some(), "{answer}");
        answer["ok"].take()
    }

    /// Sends a command, and returns the name of the error of its answer, which is the next message.
    #[track_caller]
    pub(crate) fn refused(&mut self, command: Value) -> String {
        let answer = self.answer(command);
        answer["error"]["name"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    fn answer(&mut self, mut command: Value) -> Value {
        command["id"] = json!(77);
        self.send(&command);
        let answer = self.next();
        assert_eq!(answer["id"], 77, "{answer}");
        answer
    }

    /// Asserts that nothing was sent before the answer to a ping.
    #[track_caller]
    pub(crate) fn expect_nothing(&mut self) {
        assert_eq!(self.ask(json!({"ping": {}})), json!({}));
    }

    /// Reads to the end. Returns the pushes `closing`, and the code and the text of the Close.
    pub(crate) fn end(&mut self) -> (Vec<Value>, u16, String) {
        let mut closing = Vec::new();
        loop {
            match self.next_message() {
                Some(WebSocketMessage::Text(text)) => {
                    let message: Value = serde_json::from_str(&text).expect("JSON");
                    if message["push"] == "closing" {
                        closing.push(message);
                    }
                }
                Some(WebSocketMessage::Close(Some(reason))) => {
                    let answer = WebSocketMessage::Close(Some(reason.code().into()));
                    let answer = self.encoded(answer);
                    // The gateway may have ended the connection with it.
                    let _ = self.stream.write_all(&answer);
                    return (closing, reason.code().get(), reason.text().to_owned());
                }
                Some(_) => {}
                None => panic!("the end without a Close"),
            }
        }
    }

    /// Reads to the end, and returns the code of the Close.
    pub(crate) fn close_code(&mut self) -> u16 {
        self.end().1
    }
}
