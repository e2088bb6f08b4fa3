//! Peers that do not read: what waits for them is bounded (C07).

use std::io::Read;
use std::net::TcpStream;
use std::sync::PoisonError;

use bytes::Bytes;
use waterwheel::channel::{Address, Bootstrap, ChannelOptions, WaterMarks};
use waterwheel::net::Tcp;

use crate::line::{End, PATIENCE, get};
use crate::random::SeededRng;
use crate::services::CAP;
use crate::world::World;

const BLOCK: usize = 8 * 1024;

/// Writes beyond the cap fail, and the others arrive.
pub(crate) fn write_beyond_the_cap(world: &World, dice: &mut SeededRng) {
    let marks = WaterMarks::new(BLOCK, 2 * BLOCK).and_then(|marks| marks.with_hard_cap(CAP));
    let water_marks = marks.expect("sound marks");
    let options = ChannelOptions { water_marks, ..ChannelOptions::default() };
    let clients = Bootstrap::new(&world.clients[dice.below(world.clients.len())], Tcp);
    let Some(line) = world.connect_by(clients, world.services.sink.clone(), options) else {
        return;
    };
    let (mut accepted, mut written, mut refused) = (Vec::new(), 0_u64, 0);
    while refused < 20 {
        let mut write = line.channel.write_and_flush(Bytes::from_static(&[7; BLOCK]));
        // One that is just being taken by the loop may be counted by neither side for a moment.
        let pending = line.channel.pending_bytes();
        assert!(pending <= CAP + BLOCK, "{pending} bytes wait");
        match write.try_take() {
            Some(Err(error)) => {
                assert!(error.to_string().contains(&CAP.to_string()), "{error}");
                refused += 1;
            }
            Some(Ok(())) => written += 1,
            None => accepted.push(write),
        }
    }
    for write in accepted {
        // What was under way to the loop may still have been refused there.
        written += u64::from(get(write).is_ok());
    }
    drop(line.channel.shutdown_output());
    let (count, end) = line.hear(usize::MAX);
    assert_eq!(end, End::Finished);
    assert_eq!(count, (written * BLOCK as u64).to_be_bytes(), "bytes that have arrived");
    line.close();
}

/// A connection that never reads is closed, and what it was sent meanwhile was bounded.
pub(crate) fn never_read(world: &World, _: &mut SeededRng) {
    let _can_open = world.with_descriptors();
    let flooded = world.services.flooded.lock().unwrap_or_else(PoisonError::into_inner);
    let Address::Ip(address) = &world.services.flood else { panic!("it is bound elsewhere") };
    let mut client = TcpStream::connect_timeout(address, PATIENCE).expect("a connection");
    client.set_read_timeout(Some(PATIENCE)).expect("a limit");
    flooded.recv_timeout(PATIENCE).expect("it is closed");
    // What the kernel had taken still comes, and then the end.
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).expect("an end");
    assert!(!rest.is_empty() && rest.iter().all(|byte| *byte == 7));
}
