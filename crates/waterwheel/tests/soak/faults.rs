//! What goes wrong below, or is held up above: drains, selectors, descriptors, slow handlers.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use waterwheel::channel::{Address, ChannelOptions, DrainOptions, Drained, EventLoop};
use waterwheel_testkit::faulty::{DriverCall, EarlyReturns, FailTimes};

use crate::handlers::CARELESS;
use crate::line::{PATIENCE, get};
use crate::quiet::Process;
use crate::random::SeededRng;
use crate::reports::Cause;
use crate::world::{Service, World};

/// Loops are drained in the middle of conversations while others take over at the same address: what was
/// accepted is answered.
pub(crate) fn drain_and_replace(world: &World, _: &mut SeededRng) {
    let can_open = world.with_descriptors();
    let mut each = world.each();
    let (next, _servers) = world.common.each(world.each_at.clone());
    let last = std::mem::replace(&mut *each, next);
    drop((each, can_open));
    let options = DrainOptions::within(PATIENCE).shutdown(Duration::ZERO, PATIENCE);
    let drained = last.drain(options.expect("sound options"));
    drained.wait_timeout(PATIENCE).expect("it ends");
    assert_eq!(drained.join().expect("it was not shut down"), Drained::Complete);
    last.termination().wait_timeout(PATIENCE).expect("and then the loops do");
    for at in last.children() {
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

/// Goes through a loop's queue until something is so.
#[track_caller]
fn turn_until(at: &EventLoop, what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1_000_000 {
        if holds() {
            return;
        }
        get(at.submit(|| ()).expect("it runs")).expect("it was run");
    }
    panic!("not in time: {what}; {:?}", at.metrics());
}

/// A selector spins, and is rebuilt.
pub(crate) fn spin(world: &World, _: &mut SeededRng) {
    let at = world.services.faulty.next();
    let before = at.metrics().rebuilds;
    world.services.faults.return_early(EarlyReturns::UntilRebuild);
    turn_until(&at, "it is rebuilt", || at.metrics().rebuilds > before);
}

/// Waits fail, and the driver is left alone for longer each time.
pub(crate) fn fail_waits(world: &World, dice: &mut SeededRng) {
    let at = world.services.faulty.next();
    let (before, times) = (at.metrics().failed_waits, 1 + dice.below(4));
    world.services.faults.fail(DriverCall::Wait, FailTimes::Next(times), ErrorKind::InvalidInput);
    turn_until(&at, "they fail", || at.metrics().failed_waits >= before + times as u64);
}

/// A sound selector is replaced too, if somebody wishes.
pub(crate) fn rebuild(world: &World, dice: &mut SeededRng) {
    let groups = [&world.services.epoll, &world.services.poll, &world.clients[0]];
    let at = groups[dice.below(groups.len())].next();
    let before = at.metrics().rebuilds;
    let can_open = world.with_descriptors();
    at.rebuild().expect("it runs");
    turn_until(&at, "it is rebuilt", || at.metrics().rebuilds > before);
    drop(can_open);
}

/// There are no descriptors any more: servers that cannot accept wait, and go on when they can.
pub(crate) fn starve(world: &World, _: &mut SeededRng) {
    let _nobody_else = world.without_descriptors();
    let Address::Ip(to) = &world.services.boss else { panic!("it is bound elsewhere") };
    let mut sockets = [(); 10].map(|()| {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
        Some(socket.expect("a socket"))
    });
    let reports = &world.common.reports;
    let before = reports.count(Cause::NoDescriptor);
    let mut taken = Taken::all();
    let mut clients = Vec::new();
    for socket in sockets.iter_mut().filter_map(Option::take) {
        rustix::net::connect(&socket, to).expect("the kernel has room for it");
        clients.push(TcpStream::from(socket));
        // Somebody may have closed something just then, and the server have found a descriptor.
        let refused = (0..GLANCES).any(|_| {
            taken.fill();
            reports.wait_a_little(Cause::NoDescriptor, before)
        });
        if refused {
            break;
        }
    }
    assert!(reports.count(Cause::NoDescriptor) > before, "there was always a descriptor");
    drop(taken);
    for mut client in clients {
        client.set_read_timeout(Some(PATIENCE)).expect("a limit");
        client.write_all(&[CARELESS]).expect("a connection");
        let mut answer = [0];
        client.read_exact(&mut answer).expect("it is served in the end");
        assert_eq!(answer, [CARELESS]);
    }
}

/// So often it is looked whether a server has found no descriptor: for longer than one waits that has not.
const GLANCES: usize = 150;

/// All descriptors of the process: those that are there, up to a limit that is as low as goes, and nothing
/// but our own below it.
struct Taken {
    before: Rlimit,
    fillers: Vec<OwnedFd>,
}

impl Taken {
    fn all() -> Self {
        let before = getrlimit(Resource::Nofile);
        // Not lower: poll refuses to watch more than this.
        let limit = Rlimit { current: Some(Process::now().files as u64), ..before };
        let filler = rustix::net::socket(AddressFamily::UNIX, SocketType::DGRAM, None);
        let mut taken = Self { before, fillers: vec![filler.expect("a socket")] };
        setrlimit(Resource::Nofile, limit).expect("it may be lowered");
        taken.fill();
        taken
    }

    fn fill(&mut self) {
        while let Ok(filler) = rustix::io::dup(&self.fillers[0]) {
            self.fillers.push(filler);
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        setrlimit(Resource::Nofile, self.before).expect("it may be raised to what it was");
    }
}

/// A handler holds its loop, and is named while it does.
pub(crate) fn hold_a_loop(world: &World, dice: &mut SeededRng) {
    let clients = world.bootstrap(Service::Boss, dice);
    let to = world.services.held.clone();
    let Some(line) = world.connect_by(clients, to, ChannelOptions::default()) else { return };
    let before = world.common.reports.count(Cause::Held);
    let question = dice.bytes(10);
    line.channel.send(question.clone());
    let (answer, _) = line.hear(question.len());
    assert_eq!(answer, question);
    assert!(world.common.reports.count(Cause::Held) > before);
    line.close();
}
