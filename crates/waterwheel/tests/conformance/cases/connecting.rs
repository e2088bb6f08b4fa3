//! Connects that do not succeed (C12).

use std::time::Duration;

use waterwheel::channel::driver::SocketOption;
use waterwheel::channel::{Bootstrap, Channel, ChannelOptions, LoopMetrics};

use crate::cell::Cell;
use crate::test_bed::{TestBed, get, wait_until};

pub(crate) fn c12_a_refused_connect_fails_and_leaves_nothing_behind(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    for _ in 0..20 {
        let refused = cell.client(&test_bed.group).connect(cell.refusing_address());
        let error = get(refused).unwrap_err().to_string();
        let is_refused = ["refused", "nobody listens"].iter().any(|what| error.contains(what));
        assert!(is_refused, "{error}");
    }
    wait_until("the channels are closed", || test_bed.channels() == 0);
}

/// Binds a server that does not accept, and fills its backlog: the next connect stays pending. Returns the server and
/// the connected clients.
fn server_with_full_backlog(
    test_bed: &TestBed<'_>,
    clients: &Bootstrap,
) -> (Channel, Vec<Channel>) {
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
        // On the loopback a connect succeeds at once while the backlog has room.
        if attempt.wait_timeout(Duration::from_millis(500)).is_err() {
            attempt.cancel();
            return (server, waiting);
        }
        waiting.push(get(attempt).unwrap());
        assert!(waiting.len() < 100, "the backlog does not fill");
    }
}

pub(crate) fn c12_a_connect_fails_after_its_timeout(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let clients = cell.client(&test_bed.group);
    let (server, waiting) = server_with_full_backlog(&test_bed, &clients);
    wait_until("the cancelled connect is closed", || test_bed.channels() == 1 + waiting.len());
    let timeout = Duration::from_millis(200);
    let options = ChannelOptions { connect_timeout: Some(timeout), ..ChannelOptions::default() };
    let attempt = clients.options(options).connect(server.local_address().unwrap());
    wait_until("the connect is under way", || test_bed.channels() == 2 + waiting.len());
    cell.advance_clock(timeout);
    let error = get(attempt).unwrap_err().to_string();
    let expected = format!("connect to {} timed out after ", server.local_address().unwrap());
    assert!(error.starts_with(&expected), "{error}");
    wait_until("the channel is closed", || test_bed.channels() == 1 + waiting.len());
}

pub(crate) fn c12_a_cancelled_connect_leaves_nothing_behind(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let clients = cell.client(&test_bed.group);
    let (server, waiting) = server_with_full_backlog(&test_bed, &clients);
    wait_until("the cancelled connect is closed", || test_bed.channels() == 1 + waiting.len());
    for _ in 0..20 {
        let attempt = clients.connect(server.local_address().unwrap());
        wait_until("the connect is under way", || test_bed.channels() == 2 + waiting.len());
        assert!(attempt.cancel(), "the connect is still pending");
        wait_until("the channel is closed", || test_bed.channels() == 1 + waiting.len());
    }
    let sum = |of: fn(LoopMetrics) -> usize| -> usize {
        test_bed.group.children().map(|at| of(at.metrics())).sum()
    };
    wait_until("the sockets are deregistered", || sum(|it| it.registrations) <= 1 + waiting.len());
    wait_until("the connect timers are cancelled", || 0 == sum(|it| it.timers));
}
