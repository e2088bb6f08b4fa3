//! Listeners: their reads are accepts (L05).

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};

use rustix::io::{FdFlags, fcntl_getfd};
use socket2::SockRef;
use waterwheel_channel::Token;
use waterwheel_channel::driver::{IoEvent, ReadPlan, Role};
use waterwheel_net::Socket;

use crate::driver_rig::{DriverRig, TIME_LIMIT, on_every_driver};

fn listener(rig: &mut DriverRig) -> (Token, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (rig.attach(Socket::new(listener).unwrap(), Role::Listener), address)
}

#[test]
fn l05_a_round_of_accepts_ends_with_the_plan_or_an_empty_backlog() {
    on_every_driver(|rig| {
        let (token, address) = listener(rig);
        let _peers = [(); 5].map(|()| TcpStream::connect(address).unwrap());
        rig.assert_quiet();
        rig.driver.set_read(token, Some(ReadPlan { max_reads: 3, size: 0 }));
        assert_eq!(rig.round(), ["accepted", "accepted", "accepted", "complete"]);
        assert_eq!(rig.round(), ["accepted", "accepted", "complete"]);
        rig.assert_quiet();
        rig.read_off(token);
        let _late = TcpStream::connect(address).unwrap();
        rig.assert_quiet();
        rig.read_on(token);
        assert_eq!(rig.round(), ["accepted", "complete"]);
    });
}

#[test]
fn l05_turning_accepts_off_ends_the_round() {
    on_every_driver(|rig| {
        let (token, address) = listener(rig);
        let _peers = [(); 3].map(|()| TcpStream::connect(address).unwrap());
        rig.read_on(token);
        assert_eq!(rig.event(), (token, "accepted".into()));
        rig.read_off(token);
        assert_eq!(rig.drain(), ["complete"]);
        rig.assert_quiet();
    });
}

#[test]
fn l05_an_accepted_connection_is_ready_to_be_attached() {
    on_every_driver(|rig| {
        let (token, address) = listener(rig);
        rig.read_on(token);
        let mut peer = TcpStream::connect(address).unwrap();
        let until = rig.after(TIME_LIMIT);
        rig.driver.wait(Some(until)).unwrap();
        let Some(IoEvent::Accepted(listener, io, peer_address)) = rig.driver.next_event() else {
            panic!()
        };
        assert_eq!((listener, peer_address), (token, peer.local_addr().unwrap().into()));
        let socket = io.downcast::<Socket>().unwrap();
        assert!(SockRef::from(&socket).nonblocking().unwrap());
        assert!(fcntl_getfd(&socket).unwrap().contains(FdFlags::CLOEXEC));
        assert_eq!(rig.drain(), ["complete"]);
        let token = rig.attach(socket, Role::Stream);
        rig.read_on(token);
        peer.write_all(b"hello").unwrap();
        assert_eq!(rig.round(), ["read hello", "complete"]);
    });
}
