//! Echoed data comes back unchanged (C13).

use bytes::Bytes;

use crate::cell::Cell;
use crate::random::SeededRng;
use crate::test_bed::TestBed;

const CONNECTIONS: usize = 24;
const BYTES: usize = 100_000;

/// Sends the pieces of all connections in random order, some flushed at once and some later.
pub(crate) fn c13_random_data_of_many_connections_is_echoed_intact(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let server = test_bed.echo();
    let mut rng = SeededRng::new();
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let (client, events) = test_bed.client(&server);
        let data = rng.bytes(BYTES);
        let mut pieces = rng.cut(data.clone(), 20_000);
        pieces.reverse();
        connections.push((client, events, data, pieces));
    }
    let mut busy: Vec<usize> = (0..CONNECTIONS).collect();
    while !busy.is_empty() {
        let at = rng.below(busy.len());
        let (client, _, _, pieces) = &mut connections[busy[at]];
        match pieces.pop() {
            Some(piece) if rng.below(2) == 0 => client.send(piece),
            Some(piece) => drop(client.write(piece)),
            None => {
                client.flush();
                busy.swap_remove(at);
            }
        }
    }
    for (_, events, data, _) in &mut connections {
        assert!(events.bytes(BYTES) == *data, "the echoed bytes differ from the sent bytes");
    }
}

pub(crate) fn c13_data_sent_byte_by_byte_is_echoed_intact(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (client, mut events) = test_bed.client(&test_bed.echo());
    let data = SeededRng::new().bytes(2_000);
    for at in 0..data.len() {
        client.send(Bytes::copy_from_slice(&data[at..=at]));
    }
    assert!(events.bytes(data.len()) == data, "the echoed bytes differ from the sent bytes");
}
