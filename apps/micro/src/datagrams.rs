//! What datagrams cost that come in crowds: how many system calls take and send them.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use waterwheel::channel::{
    Address, Ctx, Datagram, Datagrams, EventLoopGroup, HandlerResult, In, InboundHandler,
    NewChannel,
};
use waterwheel::net::{Auto, Udp};

use crate::Outcome;

/// So many come at once: four rounds of reads.
const CROWD: usize = 64;
const ROUNDS: usize = CROWD / 16;

/// Answers all datagrams of a round at once.
struct Echo;

impl InboundHandler for Echo {
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

/// So many crowds are sent and their answers received, by 64 system calls each.
pub(crate) fn datagrams(crowds: u64) -> Outcome {
    let mut event_loop = EventLoopGroup::builder(Auto).build_manual()?;
    let new = NewChannel::new(Datagrams::new(Udp));
    let registered = event_loop.on_loop(|here| {
        here.register_with(new, |edit| {
            edit.add_last("echo", In(Echo))?;
            Ok(())
        })
    });
    let channel = registered.ok_or("the loop is over")??;
    drop(channel.bind(SocketAddr::from(([127, 0, 0, 1], 0))));
    event_loop.turn(Some(Duration::ZERO));
    let Some(Address::Ip(address)) = channel.local_address() else { return Err("unbound".into()) };
    let peer = UdpSocket::bind("127.0.0.1:0")?;
    peer.connect(address)?;
    for _ in 0..crowds {
        for _ in 0..CROWD {
            peer.send(b"hello")?;
        }
        for _ in 0..ROUNDS {
            event_loop.turn(Some(Duration::ZERO));
        }
        for _ in 0..CROWD {
            peer.recv(&mut [0; 10])?;
        }
    }
    Ok(())
}
