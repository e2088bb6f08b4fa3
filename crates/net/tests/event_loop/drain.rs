//! A drain of loops with sockets (L11).

use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{
    Address, Ctx, DrainOptions, Drained, Draining, EventLoopGroup, Handler, HandlerResult, Msg,
    ServerBootstrap,
};
use waterwheel_net::{Auto, Tcp};

const TIME_LIMIT: Duration = Duration::from_secs(20);

/// More bytes than the buffers of both sockets hold.
const MUCH: usize = 16 << 20;

/// Sends many bytes, and "goodbye" when the drain begins.
struct Sends;

impl Handler for Sends {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.write_and_flush(Bytes::from(vec![b'.'; MUCH]));
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.is::<Draining>() {
            ctx.write_and_flush(Bytes::from_static(b"goodbye"));
        }
        Ok(())
    }
}

#[test]
fn l11_a_draining_server_accepts_no_connection_and_sends_its_pending_bytes() {
    let group = EventLoopGroup::builder(Auto).threads(2).build().unwrap();
    let server = ServerBootstrap::new(&group, Tcp).child_initialiser(|edit| {
        edit.add_last("sends", Sends)?;
        Ok(())
    });
    let server = server.bind("127.0.0.1:0").join().unwrap();
    let Some(Address::Ip(address)) = server.local_address() else { panic!("a bound server") };
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    client.read_exact(&mut [0]).unwrap(); // The channel is registered: its bytes arrive.
    let options = DrainOptions::within(TIME_LIMIT).shutdown(Duration::ZERO, TIME_LIMIT).unwrap();
    let drained = group.drain(options);
    server.closed().wait_timeout(TIME_LIMIT).unwrap();
    assert!(TcpStream::connect(address).is_err(), "the listener is closed");
    assert!(!drained.is_done(), "most bytes are still pending");
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len(), MUCH - 1 + "goodbye".len());
    assert!(rest.ends_with(b".goodbye"));
    group.termination().wait_timeout(TIME_LIMIT).unwrap();
    assert_eq!(drained.join().unwrap(), Drained::Complete);
}
