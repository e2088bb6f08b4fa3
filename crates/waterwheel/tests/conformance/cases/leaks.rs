//! Many connections, again and again: nothing of them is left.

use std::fs;

use bytes::Bytes;
use waterwheel::channel::{Channel, Ctx, EventLoopGroup, Handler, HandlerResult, Msg};

use crate::cell::Cell;
use crate::test_bed::{TestBed, WAIT_LIMIT, get, until};

const WAVES: usize = 3;
const CONNECTIONS: usize = 4_000;

/// So much has a loop at the most: a stack that was used a little, and its buffers.
const LOOP_KIB: u64 = 256;

/// The memory of a process that does the same again may grow by so much: the allocator's own affairs.
const SLACK_KIB: u64 = 4 * 1024;

pub(crate) fn c13_waves_of_connections_leave_nothing(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let server = test_bed.echo();
    let mut ledger = ResourceCounts::default();
    for _ in 0..WAVES {
        for _ in 0..CONNECTIONS / cell.at_once() {
            crowd(&test_bed, &server);
        }
        until("only the server is left", || test_bed.channels() == 1);
        ledger.check(&test_bed.group);
    }
}

/// Connects many, has each of them served and close itself.
fn crowd(test_bed: &TestBed<'_>, server: &Channel) {
    let clients = test_bed
        .cell
        .client(&test_bed.group)
        .initialiser(|edit| Ok(edit.add_last("once", Once).map(drop)?));
    let to = server.local_address().expect("a server is bound");
    let connected: Vec<_> =
        (0..test_bed.cell.at_once()).map(|_| clients.connect(to.clone())).collect();
    for client in connected {
        let client = get(client).expect("a connection");
        client.closed().wait_timeout(WAIT_LIMIT).expect("it is served");
    }
}

/// Asks once, and closes with the answer.
struct Once;

impl Handler for Once {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.write_and_flush(Bytes::from_static(b"!"));
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        assert_eq!(msg.into_bytes().expect("bytes are sent here"), "!");
        ctx.close();
        Ok(())
    }
}

/// What the process had after the first wave, which makes room in slabs and allocators.
#[derive(Default)]
pub(crate) struct ResourceCounts {
    first: Option<Household>,
}

#[derive(Clone, Copy, Debug)]
struct Household {
    /// But those of the loops: a loop that was added for a channel has a descriptor and a stack, and stays.
    files: usize,
    loops: usize,
    memory_kib: u64,
}

impl ResourceCounts {
    /// Another wave is over, and one channel left: there is as much as after the first.
    #[track_caller]
    pub(crate) fn check(&mut self, group: &EventLoopGroup) {
        let left: usize = group.children().map(|at| at.metrics().registrations).sum();
        assert!(left <= 1, "{left} registrations");
        let loops = group.children().len();
        let files = open_files() - loops;
        let now = Household { files, loops, memory_kib: resident_kib() };
        let first = *self.first.get_or_insert(now);
        assert_eq!(now.files, first.files, "descriptors: {now:?} after {first:?}");
        let added = (now.loops - first.loops) as u64;
        let limit = first.memory_kib + SLACK_KIB + added * LOOP_KIB;
        assert!(now.memory_kib <= limit, "memory: {now:?} after {first:?}");
    }
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").expect("Linux").count()
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
