//! The cost of an echo over a socket, from the wait to the write: the loop has its own thread, the main thread is the
//! peer.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use waterwheel::channel::{EventLoopGroup, NewChannel, Stream};
use waterwheel::executor::Clock;
use waterwheel::net::{Auto, Socket};

use crate::MicroResult;
use crate::hops::EchoHandler;

/// Sends `echoes` messages of 64 bytes, each after the reply to the previous one.
pub(crate) fn served(echoes: u64) -> MicroResult {
    let (mut peer, socket) = UnixStream::pair()?;
    let group = EventLoopGroup::builder(Auto).threads(1).build()?;
    let stream = Stream::connected(Socket::new(socket)?.into(), None);
    let new = NewChannel::new(stream).initialiser(|edit| {
        edit.add_last("echo", EchoHandler)?;
        Ok(())
    });
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
