//! The cost of a connection's life: accept, registration, one request and its reply, close.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use waterwheel::channel::{
    Address, Ctx, EventLoopGroup, HandlerResult, In, InboundHandler, Listener, NewChannel,
};
use waterwheel::net::{Auto, Tcp};

use crate::MicroResult;
use crate::hops::EchoHandler;

/// Connections per batch, as under load: they share the cost of a turn.
const AT_A_TIME: u64 = 10;

/// Registers accepted connections with the same loop.
struct RegisterAccepted;

impl InboundHandler for RegisterAccepted {
    type In = NewChannel;

    fn on_read(&mut self, ctx: &Ctx<'_>, accepted: NewChannel) -> HandlerResult {
        ctx.event_loop().register_with(accepted, |edit| {
            edit.add_last("echo", EchoHandler)?;
            Ok(())
        })?;
        Ok(())
    }
}

/// Opens, serves and closes `count` connections on one loop of this thread. Each peer makes five system calls: socket,
/// connect, send, receive, close.
pub(crate) fn connections(count: u64) -> MicroResult {
    let mut event_loop = EventLoopGroup::builder(Auto).build_manual()?;
    let registered = event_loop.on_loop(|here| {
        here.register_with(NewChannel::new(Listener::new(Tcp)), |edit| {
            edit.add_last("accepts", In(RegisterAccepted))?;
            Ok(())
        })
    });
    let server = registered.ok_or("the loop is over")??;
    let any: std::net::SocketAddr = "127.0.0.1:0".parse()?;
    event_loop.on_loop(|_| drop(server.bind(any)));
    let mut turn = || event_loop.turn(Some(Duration::ZERO));
    turn();
    let Some(Address::Ip(address)) = server.local_address() else { return Err("not bound".into()) };
    for _ in 0..count / AT_A_TIME {
        let mut peers = Vec::new();
        for _ in 0..AT_A_TIME {
            let mut peer = TcpStream::connect(address)?;
            peer.write_all(b"request")?;
            peers.push(peer);
        }
        turn(); // Accepts and registers.
        turn(); // Echoes.
        for mut peer in peers {
            peer.read_exact(&mut [0; 7])?;
        }
        turn(); // Closes.
    }
    println!("{{\"connections\":{count}}}");
    Ok(())
}
