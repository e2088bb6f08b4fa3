//! A server of WebSocket by `waterwheel::websocket`: for comparisons with other libraries, and the cost of a message.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use waterwheel::channel::{
    ChannelGroup, ChannelOptions, EventLoopGroup, HandlerResult, NewChannel, Stream,
};
use waterwheel::http::{HttpServer, Request, Response};
use waterwheel::net::{Auto, Socket, Tcp};
use waterwheel::websocket::{
    BroadcastMessage, HandshakeError, InvalidWebSocketOption, WebSocketContext, WebSocketHandler,
    WebSocketLimits, WebSocketMessage, WebSocketOptions, WebSocketUpgrade,
};

use crate::MicroResult;

const REQUEST: &[u8] = b"GET /echo HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Version: 13\r\n\r\n";

const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

struct Echo;

impl WebSocketHandler for Echo {
    fn on_message(
        &mut self,
        socket: &WebSocketContext<'_>,
        message: WebSocketMessage,
    ) -> HandlerResult {
        socket.send(message)?;
        Ok(())
    }
}

/// Sends what it reads to all connections of the group.
struct Broadcast(ChannelGroup);

impl WebSocketHandler for Broadcast {
    fn on_open(&mut self, socket: &WebSocketContext<'_>) -> HandlerResult {
        self.0.add(&socket.channel());
        Ok(())
    }

    fn on_message(&mut self, _: &WebSocketContext<'_>, message: WebSocketMessage) -> HandlerResult {
        match message {
            WebSocketMessage::Text(text) => self.0.send(BroadcastMessage::text(text)),
            WebSocketMessage::Binary(bytes) => self.0.send(BroadcastMessage::binary(bytes)),
            _ => {}
        }
        Ok(())
    }
}

fn build() -> Result<HttpServer, InvalidWebSocketOption> {
    let limits = WebSocketLimits::default().max_message(4 * 1024 * 1024);
    let options = WebSocketOptions::builder().limits(limits).build()?;
    let group = ChannelGroup::new("broadcast");
    let service = async move |request: Request| -> Result<Response, HandshakeError> {
        let upgrade = WebSocketUpgrade::of(&request, &options)?;
        Ok(match request.path() {
            "/broadcast" => upgrade.handle(Broadcast(group.clone())),
            _ => upgrade.handle(Echo),
        })
    };
    Ok(HttpServer::new(service))
}

/// Echoes on `/echo` and broadcasts on `/broadcast`, on one loop, until the process is ended.
pub(crate) fn server(port: u16) -> MicroResult {
    let group = EventLoopGroup::builder(Auto).threads(1).build()?;
    let listener = build()?.bind(&group, Tcp, ("127.0.0.1", port)).join()?;
    listener.closed().join()?;
    Ok(())
}

/// Sends messages of 64 bytes over a socket: the loop has its own thread, the main thread is the client.
pub(crate) fn messages(messages: u64) -> MicroResult {
    let (mut peer, socket) = UnixStream::pair()?;
    let (group, server) = (EventLoopGroup::builder(Auto).threads(1).build()?, build()?);
    let stream = Stream::connected(Socket::new(socket)?.into(), None);
    let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
    let new =
        NewChannel::new(stream).options(options).initialiser(move |edit| server.initialise(edit));
    let channel = group.register(new).join()?;
    peer.write_all(REQUEST)?;
    let mut answer = [0; 4096];
    let len = peer.read(&mut answer)?;
    if !answer[..len].starts_with(b"HTTP/1.1 101 ") {
        return Err("the request was not answered with status 101".into());
    }
    let payload = [b'x'; 64];
    let mut frame = vec![0x81, 0x80 | payload.len() as u8];
    frame.extend(MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    let mut echo = [0; 66];
    for _ in 0..messages {
        peer.write_all(&frame)?;
        peer.read_exact(&mut echo)?;
        if echo[2..] != payload {
            return Err("an echo differs from its message".into());
        }
    }
    drop(peer);
    channel.closed().join()?;
    Ok(())
}
