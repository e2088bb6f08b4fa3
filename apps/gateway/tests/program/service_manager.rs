//! Sockets and states of a service manager: LISTEN_FDS, NOTIFY_SOCKET.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::support::process::{Process, Successor, wait_for_end};
use super::support::{LIMIT, http, temp};

/// Starts a gateway with a listening socket as descriptor 3. A shell sets LISTEN_PID to its own pid, then execs the gateway,
/// which keeps the pid.
fn start_with_socket(socket: OwnedFd, args: &[&str]) -> Process {
    let script = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_gateway")]).args(args);
    command.stdin(Stdio::from(socket)).stderr(Stdio::piped());
    Process::spawn(command)
}

fn listen() -> (OwnedFd, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener.into(), address)
}

#[test]
fn g07_a_socket_of_the_service_manager_is_listened_on() {
    let (socket, address) = listen();
    // A client that came before the gateway waits in the backlog.
    let mut early = http::HttpClient::connect(address);
    let mut gateway = start_with_socket(socket, &["--port", "1"]);
    assert_eq!(gateway.address, address);
    let line = gateway.log_with("which another process has bound");
    assert!(line.contains("port = 1 does not count"), "{line}");
    assert_eq!(early.get("/readyz").body, "ok\n");
    assert_eq!(http::get(address, "/readyz").body, "ok\n");
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait().0.code(), Some(0));
}

/// The manager keeps the socket: connections of the time between two gateways wait.
#[test]
fn g07_no_connection_is_refused_while_the_service_manager_restarts_the_gateway() {
    let (socket, address) = listen();
    for _ in 0..3 {
        let gateway = start_with_socket(socket.try_clone().unwrap(), &[]);
        assert_eq!(http::get(address, "/healthz").status, 200);
        gateway.signal(Signal::TERM);
        assert_eq!(gateway.wait().0.code(), Some(0));
        let mut early = http::HttpClient::connect(address);
        let next = start_with_socket(socket.try_clone().unwrap(), &[]);
        assert_eq!(early.get("/healthz").status, 200);
        drop(next);
    }
}

#[test]
fn g07_the_service_manager_follows_a_reload_a_take_over_and_the_end() {
    let path = temp::folder("notify").join("manager");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    let mut gateway = start_notifying(&path);
    assert_eq!(next(&manager), format!("READY=1\nMAINPID={}\n", gateway.id()));
    gateway.signal(Signal::HUP);
    assert!(next(&manager).starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert!(next(&manager).starts_with("READY=1\n"));
    gateway.signal(Signal::USR2);
    let successor = Successor::of_line(&gateway.line_with("has taken over"));
    assert_eq!(next(&manager), format!("READY=1\nMAINPID={}\n", successor.0));
    wait_for_end(gateway.id());
    // The old process says nothing of its end: the service goes on.
    successor.signal(Signal::TERM);
    assert_eq!(next(&manager), "STOPPING=1\n");
    wait_for_end(successor.0);
}

fn start_notifying(manager: &Path) -> Process {
    let mut command = super::support::process::program();
    command.env("NOTIFY_SOCKET", manager);
    Process::start_from(command, &[])
}

/// Returns the next state; signs of life are none.
fn next(manager: &UnixDatagram) -> String {
    let mut text = [0; 512];
    let count = manager.recv(&mut text).expect("a state");
    String::from_utf8(text[..count].to_vec()).unwrap()
}
