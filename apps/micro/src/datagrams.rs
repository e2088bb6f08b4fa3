//! System calls per datagram when datagrams arrive in bursts.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use waterwheel::channel::{
    Address, Ctx, Datagram, Datagrams, EventLoopGroup, HandlerResult, In, InboundHandler,
    NewChannel,
};
use waterwheel::net::{Auto, Udp};

use crate::MicroResult;

/// Datagrams per burst: four read rounds.
const BURST: usize = 64;
const ROUNDS: usize = BURST / 16;

/// Echoes the datagrams of a read round together.
struct DatagramEcho;

impl InboundHandler for DatagramEcho {
    type In = Datagram;

    fn on_read(&mut self, ctx: &Ctx<'_>, datagram: Datagram) -> HandlerResult {
        ctx.write(datagram.answer(datagram.bytes().clone()));
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }
}

/// Sends `bursts` bursts of datagrams and receives the echoes, with 64 system calls each.
pub(crate) fn datagrams(bursts: u64) -> MicroResult {
    let mut event_loop = EventLoopGroup::builder(Auto).build_manual()?;
    let new = NewChannel::new(Datagrams::new(Udp));
    let registered = event_loop.on_loop(|here| {
        here.register_with(new, |edit| {
            edit.add_last("echo", In(DatagramEcho))?;
            Ok(())
        })
    });
    let channel = registered.ok_or("the loop is over")??;
    drop(channel.bind(SocketAddr::from(([127, 0, 0, 1], 0))));
    event_loop.turn(Some(Duration::ZERO));
    let Some(Address::Ip(address)) = channel.local_address() else { return Err("unbound".into()) };
    let peer = UdpSocket::bind("127.0.0.1:0")?;
    peer.connect(address)?;
    for _ in 0..bursts {
        for _ in 0..BURST {
            peer.send(b"hello")?;
        }
        for _ in 0..ROUNDS {
            event_loop.turn(Some(Duration::ZERO));
        }
        for _ in 0..BURST {
            peer.recv(&mut [0; 10])?;
        }
    }
    Ok(())
}
