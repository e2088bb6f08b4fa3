//! The cost of an echo over sockets: turn, driver, channel, pipeline and back.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use waterwheel::channel::{EventLoopGroup, NewChannel, Stream};
use waterwheel::executor::Clock;
use waterwheel::net::{Auto, Socket};

use crate::MicroResult;
use crate::hops::EchoHandler;

/// Bytes that a peer writes at a time.
const LEN: usize = 64;

/// Lets `peers` peers write and read `rounds` times each, over one loop on this thread.
pub(crate) fn streams(peers: usize, rounds: u64) -> MicroResult {
    let mut event_loop = EventLoopGroup::builder(Auto).build_manual()?;
    let mut ends = Vec::new();
    for _ in 0..peers {
        let (ours, theirs) = UnixStream::pair()?;
        let new = NewChannel::new(Stream::connected(Socket::new(theirs)?.into(), None));
        let registered = event_loop.on_loop(|here| {
            here.register_with(new, |edit| {
                edit.add_last("echo", EchoHandler)?;
                Ok(())
            })
        });
        registered.ok_or("the loop is over")??;
        ends.push(ours);
    }
    let (mut buffer, began) = ([7; LEN], Clock::Monotonic.now());
    for _ in 0..rounds {
        for end in &mut ends {
            end.write_all(&buffer)?;
        }
        event_loop.turn(Some(Duration::ZERO));
        for end in &mut ends {
            end.read_exact(&mut buffer)?;
        }
    }
    let echoes = rounds * peers as u64;
    let nanos = Clock::Monotonic.now().since(began).as_nanos() as f64 / echoes as f64;
    println!("{{\"peers\":{peers},\"echoes\":{echoes},\"ns_per_echo\":{nanos:.1}}}");
    Ok(())
}
