//! What goes there and comes back.

use bytes::Bytes;

use crate::cell::Cell;
use crate::random::SeededRng;
use crate::test_bed::TestBed;

const CONNECTIONS: usize = 24;
const BYTES: usize = 100_000;

/// The pieces of all connections are sent in a random order, some flushed at once and some later.
pub(crate) fn c13_random_data_of_many_connections_is_echoed_intact(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let server = test_bed.echo();
    let mut dice = SeededRng::new();
    let mut lines = Vec::new();
    for _ in 0..CONNECTIONS {
        let (client, ear) = test_bed.client(&server);
        let data = dice.bytes(BYTES);
        let mut pieces = dice.cut(data.clone(), 20_000);
        pieces.reverse();
        lines.push((client, ear, data, pieces));
    }
    let mut busy: Vec<usize> = (0..CONNECTIONS).collect();
    while !busy.is_empty() {
        let at = dice.below(busy.len());
        let (client, _, _, pieces) = &mut lines[busy[at]];
        match pieces.pop() {
            Some(piece) if dice.below(2) == 0 => client.send(piece),
            Some(piece) => drop(client.write(piece)),
            None => {
                client.flush();
                busy.swap_remove(at);
            }
        }
    }
    for (_, ear, data, _) in &mut lines {
        assert!(ear.bytes(BYTES) == *data, "what came back is not what was sent");
    }
}

pub(crate) fn c13_what_comes_byte_by_byte_is_echoed_intact(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (client, mut ear) = test_bed.client(&test_bed.echo());
    let data = SeededRng::new().bytes(2_000);
    for at in 0..data.len() {
        client.send(Bytes::copy_from_slice(&data[at..=at]));
    }
    assert!(ear.bytes(data.len()) == data, "what came back is not what was sent");
}
