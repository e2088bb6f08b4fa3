//! A server of HTTP/1.1 by `waterwheel::http`: for comparisons with other libraries, and the cost of a request.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use waterwheel::channel::{ChannelOptions, EventLoopGroup, NewChannel, Stream};
use waterwheel::http::{HttpServer, InvalidHttpOption, Request};
use waterwheel::net::{Auto, Socket, Tcp};

use crate::MicroResult;

/// A request of a load generator, with as many fields.
const REQUEST: &[u8] = b"GET /plaintext HTTP/1.1\r\nHost: localhost\r\n\
    Accept: text/plain,text/html;q=0.9,application/xhtml+xml;q=0.9,application/xml;q=0.8,*/*;q=0.7\r\n\
    Connection: keep-alive\r\n\r\n";

async fn hello(_: Request) -> &'static str {
    "Hello, World!"
}

fn build() -> Result<HttpServer, InvalidHttpOption> {
    HttpServer::builder(hello).server_name("waterwheel").build()
}

/// Serves `Hello, World!` on one loop until the process is ended.
pub(crate) fn server(port: u16) -> MicroResult {
    let group = EventLoopGroup::builder(Auto).threads(1).build()?;
    let listener = build()?.bind(&group, Tcp, ("127.0.0.1", port)).join()?;
    listener.closed().join()?;
    Ok(())
}

/// Sends requests over a socket, `depth` at a time: the loop has its own thread, the main thread is the client.
pub(crate) fn requests(requests: u64, depth: usize) -> MicroResult {
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
    let (burst, mut answers) = (REQUEST.repeat(depth), vec![0; len * depth]);
    for _ in 0..requests / depth as u64 {
        peer.write_all(&burst)?;
        peer.read_exact(&mut answers)?;
        if !answers.ends_with(b"Hello, World!") {
            return Err("an answer does not end with its body".into());
        }
    }
    channel.close().join()?;
    Ok(())
}
