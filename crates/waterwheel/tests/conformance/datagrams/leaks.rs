//! Repeated waves of datagram channels leak neither descriptors, registrations nor memory.

use waterwheel::channel::Datagram;

use super::cell::Cell;
use super::test_bed::{TestBed, address};
use crate::cases::leaks::ResourceCounts;
use crate::test_bed::{get, wait_until};

const WAVES: usize = 3;
const CHANNELS: usize = 1_000;

/// Number of channels open at the same time.
const OPEN_CHANNELS: usize = 50;

pub(super) fn c13_repeated_waves_of_channels_leak_nothing(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let echo = test_bed.echo();
    let mut counts = ResourceCounts::default();
    for _ in 0..WAVES {
        for _ in 0..CHANNELS / OPEN_CHANNELS {
            let clients: Vec<_> =
                (0..OPEN_CHANNELS).map(|_| test_bed.connected(address(&echo))).collect();
            for client in &clients {
                client.channel.send(Datagram::new("!"));
                assert_eq!(client.text(), "!");
            }
            clients
                .iter()
                .for_each(|client| get(client.channel.close()).expect("the channel closes"));
        }
        wait_until("only the echo channel is left", || test_bed.channels() == 1);
        counts.check(&test_bed.group);
    }
}
