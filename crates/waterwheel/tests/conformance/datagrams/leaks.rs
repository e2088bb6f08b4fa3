//! Many channels, again and again: nothing of them is left.

use waterwheel::channel::Datagram;

use super::cell::Cell;
use super::test_bed::{TestBed, address};
use crate::cases::leaks::ResourceCounts;
use crate::test_bed::{get, until};

const WAVES: usize = 3;
const CHANNELS: usize = 1_000;

/// So many are open at the same time.
const AT_ONCE: usize = 50;

pub(super) fn c13_waves_of_channels_leave_nothing(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let echo = test_bed.echo();
    let mut ledger = ResourceCounts::default();
    for _ in 0..WAVES {
        for _ in 0..CHANNELS / AT_ONCE {
            let posts: Vec<_> = (0..AT_ONCE).map(|_| test_bed.connected(address(&echo))).collect();
            for post in &posts {
                post.channel.send(Datagram::new("!"));
                assert_eq!(post.text(), "!");
            }
            posts.iter().for_each(|post| get(post.channel.close()).expect("it closes"));
        }
        until("only the echo is left", || test_bed.channels() == 1);
        ledger.check(&test_bed.group);
    }
}
