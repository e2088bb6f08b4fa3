//! What is so when all is quiet.

use std::fs;

use waterwheel::channel::EventLoop;

use crate::counting_allocator::bytes_of_all;
use crate::line::get;
use crate::services::CAP;
use crate::world::World;

/// What is allocated when all is quiet again may be more by so much: slabs and queues that were once longer,
/// and what a loop that was added for a channel has.
const SLACK: usize = 512 * 1024;
const LOOP: usize = 128 * 1024;

/// What is resident may be more by so much: the allocator has an arena for each of the thirty threads that there
/// are at once, and each keeps what one of its threads once had.
const RESIDENT_SLACK_KIB: u64 = 30 * 8 * 1024;

/// So often a loop is asked whether something is as it should be, before that is given up.
const LOOKS: usize = 20_000;

/// What the process has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(crate) files: usize,
    pub(crate) threads: usize,
    /// What is allocated.
    pub(crate) bytes: usize,
    pub(crate) resident_kib: u64,
}

impl Process {
    pub(crate) fn now() -> Self {
        let count = |of| fs::read_dir(of).expect("Linux").count();
        let status = fs::read_to_string("/proc/self/status").expect("Linux");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        let resident_kib = line.trim().trim_end_matches(" kB").parse().expect("a number");
        let (files, threads) = (count("/proc/self/fd"), count("/proc/self/task"));
        Self { files, threads, bytes: bytes_of_all(), resident_kib }
    }
}

/// Threads besides the loops': two executors for offloaded handlers, the watchdog and the alarm.
const OTHER_THREADS: usize = 4;

/// Looks at the world after each round.
pub(crate) struct Quiet {
    rounds: u32,
    round: u32,
    before: Process,
    /// After the rounds in which slabs, blocks and allocators have made room, with as many blocking loops.
    settled: Option<(Process, usize)>,
}

impl Quiet {
    /// `before`: as it was before there was a world.
    pub(crate) fn new(rounds: u32, before: Process) -> Self {
        Self { rounds, round: 0, before, settled: None }
    }

    pub(crate) fn check(&mut self, world: &World) {
        self.round += 1;
        world.common.reports.check();
        let loops = world.loops();
        nothing_left(&loops, world);
        nobody_spins(&loops);
        world.common.ledger.check();
        let pending = world.common.ledger.most_pending();
        assert!(pending <= CAP, "{pending} bytes waited for a client");
        let threads = self.before.threads + loops.len() + OTHER_THREADS;
        threads_are(threads);
        self.nothing_grows(world);
    }

    fn nothing_grows(&mut self, world: &World) {
        // A loop that was added for a channel has a descriptor and a stack, and stays.
        let loops = world.services.blocking.children().len();
        let now = Process::now();
        println!(
            "round {} of {}: {}; {}; {now:?}, {loops} blocking loops",
            self.round,
            self.rounds,
            world.common.ledger.summary(),
            world.common.reports.summary(),
        );
        let Some((first, loops_first)) = self.settled else {
            // On a busy machine the first round does not get every loop and buffer to its size.
            if self.round >= 2 && 4 * self.round >= self.rounds {
                self.settled = Some((now, loops));
            }
            return;
        };
        assert_eq!(now.files - loops, first.files - loops_first, "descriptors");
        let limit = first.bytes + SLACK + (loops - loops_first) * LOOP;
        assert!(now.bytes <= limit, "{first:?} after the first rounds, now {now:?}");
        let limit = first.resident_kib + RESIDENT_SLACK_KIB;
        assert!(now.resident_kib <= limit, "{first:?} after the first rounds, now {now:?}");
    }
}

/// Waits until there are so many threads: one whose loop has ended may be about to end itself.
pub(crate) fn threads_are(expected: usize) {
    for _ in 0..LOOKS {
        if Process::now().threads == expected {
            return;
        }
        std::thread::yield_now();
    }
    panic!("{} threads instead of {expected}", Process::now().threads);
}

/// Waits until the loops have nothing but the servers: clients have gone, but the servers' ends may still be
/// about to.
fn nothing_left(loops: &[EventLoop], world: &World) {
    let servers = world.services.channels + 2;
    let mut left = (0, 0, 0);
    for _ in 0..LOOKS {
        let metrics = loops.iter().map(EventLoop::metrics);
        left = metrics.fold((0, 0, 0), |sum, it| {
            (sum.0 + it.channels, sum.1 + it.registrations, sum.2 + it.timers)
        });
        if left == (servers, servers - 1, 0) {
            return;
        }
        std::thread::yield_now();
    }
    let all = loops.iter().map(|at| {
        let it = at.metrics();
        let channels = get(at.registered_channels());
        let counts = (it.registrations, it.timers, it.queue_depth);
        format!("{}: {channels:?}, {counts:?} registrations, timers, commands\n", at.name())
    });
    let all: String = all.collect();
    panic!("{left:?} channels, registrations and timers are left\n{all}");
}

/// Loops that have nothing to do do nothing: a few round trips are a few turns.
fn nobody_spins(loops: &[EventLoop]) {
    const TRIPS: u64 = 10;
    for at in loops {
        let before = at.metrics();
        for _ in 0..TRIPS {
            get(at.submit(|| ()).expect("it runs")).expect("it was run");
        }
        let turns = at.metrics().turns - before.turns;
        assert!(turns <= 4 * TRIPS, "{turns} turns of {} for {TRIPS} tasks", at.name());
        if !at.name().starts_with("faulty") {
            // A new selector finds the wake-up that the old one has seen already, and whoever does not read
            // is not told of a hang-up: one each.
            let (early, turns) = (before.premature_returns, before.turns);
            assert!(
                50 * early <= turns,
                "{early} of {turns} turns of {} were for nothing",
                at.name()
            );
        }
    }
}
