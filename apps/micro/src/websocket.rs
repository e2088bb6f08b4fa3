//! A server of WebSocket by `waterwheel::websocket`: for comparisons with other libraries, and the cost of a message.

use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use waterwheel::channel::{
    Channel, ChannelGroup, ChannelOptions, EventLoopGroup, HandlerResult, NewChannel, Stream,
};
use waterwheel::http::{HttpServer, Request, Response};
use waterwheel::net::{Auto, Socket, Tcp};
use waterwheel::websocket::{
    BroadcastMessage, HandshakeError, InvalidWebSocketOption, ShortMessage, WebSocketContext,
    WebSocketHandler, WebSocketLimits, WebSocketMessage, WebSocketOptions, WebSocketUpgrade,
};

use crate::MicroResult;

/// The fields of an opening request, behind its first line.
const FIELDS: &str = "Host: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

struct MessageEcho;

impl WebSocketHandler for MessageEcho {
    fn on_message(
        &mut self,
        socket: &WebSocketContext<'_>,
        message: WebSocketMessage,
    ) -> HandlerResult {
        Ok(socket.send(message)?)
    }

    fn on_short_message(
        &mut self,
        socket: &WebSocketContext<'_>,
        message: ShortMessage<'_>,
    ) -> HandlerResult {
        Ok(socket.send_short(message)?)
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
            _ => upgrade.handle(MessageEcho),
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

/// The bytes of a message that [`messages`] and [`deliveries`] send.
const PAYLOAD: [u8; 64] = [b'x'; 64];

/// The clients of a [`server`] that runs on a loop of its own thread, over pairs of sockets.
struct Clients {
    group: EventLoopGroup,
    server: HttpServer,
    /// The channels of the server, with the sockets of their peers.
    peers: Vec<(Channel, UnixStream)>,
}

impl Clients {
    fn new() -> Result<Self, Box<dyn Error>> {
        let group = EventLoopGroup::builder(Auto).threads(1).build()?;
        Ok(Self { group, server: build()?, peers: Vec::new() })
    }

    /// Opens a connection to this path.
    fn open(&mut self, path: &str) -> MicroResult {
        let ((mut peer, socket), server) = (UnixStream::pair()?, self.server.clone());
        let stream = Stream::connected(Socket::new(socket)?.into(), None);
        let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
        let new = NewChannel::new(stream)
            .options(options)
            .initialiser(move |edit| server.initialise(edit));
        let channel = self.group.register(new).join()?;
        write!(peer, "GET {path} HTTP/1.1\r\n{FIELDS}")?;
        let mut answer = [0; 4096];
        let len = peer.read(&mut answer)?;
        if !answer[..len].starts_with(b"HTTP/1.1 101 ") {
            return Err("the request was not answered with status 101".into());
        }
        self.peers.push((channel, peer));
        Ok(())
    }

    /// Sends a message from the first connection.
    fn send(&mut self, frame: &[u8]) -> MicroResult {
        Ok(self.peers[0].1.write_all(frame)?)
    }

    /// Reads the message from all connections.
    fn receive(&mut self) -> MicroResult {
        let mut frame = [0; PAYLOAD.len() + 2];
        for (_, peer) in &mut self.peers {
            peer.read_exact(&mut frame)?;
            if frame[2..] != PAYLOAD {
                return Err("what was received differs from what was sent".into());
            }
        }
        Ok(())
    }

    fn close(self) -> MicroResult {
        for (channel, peer) in self.peers {
            drop(peer);
            channel.closed().join()?;
        }
        Ok(())
    }
}

/// Returns the frame of a text with the payload, as a client sends it.
fn masked_frame() -> Vec<u8> {
    let mut frame = vec![0x81, 0x80 | PAYLOAD.len() as u8];
    frame.extend(MASK);
    frame.extend(PAYLOAD.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// Sends messages of 64 bytes over a socket: the loop has its own thread, the main thread is the client.
pub(crate) fn messages(messages: u64) -> MicroResult {
    let (mut clients, frame) = (Clients::new()?, masked_frame());
    clients.open("/echo")?;
    for _ in 0..messages {
        clients.send(&frame)?;
        clients.receive()?;
    }
    clients.close()
}

/// Broadcasts messages of 64 bytes to so many members, over a socket each.
pub(crate) fn deliveries(messages: u64, members: u64) -> MicroResult {
    let (mut clients, frame) = (Clients::new()?, masked_frame());
    for _ in 0..members {
        clients.open("/broadcast")?;
    }
    for _ in 0..messages {
        clients.send(&frame)?;
        clients.receive()?;
    }
    clients.close()
}
