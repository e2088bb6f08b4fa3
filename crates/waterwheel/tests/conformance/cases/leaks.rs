//! Repeated waves of connections leak neither descriptors, registrations nor memory.

use std::fs;

use bytes::Bytes;
use waterwheel::channel::{Channel, Ctx, EventLoopGroup, Handler, HandlerResult, Msg};

use crate::cell::Cell;
use crate::test_bed::{TestBed, WAIT_LIMIT, get, wait_until};

const WAVES: usize = 3;
const CONNECTIONS: usize = 4_000;

/// Maximum memory of one loop: the used part of its stack, and its buffers.
const LOOP_KIB: u64 = 256;

/// Tolerated growth of resident memory from wave to wave, due to the allocator.
const SLACK_KIB: u64 = 4 * 1024;

pub(crate) fn c13_repeated_waves_of_connections_leak_nothing(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let server = test_bed.echo();
    let mut counts = ResourceCounts::default();
    for _ in 0..WAVES {
        for _ in 0..CONNECTIONS / cell.max_connections() {
            run_connections(&test_bed, &server);
        }
        wait_until("only the server is left", || test_bed.channels() == 1);
        counts.check(&test_bed.group);
    }
}

/// Connects as many clients as may be open; each makes one request and closes.
fn run_connections(test_bed: &TestBed<'_>, server: &Channel) {
    let clients = test_bed
        .cell
        .client(&test_bed.group)
        .initialiser(|edit| Ok(edit.add_last("ask once", AskOnce).map(drop)?));
    let to = server.local_address().expect("the server is bound");
    let connected: Vec<_> =
        (0..test_bed.cell.max_connections()).map(|_| clients.connect(to.clone())).collect();
    for client in connected {
        let client = get(client).expect("the connection is made");
        client.closed().wait_timeout(WAIT_LIMIT).expect("the client is served");
    }
}

/// Sends one request, and closes the channel when the answer arrives.
struct AskOnce;

impl Handler for AskOnce {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.write_and_flush(Bytes::from_static(b"!"));
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        assert_eq!(msg.into_bytes().expect("the message is bytes"), "!");
        ctx.close();
        Ok(())
    }
}

/// Resources of the process after the first wave, in which slabs and allocators grow to their size.
#[derive(Default)]
pub(crate) struct ResourceCounts {
    first: Option<ProcessUsage>,
}

#[derive(Clone, Copy, Debug)]
struct ProcessUsage {
    /// Open descriptors, except those of the loops: a loop added for a channel has one, and outlives the channel.
    files: usize,
    loops: usize,
    memory_kib: u64,
}

impl ResourceCounts {
    /// Asserts after a wave, when one channel is left, that the process uses no more than after the first wave.
    #[track_caller]
    pub(crate) fn check(&mut self, group: &EventLoopGroup) {
        let left: usize = group.children().map(|at| at.metrics().registrations).sum();
        assert!(left <= 1, "{left} registrations");
        let loops = group.children().len();
        let files = open_files() - loops;
        let now = ProcessUsage { files, loops, memory_kib: resident_kib() };
        let first = *self.first.get_or_insert(now);
        assert_eq!(now.files, first.files, "descriptors: {now:?} after {first:?}");
        let added = (now.loops - first.loops) as u64;
        let limit = first.memory_kib + SLACK_KIB + added * LOOP_KIB;
        assert!(now.memory_kib <= limit, "memory: {now:?} after {first:?}");
    }
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").expect("/proc is mounted").count()
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("VmRSS is in /proc/self/status");
    line.trim().trim_end_matches(" kB").parse().expect("VmRSS is a number")
}
