//! The cost of an echo over a socket, from the wait to the write: the loop has its own thread, the main thread is the
//! peer.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use waterwheel::async_bridge::{AsyncChannel, ByteStream, serve_channel};
use waterwheel::channel::{Edit, EventLoopGroup, NewChannel, Stream};
use waterwheel::executor::{Clock, Error};
use waterwheel::net::{Auto, Socket};

use crate::MicroResult;
use crate::hops::EchoHandler;

/// Echoes by a handler.
pub(crate) fn by_a_handler(echoes: u64) -> MicroResult {
    serve(echoes, |edit| {
        edit.add_last("echo", EchoHandler)?;
        Ok(())
    })
}

/// Echoes by an async function that reads and writes bytes.
pub(crate) fn by_a_byte_stream(echoes: u64) -> MicroResult {
    async fn echo(connection: AsyncChannel<Bytes>) -> std::io::Result<()> {
        let mut stream = ByteStream::new(connection);
        let mut buffer = [0; 4096];
        loop {
            match stream.read(&mut buffer).await? {
                0 => return Ok(()),
                count => stream.write_all(&buffer[..count]).await?,
            }
        }
    }
    serve(echoes, |edit| serve_channel(edit, echo))
}

/// Echoes by an async function that reads and writes messages.
pub(crate) fn by_messages(echoes: u64) -> MicroResult {
    async fn echo(mut connection: AsyncChannel<Bytes>) -> Result<(), Error> {
        while let Some(bytes) = connection.try_next().await? {
            connection.send(bytes).await?;
        }
        Ok(())
    }
    serve(echoes, |edit| serve_channel(edit, echo))
}

/// Sends `echoes` messages of 64 bytes, each after the reply to the previous one.
fn serve(
    echoes: u64,
    initialise: impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + 'static,
) -> MicroResult {
    let (mut peer, socket) = UnixStream::pair()?;
    let group = EventLoopGroup::builder(Auto).threads(1).build()?;
    let stream = Stream::connected(Socket::new(socket)?.into(), None);
    let new = NewChannel::new(stream).initialiser(initialise);
    let channel = group.register(new).join()?;
    let began = Clock::Monotonic.now();
    for _ in 0..echoes {
        let mut message = [7; 64];
        peer.write_all(&message)?;
        peer.read_exact(&mut message)?;
    }
    let nanos = Clock::Monotonic.now().since(began).as_nanos() as f64 / echoes as f64;
    println!("{{\"echoes\":{echoes},\"ns_per_echo\":{nanos:.1}}}");
    channel.close().join()?;
    Ok(())
}
