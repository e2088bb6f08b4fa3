//! TCP on the loopback.

use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use waterwheel::channel::{
    Address, AddressSpec, Bootstrap, Channel, EventLoopGroup, ServerBootstrap,
};
use waterwheel::net::Tcp;

use super::stranger::Stranger;
use crate::cell::{Ability, Foreign, Kind};
use crate::stage::PATIENCE;

pub(crate) struct TcpKind;

impl Kind for TcpKind {
    fn name(&self) -> &'static str {
        "TCP"
    }

    fn server(&self, group: &EventLoopGroup) -> ServerBootstrap {
        ServerBootstrap::new(group, Tcp)
    }

    fn client(&self, group: &EventLoopGroup) -> Bootstrap {
        Bootstrap::new(group, Tcp)
    }

    fn free_place(&self) -> AddressSpec {
        AddressSpec::from("127.0.0.1:0")
    }

    fn empty_place(&self) -> AddressSpec {
        // Bound by the kernel, and given back without ever having listened to anybody.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        AddressSpec::from(listener.local_addr().expect("its address"))
    }

    fn lacks(&self, _: Ability) -> Option<&'static str> {
        None
    }

    fn foreign(&self, server: &Channel) -> Box<dyn Foreign> {
        let Some(Address::Ip(address)) = server.local_address() else {
            panic!("{server:?} is bound elsewhere");
        };
        let stream = TcpStream::connect_timeout(&address, PATIENCE).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        stream.set_write_timeout(Some(PATIENCE)).expect("a limit");
        Box::new(Stranger {
            stream,
            finish: |stream| stream.shutdown(Shutdown::Write),
            doom: |stream| set_socket_linger(stream, Some(Duration::ZERO)).expect("an option"),
        })
    }
}
