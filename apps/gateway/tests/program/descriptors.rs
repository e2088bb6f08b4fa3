//! L16 with the whole program: fewer file descriptors than clients (EMFILE).

use std::fs;
use std::io::{ErrorKind, Read};
use std::time::Duration;

use rustix::process::Signal;

use super::support::lines::{HELLO, LineClient};
use super::support::process::Process;

#[test]
fn l16_emfile_neither_spins_nor_loses_waiting_connections() {
    let gateway = Process::start_by("prlimit", &["--nofile=64:64"], &[]);
    let mut clients: Vec<_> =
        (0..200).map(|_| LineClient::connect_silently(gateway.address)).collect();
    clients[0].expect(HELLO);
    // The last client is in the kernel's accept queue. CPU time is measured while it waits for a second.
    let before = ticks(gateway.id());
    let last = clients.last().unwrap().stream();
    last.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let nothing = (&mut &*last).read(&mut [0]).unwrap_err();
    assert!(matches!(nothing.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{nothing}");
    let spent = ticks(gateway.id()) - before;
    assert!(spent < 10, "{spent} hundredths of a second in one second");
    clients[0].ask("PING", "PONG");
    // All clients leave, those in the accept queue too; a new one is served.
    drop(clients);
    let mut newcomer = LineClient::connect_silently(gateway.address);
    newcomer.expect(HELLO);
    drop(newcomer);
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait().0.code(), Some(0));
}

#[test]
fn g03_connections_beyond_the_limit_are_closed_at_once() {
    let gateway = Process::start(&["--connections-max", "3"]);
    let mut served: Vec<_> = (0..3).map(|_| LineClient::connect(gateway.address)).collect();
    let mut refused = LineClient::connect_silently(gateway.address);
    assert!(matches!(refused.try_hear(), Ok(None) | Err(_)), "closed");
    served.iter_mut().for_each(|client| client.ask("PING", "PONG"));
}

/// Returns the CPU time of a process in clock ticks (hundredths of a second).
fn ticks(id: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    // utime and stime, the 12th and 13th field after the name in parentheses.
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}
