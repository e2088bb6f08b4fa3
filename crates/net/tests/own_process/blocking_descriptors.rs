//! A server with a loop per connection and too few descriptors (EMFILE; L13, L16). Lowers RLIMIT_NOFILE of its
//! process.

#[path = "../support/loop_rig.rs"]
mod loop_rig;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use waterwheel_channel::{
    Address, Ctx, EventLoopGroup, Handler, HandlerResult, Msg, ServerBootstrap,
};
use waterwheel_executor::Clock;
use waterwheel_net::{Blocking, Tcp};

use loop_rig::{LogSender, TIME_LIMIT, get};

struct Echo;

impl Handler for Echo {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write_and_flush(msg);
        Ok(())
    }
}

/// True if the peer is answered, false if it is closed.
fn echoes(peer: &mut TcpStream) -> bool {
    peer.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    let answered = peer.write_all(b"ping").and_then(|()| peer.read_exact(&mut [0; 4]));
    match answered.map_err(|error| error.kind()) {
        Ok(()) => true,
        Err(std::io::ErrorKind::WouldBlock) => panic!("neither answered nor closed"),
        Err(_) => false,
    }
}

/// Returns the CPU time of the process.
fn cpu() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec.try_into().unwrap(), used.tv_nsec.try_into().unwrap())
}

fn count(directory: &str) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

#[test]
fn l16_a_server_with_a_loop_per_connection_survives_emfile() {
    let (descriptors, threads) = (count("/proc/self/fd"), count("/proc/self/task"));
    let (sender, reports) = mpsc::channel();
    let group = EventLoopGroup::per_channel(Blocking)
        .reporter(Arc::new(LogSender(Mutex::new(sender))))
        .build()
        .unwrap();
    let wait_for_report = |words: &str| {
        while !reports.recv_timeout(TIME_LIMIT).expect("a report").contains(words) {}
    };
    let servers = ServerBootstrap::new(&group, Tcp).child_initialiser(|edit| {
        edit.add_last("echo", Echo)?;
        Ok(())
    });
    let server = get(servers.bind("127.0.0.1:0"));
    let Some(Address::Ip(address)) = server.local_address() else { panic!() };
    let mut first = TcpStream::connect(address).unwrap();
    assert!(echoes(&mut first));

    let full = getrlimit(Resource::Nofile);
    let used = count("/proc/self/fd") as u64;
    setrlimit(Resource::Nofile, Rlimit { current: Some(used + 48), ..full }).unwrap();
    let mut peers = Vec::new();
    while let Ok(peer) = TcpStream::connect(address) {
        peers.push(peer);
        assert!(peers.len() < 200, "the limit has no effect");
    }
    wait_for_report("Too many open files");

    // No descriptor is free, and no loop spins.
    let turns = || group.children().map(|it| it.metrics().turns).sum::<u64>();
    // On a busy machine several reports are queued by now; the time between two fresh ones is measured.
    while reports.try_recv().is_ok() {}
    wait_for_report("Too many open files");
    let (before, busy, since) = (turns(), cpu(), Clock::Monotonic.now());
    wait_for_report("Too many open files");
    let (time, turns) = (Clock::Monotonic.now().since(since), turns() - before);
    assert!(turns < 12, "{turns} turns in {time:?}");
    let share = (cpu() - busy).as_secs_f64() / time.as_secs_f64();
    assert!(share < 0.05, "{share} of the processor");
    assert!(echoes(&mut first));

    // With descriptors again, waiting connections are served; those without a loop were closed. How many there are depends on
    // who took the 48 descriptors first: on a busy machine the peers have most of them before the server accepts.
    setrlimit(Resource::Nofile, full).unwrap();
    let served = peers.iter_mut().filter_map(|peer| echoes(peer).then_some(())).count();
    assert!(served > 2, "{served} of {}", peers.len());
    assert!(echoes(&mut TcpStream::connect(address).unwrap()));

    // No descriptor and no thread is leaked.
    drop((first, peers));
    drop(group.shutdown_gracefully(Duration::ZERO, TIME_LIMIT).unwrap());
    for event_loop in group.children() {
        event_loop.join().unwrap();
    }
    drop((group, servers, server));
    let limit = Clock::Monotonic.now().plus(TIME_LIMIT);
    while (count("/proc/self/fd"), count("/proc/self/task")) != (descriptors, threads) {
        let left = (count("/proc/self/fd"), count("/proc/self/task"));
        assert!(Clock::Monotonic.now() < limit, "{left:?} instead of {:?}", (descriptors, threads));
        std::thread::yield_now();
    }
}
