//! Buffers whose owners write to their channel, or panic, when they are dropped (C05, rules 1 and 11).

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::Bytes;
use waterwheel_channel::{
    AttrKey, Channel, ConnectionLimit, Ctx, Handler, HandlerResult, Msg, ServerBootstrap,
};
use waterwheel_net::{Epoll, Poll, Tcp};

use crate::loop_rig::{LoopRig, TIME_LIMIT, get, on_every_loop};
use crate::probe::{connect_and_send, group, ip, read_to_end, wait_until};

/// Owns a buffer. The drop sends the next buffer to the same channel.
struct Chain {
    bytes: Vec<u8>,
    left: usize,
    channel: Channel,
}

impl AsRef<[u8]> for Chain {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        match self.left.checked_sub(1) {
            Some(left) => {
                let (bytes, channel) = (std::mem::take(&mut self.bytes), self.channel.clone());
                self.channel.send(Bytes::from_owner(Chain { bytes, left, channel }));
            }
            None => drop(self.channel.close()),
        }
    }
}

/// Answers with a chain of `.0` pieces of `.1` bytes, and closes the channel after the last piece.
#[derive(Clone, Copy)]
struct Pieces(usize, usize);

impl Handler for Pieces {
    fn on_read(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        let bytes = vec![b'x'; self.1];
        ctx.write_and_flush(Bytes::from_owner(Chain {
            bytes,
            left: self.0 - 1,
            channel: ctx.channel(),
        }));
        Ok(())
    }
}

#[test]
fn c05_rule_1_a_buffer_may_write_the_next_one_to_its_channel_when_it_is_dropped() {
    on_every_loop(|rig| {
        for pieces in [Pieces(300, 100), Pieces(100, 100_000)] {
            let limit = ConnectionLimit::new(1);
            let server = ServerBootstrap::new(&group(rig), Tcp)
                .connection_limit(&limit)
                .child_initialiser(move |edit| Ok(edit.add_last("pieces", pieces).map(drop)?));
            let server = get(server.bind("127.0.0.1:0"));
            // The second connection is served once the first no longer counts.
            for _ in 0..2 {
                let mut peer = connect_and_send(ip(server.local_address()));
                assert_eq!(read_to_end(&mut peer).len(), pieces.0 * pieces.1);
            }
            wait_until("the connection no longer counts", || limit.open() == 0);
            get(server.close());
        }
    });
}

/// Panics when it is dropped.
struct PanicsOnDrop;

impl AsRef<[u8]> for PanicsOnDrop {
    fn as_ref(&self) -> &[u8] {
        b"panics"
    }
}

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

static PANICS: AttrKey<PanicsOnDrop> = AttrKey::new("panics");

/// The points of a close at which something panics.
const POINTS: [&str; 8] = [
    "sent bytes",
    "unsent bytes",
    "completion",
    "listener",
    "attribute",
    "on_inactive",
    "on_unregistered",
    "on_removed",
];

/// Closes its channel at the first read, and panics at one point of the close.
struct PanicsInClose(&'static str);

impl PanicsInClose {
    fn panic_at(&self, point: &str) -> HandlerResult {
        assert!(self.0 != point, "at {point}");
        Ok(())
    }
}

impl Handler for PanicsInClose {
    fn on_read(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        match self.0 {
            "sent bytes" => ctx.write_and_flush(Bytes::from_owner(PanicsOnDrop)),
            "unsent bytes" => ctx.write(Bytes::from_owner(PanicsOnDrop)),
            "completion" => ctx.close_then(|_| panic!("a completion")),
            "listener" => ctx.channel().closed().add_listener(|_| panic!("a listener")),
            "attribute" => drop(ctx.channel().set_attribute(&PANICS, PanicsOnDrop)),
            _ => {}
        }
        ctx.close();
        Ok(())
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.panic_at("on_inactive")
    }

    fn on_unregistered(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.panic_at("on_unregistered")
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        let _ = self.panic_at("on_removed");
    }
}

fn panics_while_closing(rig: &LoopRig) {
    for point in POINTS {
        let limit = ConnectionLimit::new(1);
        let server =
            ServerBootstrap::new(&group(rig), Tcp).connection_limit(&limit).child_initialiser(
                move |edit| Ok(edit.add_last("fragile", PanicsInClose(point)).map(drop)?),
            );
        let server = get(server.bind("127.0.0.1:0"));
        for _ in 0..2 {
            let mut peer = TcpStream::connect(ip(server.local_address())).unwrap();
            peer.set_read_timeout(Some(TIME_LIMIT)).unwrap();
            peer.write_all(b"x").unwrap();
            let sent: &[u8] = if point == "sent bytes" { b"panics" } else { b"" };
            let mut all = Vec::new();
            peer.read_to_end(&mut all).expect("the socket is closed");
            assert_eq!(all, sent, "at {point}");
            rig.wait_for_report("panicked");
        }
        wait_until("the connection no longer counts", || limit.open() == 0);
        get(server.close());
    }
}

#[test]
fn c05_rule_11_a_panic_at_any_point_of_a_close_leaks_neither_a_socket_nor_a_connection_slot() {
    use waterwheel_channel::EventLoopGroup;
    let builders = [EventLoopGroup::builder(Epoll), EventLoopGroup::builder(Poll)];
    for builder in builders {
        let rig = LoopRig::new(builder);
        panics_while_closing(&rig);
        rig.end();
    }
}
