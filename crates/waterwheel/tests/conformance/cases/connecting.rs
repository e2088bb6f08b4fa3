//! Connects that do not succeed (C12).

use std::time::Duration;

use waterwheel::channel::driver::SocketOption;
use waterwheel::channel::{Bootstrap, Channel, ChannelOptions, LoopMetrics};

use crate::cell::Cell;
use crate::test_bed::{TestBed, get, until};

pub(crate) fn c12_a_refused_connect_fails_and_leaves_nothing(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    for _ in 0..20 {
        let refused = cell.client(&test_bed.group).connect(cell.refusing_address());
        let error = get(refused).unwrap_err().to_string();
        let said = ["refused", "nobody listens"].iter().any(|what| error.contains(what));
        assert!(said, "{error}");
    }
    until("the channels are gone", || test_bed.channels() == 0);
}

/// A server that accepts nobody, with as many connections in its backlog as it has room for: the next
/// connect is left waiting. The clients that got in come with it.
fn full_server(test_bed: &TestBed<'_>, clients: &Bootstrap) -> (Channel, Vec<Channel>) {
    let server = test_bed
        .cell
        .server(&test_bed.group)
        .socket_option(SocketOption::Backlog(1))
        .options(ChannelOptions { auto_read: false, ..ChannelOptions::default() })
        .bind(test_bed.cell.unused_address());
    let server = get(server).unwrap();
    let mut waiting = Vec::new();
    loop {
        let attempt = clients.connect(server.local_address().unwrap());
        // The kernel's loopback answers at once if there is room.
        if attempt.wait_timeout(Duration::from_millis(500)).is_err() {
            attempt.cancel();
            return (server, waiting);
        }
        waiting.push(get(attempt).unwrap());
        assert!(waiting.len() < 100, "a backlog without an end");
    }
}

pub(crate) fn c12_a_connect_that_takes_too_long_is_given_up(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let patient = cell.client(&test_bed.group);
    let (server, waiting) = full_server(&test_bed, &patient);
    until("the cancelled one is gone", || test_bed.channels() == 1 + waiting.len());
    let timeout = Duration::from_millis(200);
    let options = ChannelOptions { connect_timeout: Some(timeout), ..ChannelOptions::default() };
    let attempt = patient.options(options).connect(server.local_address().unwrap());
    until("it is under way", || test_bed.channels() == 2 + waiting.len());
    cell.pass(timeout);
    let error = get(attempt).unwrap_err().to_string();
    let expected = format!("connect to {} timed out after ", server.local_address().unwrap());
    assert!(error.starts_with(&expected), "{error}");
    until("the channel is gone", || test_bed.channels() == 1 + waiting.len());
}

pub(crate) fn c12_a_cancelled_connect_leaves_nothing(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let clients = cell.client(&test_bed.group);
    let (server, waiting) = full_server(&test_bed, &clients);
    until("the cancelled one is gone", || test_bed.channels() == 1 + waiting.len());
    for _ in 0..20 {
        let attempt = clients.connect(server.local_address().unwrap());
        until("it is under way", || test_bed.channels() == 2 + waiting.len());
        assert!(attempt.cancel(), "nobody has answered");
        until("the channel is gone", || test_bed.channels() == 1 + waiting.len());
    }
    let sum = |of: fn(LoopMetrics) -> usize| -> usize {
        test_bed.group.children().map(|at| of(at.metrics())).sum()
    };
    until("the sockets are gone", || sum(|it| it.registrations) <= 1 + waiting.len());
    until("nobody waits for those any more", || 0 == sum(|it| it.timers));
}
