//! Checks after each round, when no scenario runs: nothing is left and nothing has grown.

use std::fs;

use waterwheel::channel::EventLoop;

use crate::client_connection::get;
use crate::counting_allocator::process_bytes;
use crate::services::CAP;
use crate::soak_setup::SoakSetup;

/// The buffers in which the loops' threads decrypt TLS: at most 128 KiB each, of which each loop takes as much as its
/// largest read so far.
const MAX_TLS_BUFFERS: usize = 12 * 128 * 1024;

/// Tolerated growth of allocated bytes: slabs and queues that were once longer.
const SLACK: usize = 512 * 1024 + MAX_TLS_BUFFERS;
/// Tolerated growth of allocated bytes for each loop that was added for a channel.
const LOOP_BYTES: usize = 128 * 1024;

/// Tolerated growth of resident memory: the allocator has an arena for each of about thirty threads, and an arena
/// keeps memory that its threads have freed.
const RESIDENT_SLACK_KIB: u64 = 30 * 8 * 1024;

/// Maximum number of polls of a condition before the test fails.
const MAX_POLLS: usize = 20_000;

/// Resources of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessUsage {
    pub(crate) files: usize,
    pub(crate) threads: usize,
    /// Allocated bytes, by the counting allocator.
    pub(crate) bytes: usize,
    pub(crate) resident_kib: u64,
}

impl ProcessUsage {
    pub(crate) fn now() -> Self {
        let count = |of| fs::read_dir(of).expect("/proc is mounted").count();
        let status = fs::read_to_string("/proc/self/status").expect("/proc is mounted");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .expect("VmRSS is in /proc/self/status");
        let resident_kib = line.trim().trim_end_matches(" kB").parse().expect("VmRSS is a number");
        let (files, threads) = (count("/proc/self/fd"), count("/proc/self/task"));
        Self { files, threads, bytes: process_bytes(), resident_kib }
    }
}

/// Threads besides the loops': two executors for offloaded handlers, the watchdog and the run's deadline.
const OTHER_THREADS: usize = 4;

/// Checks the loops, counts and process after each round.
pub(crate) struct RoundChecks {
    rounds: u32,
    round: u32,
    before: ProcessUsage,
    /// Usage and number of blocking loops after the first rounds, in which slabs and allocators grow to their size.
    baseline: Option<(ProcessUsage, usize)>,
}

impl RoundChecks {
    /// Creates the checks; `before` is the usage before the loops were started.
    pub(crate) fn new(rounds: u32, before: ProcessUsage) -> Self {
        Self { rounds, round: 0, before, baseline: None }
    }

    pub(crate) fn check_round(&mut self, setup: &SoakSetup) {
        self.round += 1;
        setup.common.reports.check();
        let loops = setup.loops();
        wait_for_no_leftovers(&loops, setup);
        assert_idle_loops_do_not_spin(&loops);
        setup.common.byte_counts.check();
        let pending = setup.common.byte_counts.max_pending();
        assert!(pending <= CAP, "{pending} bytes were pending for a client, above the hard cap");
        let threads = self.before.threads + loops.len() + OTHER_THREADS;
        wait_for_threads(threads);
        self.assert_nothing_grows(setup);
    }

    fn assert_nothing_grows(&mut self, setup: &SoakSetup) {
        // A loop that was added for a channel has a descriptor and a stack, and lives on without the channel.
        let loops = setup.services.blocking.children().len();
        let now = ProcessUsage::now();
        println!(
            "round {} of {}: {}; {}; {now:?}, {loops} blocking loops",
            self.round,
            self.rounds,
            setup.common.byte_counts.summary(),
            setup.common.reports.summary(),
        );
        let Some((first, loops_first)) = self.baseline else {
            // On a busy machine not every loop and buffer has grown to its size after the first round.
            if self.round >= 2 && 4 * self.round >= self.rounds {
                self.baseline = Some((now, loops));
            }
            return;
        };
        assert_eq!(
            now.files - loops,
            first.files - loops_first,
            "open descriptors, less those of blocking loops"
        );
        let limit = first.bytes + SLACK + (loops - loops_first) * LOOP_BYTES;
        assert!(now.bytes <= limit, "{first:?} after the first rounds, now {now:?}");
        let limit = first.resident_kib + RESIDENT_SLACK_KIB;
        assert!(now.resident_kib <= limit, "{first:?} after the first rounds, now {now:?}");
    }
}

/// Waits until the process has `expected` threads: a thread may exit a moment after its loop has ended.
pub(crate) fn wait_for_threads(expected: usize) {
    for _ in 0..MAX_POLLS {
        if ProcessUsage::now().threads == expected {
            return;
        }
        std::thread::yield_now();
    }
    panic!("{} threads instead of {expected}", ProcessUsage::now().threads);
}

/// Waits until the loops have no channels but the servers: the clients are closed, but the accepted channels may close a
/// moment later.
fn wait_for_no_leftovers(loops: &[EventLoop], setup: &SoakSetup) {
    let servers = setup.services.channels + 2;
    let mut left = (0, 0, 0); // Channels, registrations, timers.
    for _ in 0..MAX_POLLS {
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
    panic!("{left:?} channels, registrations and timers are left over\n{all}");
}

/// Asserts that idle loops do not spin: a few tasks take a few turns.
fn assert_idle_loops_do_not_spin(loops: &[EventLoop]) {
    const TRIPS: u64 = 10;
    for at in loops {
        let before = at.metrics();
        for _ in 0..TRIPS {
            get(at.submit(|| ()).expect("the loop accepts tasks")).expect("the task ran");
        }
        let turns = at.metrics().turns - before.turns;
        assert!(turns <= 4 * TRIPS, "{turns} turns of {} for {TRIPS} tasks", at.name());
        if !at.name().starts_with("faulty") {
            // Two causes of a premature return are legitimate, once each: a new selector reports the wake-up that the
            // old one has reported already, and a hang-up of a channel that does not read is not delivered.
            let (early, turns) = (before.premature_returns, before.turns);
            assert!(50 * early <= turns, "{early} of {turns} turns of {} had no event", at.name());
        }
    }
}
