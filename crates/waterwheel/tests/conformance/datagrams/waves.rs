//! Many channels, again and again: nothing of them is left.

use waterwheel::channel::Datagram;

use super::cell::Cell;
use super::stage::{Stage, address};
use crate::stage::{get, until};
use crate::waves::{LOOP_KIB, SLACK_KIB, open_files, resident_kib};

const WAVES: usize = 3;
const CHANNELS: usize = 1_000;

/// So many are open at the same time.
const AT_ONCE: usize = 50;

pub(super) fn c13_waves_of_channels_leave_nothing(cell: &dyn Cell) {
    let stage = Stage::new(cell, 2);
    let echo = stage.echo();
    // The first wave makes room in slabs and allocators.
    let mut after_first = None;
    for wave in 0..WAVES {
        for _ in 0..CHANNELS / AT_ONCE {
            let posts: Vec<_> = (0..AT_ONCE).map(|_| stage.connected(address(&echo))).collect();
            for post in &posts {
                post.channel.send(Datagram::new("!"));
                assert_eq!(post.text(), "!");
            }
            posts.iter().for_each(|post| get(post.channel.close()).expect("it closes"));
        }
        until("only the echo is left", || stage.channels() == 1);
        let left: usize = stage.group.children().map(|at| at.metrics().registrations).sum();
        assert_eq!(left, 1, "registrations after wave {wave}");
        // A loop that was added for a channel has a descriptor and a stack, and stays.
        let loops = stage.group.children().len();
        let now = (open_files() - loops, resident_kib(), loops);
        let (files_before, memory_before, loops_before) = *after_first.get_or_insert(now);
        let (files, memory, _) = now;
        assert_eq!(files, files_before, "descriptors after wave {wave}");
        let limit = memory_before + SLACK_KIB + (loops - loops_before) as u64 * LOOP_KIB;
        assert!(memory <= limit, "{memory_before} KiB after the first wave, now {memory}");
    }
}
