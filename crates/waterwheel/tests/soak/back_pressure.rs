//! Peers that do not read: the pending bytes for them are bounded (C07).

use std::io::Read;
use std::net::TcpStream;
use std::sync::PoisonError;

use bytes::Bytes;
use waterwheel::channel::{Address, Bootstrap, ChannelOptions, WaterMarks};
use waterwheel::net::Tcp;

use crate::client_connection::{ConnectionEnd, WAIT_LIMIT, get};
use crate::random::SeededRng;
use crate::services::CAP;
use crate::soak_setup::SoakSetup;

const BLOCK: usize = 8 * 1024;

/// Writes beyond the hard cap fail, and all other writes arrive.
pub(crate) fn write_beyond_the_cap(setup: &SoakSetup, rng: &mut SeededRng) {
    let marks = WaterMarks::new(BLOCK, 2 * BLOCK).and_then(|marks| marks.with_hard_cap(CAP));
    let water_marks = marks.expect("valid water marks");
    let options = ChannelOptions { water_marks, ..ChannelOptions::default() };
    let clients = Bootstrap::new(&setup.clients[rng.below(setup.clients.len())], Tcp);
    let Some(connection) = setup.connect_by(clients, setup.services.sink.clone(), options) else {
        return;
    };
    let (mut accepted, mut written, mut refused) = (Vec::new(), 0_u64, 0);
    while refused < 20 {
        let mut write = connection.channel.write_and_flush(Bytes::from_static(&[7; BLOCK]));
        // A write that the loop is just taking from its queue may be counted by neither side for a moment.
        let pending = connection.channel.pending_bytes();
        assert!(pending <= CAP + BLOCK, "{pending} bytes are pending");
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
        // The loop may still have refused a write that was queued for it.
        written += u64::from(get(write).is_ok());
    }
    drop(connection.channel.shutdown_output());
    let (count, end) = connection.receive(usize::MAX);
    assert_eq!(end, ConnectionEnd::Finished);
    assert_eq!(
        count,
        (written * BLOCK as u64).to_be_bytes(),
        "number of bytes that the server read"
    );
    connection.close();
}

/// The server closes a connection whose peer never reads; the pending bytes stay bounded until then.
pub(crate) fn never_read(setup: &SoakSetup, _: &mut SeededRng) {
    let _can_open = setup.with_descriptors();
    let flood_closed = setup.services.flood_closed.lock().unwrap_or_else(PoisonError::into_inner);
    let Address::Ip(address) = &setup.services.flood else { panic!("not bound to an IP address") };
    let mut client =
        TcpStream::connect_timeout(address, WAIT_LIMIT).expect("the connection is made");
    client.set_read_timeout(Some(WAIT_LIMIT)).expect("the timeout is set");
    flood_closed.recv_timeout(WAIT_LIMIT).expect("the server closes the connection");
    // The bytes in the kernel's buffers still arrive, then the end of the stream.
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).expect("the stream ends");
    assert!(!rest.is_empty() && rest.iter().all(|byte| *byte == 7));
}
