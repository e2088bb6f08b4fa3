//! TCP on the loopback.

use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use waterwheel::channel::{
    Address, AddressSpec, Bootstrap, Channel, EventLoopGroup, ServerBootstrap,
};
use waterwheel::net::Tcp;

use super::std_socket::StdSocket;
use crate::cell::{Ability, ForeignPeer, TransportKind};
use crate::test_bed::WAIT_LIMIT;

pub(crate) struct TcpTransport;

impl TransportKind for TcpTransport {
    fn name(&self) -> &'static str {
        "TCP"
    }

    fn server(&self, group: &EventLoopGroup) -> ServerBootstrap {
        ServerBootstrap::new(group, Tcp)
    }

    fn client(&self, group: &EventLoopGroup) -> Bootstrap {
        Bootstrap::new(group, Tcp)
    }

    fn unused_address(&self) -> AddressSpec {
        AddressSpec::from("127.0.0.1:0")
    }

    fn refusing_address(&self) -> AddressSpec {
        // A port that the kernel has just assigned, released again.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        AddressSpec::from(listener.local_addr().expect("the socket has an address"))
    }

    fn reason_to_skip(&self, _: Ability) -> Option<&'static str> {
        None
    }

    fn connect_foreign(&self, server: &Channel) -> Box<dyn ForeignPeer> {
        let Some(Address::Ip(address)) = server.local_address() else {
            panic!("{server:?} has no address of this transport");
        };
        let stream =
            TcpStream::connect_timeout(&address, WAIT_LIMIT).expect("the connection is made");
        stream.set_read_timeout(Some(WAIT_LIMIT)).expect("the timeout is set");
        stream.set_write_timeout(Some(WAIT_LIMIT)).expect("the timeout is set");
        Box::new(StdSocket {
            stream,
            finish: |stream| stream.shutdown(Shutdown::Write),
            arm_reset: |stream| {
                set_socket_linger(stream, Some(Duration::ZERO)).expect("SO_LINGER is set")
            },
        })
    }
}
