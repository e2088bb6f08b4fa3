//! Drivers leak no descriptor, and errors name the call that failed with EMFILE. One test, because the number of open
//! descriptors and RLIMIT_NOFILE belong to the process.

#[path = "../support/driver_rig.rs"]
mod driver_rig;

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use waterwheel_channel::driver::{Interest, Io, OpenDriver, Role};
use waterwheel_net::{Epoll, Poll, Socket, foreign_io};

use driver_rig::{DriverRig, dup, on_every_driver, pair};

#[test]
fn l02_drivers_leak_no_descriptor_and_name_what_fails_with_emfile() {
    let before = open_descriptors();
    on_every_driver(full_lifecycle);
    assert_eq!(open_descriptors(), before, "after a full lifecycle");
    opening_without_descriptors();
    assert_eq!(open_descriptors(), before, "after failing to open");
    on_every_driver(rebuilding_without_descriptors);
    on_every_driver(accepting_without_descriptors);
    assert_eq!(open_descriptors(), before, "at the end");
}

/// Attaches, uses and detaches registrations; the drop of the driver closes the rest.
fn full_lifecycle(rig: &mut DriverRig) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let listening = rig.attach(Socket::new(listener).unwrap(), Role::Listener);
    rig.read_on(listening);
    let connecting = Socket::unconnected(address).unwrap();
    let connecting = rig.attach(connecting, Role::Connecting(address.into()));
    rig.rounds_until("accepted");
    let accepted = rig.accepted.pop().unwrap();
    rig.attach(accepted, Role::Stream);
    rig.detach(connecting);
    rig.driver.rebuild().unwrap();

    let token = rig.token();
    let refused = Socket::unconnected(address).unwrap();
    let v6: std::net::SocketAddr = "[::1]:9".parse().unwrap();
    rig.driver.attach(token, refused.into(), Role::Connecting(v6.into())).unwrap_err();
    let (ours, _peer) = pair();
    rig.driver.attach(token, Io::new(ours), Role::Stream).unwrap_err();
    let source = std::sync::Arc::new(dup(std::io::stdin()));
    let io = foreign_io(source);
    rig.driver.register_foreign(token, io, Interest::NONE).unwrap_err();
    drop(rig.driver.waker());
}

fn opening_without_descriptors() {
    let opened = |factory: &dyn OpenDriver, left| {
        with_descriptors_left(left, || factory.open().map(|driver| driver.name()))
    };
    let error = opened(&Epoll, 0).unwrap_err();
    assert!(error.to_string().contains("eventfd"), "{error}");
    let error = opened(&Epoll, 1).unwrap_err();
    assert!(error.to_string().contains("epoll instance"), "{error}");
    assert_eq!(opened(&Epoll, 2).unwrap(), "epoll");
    let error = opened(&Poll, 0).unwrap_err();
    assert!(error.to_string().contains("eventfd"), "{error}");
    assert_eq!(opened(&Poll, 1).unwrap(), "poll");
}

fn rebuilding_without_descriptors(rig: &mut DriverRig) {
    let (token, mut peer) = rig.stream();
    rig.read_on(token);
    let rebuilt = with_descriptors_left(0, || rig.driver.rebuild());
    if rig.driver.name() == "epoll" {
        let error = rebuilt.unwrap_err();
        assert!(error.to_string().contains("epoll instance"), "{error}");
    }
    std::io::Write::write_all(&mut peer, b"still there").unwrap();
    assert_eq!(rig.round(), ["read still there", "complete"]);
}

fn accepting_without_descriptors(rig: &mut DriverRig) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let _peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let token = rig.attach(Socket::new(listener).unwrap(), Role::Listener);
    rig.read_on(token);
    let round = with_descriptors_left(0, || rig.round());
    assert_eq!(round.len(), 2, "{round:?}");
    assert_eq!(round[0], "complete");
    assert!(round[1].starts_with("accept failed"), "{round:?}");
    // With accepts off there is no event, and no connection is lost.
    rig.read_off(token);
    rig.assert_quiet();
    rig.read_on(token);
    assert_eq!(rig.round(), ["accepted", "complete"]);
}

/// Lowers RLIMIT_NOFILE so that `left` more descriptors can be opened.
fn with_descriptors_left<R>(left: i32, act: impl FnOnce() -> R) -> R {
    let limit = getrlimit(Resource::Nofile);
    let next = dup(std::io::stdin()).as_raw_fd();
    let lowered = u64::try_from(next + left).unwrap();
    setrlimit(Resource::Nofile, Rlimit { current: Some(lowered), maximum: limit.maximum }).unwrap();
    let result = act();
    setrlimit(Resource::Nofile, limit).unwrap();
    result
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
