//! A server without free descriptors (EMFILE, L16). Lowers RLIMIT_NOFILE of its process.

#[path = "../support/loop_rig.rs"]
mod loop_rig;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use socket2::{Domain, Socket, Type};
use waterwheel_channel::{
    Address, Ctx, EventLoopGroup, Handler, HandlerResult, Msg, ServerBootstrap,
};
use waterwheel_executor::Clock;
use waterwheel_net::{Epoll, Poll, Tcp};

use loop_rig::{LoopRig, TIME_LIMIT, get};

struct Echo;

impl Handler for Echo {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write_and_flush(msg);
        Ok(())
    }
}

fn echoes(peer: &mut TcpStream) {
    peer.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    peer.write_all(b"ping").unwrap();
    let mut back = [0; 4];
    peer.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"ping");
}

/// Returns the CPU time of the process.
fn cpu() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec.try_into().unwrap(), used.tv_nsec.try_into().unwrap())
}

#[test]
fn l16_a_server_backs_off_at_emfile_and_recovers() {
    without_descriptors(&LoopRig::new(EventLoopGroup::builder(Epoll)));
    without_descriptors(&LoopRig::new(EventLoopGroup::builder(Poll)));
}

fn without_descriptors(rig: &LoopRig) {
    let server =
        ServerBootstrap::new(&rig.event_loop.parent().unwrap(), Tcp).child_initialiser(|edit| {
            edit.add_last("echo", Echo)?;
            Ok(())
        });
    let server = get(server.bind("127.0.0.1:0"));
    let Some(Address::Ip(address)) = server.local_address() else { panic!() };
    let mut first = TcpStream::connect(address).unwrap();
    echoes(&mut first);

    // The client sockets are opened first, many more than there are descriptors to accept them, so that it
    // does not matter if some are closed meanwhile.
    let clients: Vec<_> = (0..100).map(|_| client()).collect();
    let full = getrlimit(Resource::Nofile);
    let used = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    setrlimit(Resource::Nofile, Rlimit { current: Some(used + 32), ..full }).unwrap();
    clients.iter().for_each(|client| client.connect(&address.into()).unwrap());
    let mut peers: Vec<TcpStream> = clients.into_iter().map(TcpStream::from).collect();
    let report = rig.wait_for_report("Too many open files");
    assert!(report.contains("acceptor"), "{report}");

    // No descriptor is free, and no loop spins.
    let (turns, busy, since) = (rig.event_loop.metrics().turns, cpu(), Clock::Monotonic.now());
    rig.wait_for_report("Too many open files");
    rig.wait_for_report("Too many open files");
    let time = Clock::Monotonic.now().since(since);
    assert!(time > Duration::from_millis(1800), "accepting is retried once per second: {time:?}");
    let turns = rig.event_loop.metrics().turns - turns;
    assert!(turns < 12, "{turns} turns in {time:?}");
    let share = (cpu() - busy).as_secs_f64() / time.as_secs_f64();
    assert!(share < 0.05, "{share} of the processor");
    echoes(&mut first);

    // With descriptors again, waiting connections are served.
    setrlimit(Resource::Nofile, full).unwrap();
    peers.iter_mut().for_each(echoes);
    rig.end();
}

fn client() -> Socket {
    Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()
}
