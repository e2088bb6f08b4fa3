//! Drains, selector faults, EMFILE, and handlers that block their loop.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use waterwheel::channel::{Address, ChannelOptions, DrainOptions, Drained, EventLoop};
use waterwheel_testkit::faulty::{DriverCall, EarlyReturns, FailTimes};

use crate::client_connection::{WAIT_LIMIT, get};
use crate::handlers::UNCHECKED;
use crate::random::SeededRng;
use crate::reports::Cause;
use crate::round_checks::ProcessUsage;
use crate::soak_setup::{Service, SoakSetup};

/// Drains loops while data flows, and replaces them by others at the same address: every accepted byte is answered.
pub(crate) fn drain_and_replace(setup: &SoakSetup, _: &mut SeededRng) {
    let can_open = setup.with_descriptors();
    let mut current = setup.drained_group();
    let (next, _servers) = setup.common.serve_on_each_loop(setup.drained_address.clone());
    let old = std::mem::replace(&mut *current, next);
    drop((current, can_open));
    let options = DrainOptions::within(WAIT_LIMIT).shutdown(Duration::ZERO, WAIT_LIMIT);
    let drained = old.drain(options.expect("valid options"));
    drained.wait_timeout(WAIT_LIMIT).expect("the drain ends");
    assert_eq!(
        drained.join().expect("the drain was not cut short by a shutdown"),
        Drained::Complete
    );
    old.termination().wait_timeout(WAIT_LIMIT).expect("the loops end after the drain");
    for at in old.children() {
        let metrics = at.metrics();
        let left = (metrics.channels, metrics.registrations, metrics.queue_depth, metrics.timers);
        assert_eq!(
            left,
            (0, 0, 0, 0),
            "channels, registrations, commands, timers of {}",
            at.name()
        );
    }
}

/// Runs tasks on the loop until the condition holds.
#[track_caller]
fn run_loop_until(at: &EventLoop, what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1_000_000 {
        if holds() {
            return;
        }
        get(at.submit(|| ()).expect("the loop accepts tasks")).expect("the task ran");
    }
    panic!("timed out waiting until {what}; {:?}", at.metrics());
}

/// Makes the selector return early (spin) until the loop rebuilds it.
pub(crate) fn spin(setup: &SoakSetup, _: &mut SeededRng) {
    let at = setup.services.faulty.next();
    let before = at.metrics().rebuilds;
    setup.services.faults.return_early(EarlyReturns::UntilRebuild);
    run_loop_until(&at, "the selector is rebuilt", || at.metrics().rebuilds > before);
}

/// Makes the driver's waits fail, with a growing back-off between them.
pub(crate) fn fail_waits(setup: &SoakSetup, rng: &mut SeededRng) {
    let at = setup.services.faulty.next();
    let (before, times) = (at.metrics().failed_waits, 1 + rng.below(4));
    setup.services.faults.fail(DriverCall::Wait, FailTimes::Next(times), ErrorKind::InvalidInput);
    run_loop_until(&at, "the waits have failed", || {
        at.metrics().failed_waits >= before + times as u64
    });
}

/// Rebuilds a working selector on request.
pub(crate) fn rebuild(setup: &SoakSetup, rng: &mut SeededRng) {
    let groups = [&setup.services.epoll, &setup.services.poll, &setup.clients[0]];
    let at = groups[rng.below(groups.len())].next();
    let before = at.metrics().rebuilds;
    let can_open = setup.with_descriptors();
    at.rebuild().expect("the loop accepts tasks");
    run_loop_until(&at, "the selector is rebuilt", || at.metrics().rebuilds > before);
    drop(can_open);
}

/// Exhausts the descriptors (EMFILE): servers back off from accepting, and accept again when descriptors are free.
pub(crate) fn exhaust_descriptors(setup: &SoakSetup, _: &mut SeededRng) {
    let _exclusive = setup.without_descriptors();
    let Address::Ip(to) = &setup.services.boss else { panic!("not bound to an IP address") };
    let mut sockets = [(); 10].map(|()| {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
        Some(socket.expect("a socket is created"))
    });
    let reports = &setup.common.reports;
    let before = reports.count(Cause::NoDescriptor);
    let mut exhaustion = DescriptorExhaustion::begin();
    let mut clients = Vec::new();
    for socket in sockets.iter_mut().filter_map(Option::take) {
        rustix::net::connect(&socket, to).expect("the backlog has room");
        clients.push(TcpStream::from(socket));
        // Another thread may just have closed a descriptor, which the server then used.
        let is_reported = (0..EMFILE_POLLS).any(|_| {
            exhaustion.fill();
            reports.wait_briefly(Cause::NoDescriptor, before)
        });
        if is_reported {
            break;
        }
    }
    assert!(reports.count(Cause::NoDescriptor) > before, "accept never failed with EMFILE");
    drop(exhaustion);
    for mut client in clients {
        client.set_read_timeout(Some(WAIT_LIMIT)).expect("the timeout is set");
        client.write_all(&[UNCHECKED]).expect("the connection is open");
        let mut answer = [0];
        client.read_exact(&mut answer).expect("the connection is served after the exhaustion");
        assert_eq!(answer, [UNCHECKED]);
    }
}

/// Polls for a report of EMFILE, 10 ms each: together longer than the back-off of an accept that has failed.
const EMFILE_POLLS: usize = 150;

/// Uses up all descriptors: lowers RLIMIT_NOFILE to the number of open ones, and fills the gaps below it with
/// duplicates.
struct DescriptorExhaustion {
    limit_before: Rlimit,
    fillers: Vec<OwnedFd>,
}

impl DescriptorExhaustion {
    fn begin() -> Self {
        let limit_before = getrlimit(Resource::Nofile);
        // Not lower: poll(2) fails with EINVAL for more descriptors than this limit.
        let limit = Rlimit { current: Some(ProcessUsage::now().files as u64), ..limit_before };
        let filler = rustix::net::socket(AddressFamily::UNIX, SocketType::DGRAM, None);
        let mut exhaustion =
            Self { limit_before, fillers: vec![filler.expect("a socket is created")] };
        setrlimit(Resource::Nofile, limit).expect("RLIMIT_NOFILE can be lowered");
        exhaustion.fill();
        exhaustion
    }

    fn fill(&mut self) {
        while let Ok(filler) = rustix::io::dup(&self.fillers[0]) {
            self.fillers.push(filler);
        }
    }
}

impl Drop for DescriptorExhaustion {
    fn drop(&mut self) {
        setrlimit(Resource::Nofile, self.limit_before).expect("RLIMIT_NOFILE can be restored");
    }
}

/// A handler blocks its loop, and the watchdog names the handler while it does.
pub(crate) fn block_a_loop(setup: &SoakSetup, rng: &mut SeededRng) {
    let clients = setup.bootstrap(Service::Boss, rng);
    let to = setup.services.held.clone();
    let Some(connection) = setup.connect_by(clients, to, ChannelOptions::default()) else { return };
    let before = setup.common.reports.count(Cause::SlowHandler);
    let question = rng.bytes(10);
    connection.channel.send(question.clone());
    let (answer, _) = connection.receive(question.len());
    assert_eq!(answer, question);
    assert!(setup.common.reports.count(Cause::SlowHandler) > before);
    connection.close();
}
