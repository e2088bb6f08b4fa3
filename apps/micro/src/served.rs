//! What an echo over a socket costs, from the wait to the write: on a loop's own thread, while the main
//! thread is its peer.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use waterwheel::channel::{EventLoopGroup, NewChannel, Stream};
use waterwheel::executor::Clock;
use waterwheel::net::{Auto, Socket};

use crate::Outcome;
use crate::hops::Echo;

/// Sends `echoes` messages of 64 bytes, each after the answer to the one before.
pub(crate) fn served(echoes: u64) -> Outcome {
    let (mut peer, socket) = UnixStream::pair()?;
    let group = EventLoopGroup::builder(Auto).threads(1).build()?;
    let stream = Stream::connected(Socket::new(socket)?.into(), None);
    let new = NewChannel::new(stream).initialiser(|edit| {
        edit.add_last("echo", Echo)?;
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
