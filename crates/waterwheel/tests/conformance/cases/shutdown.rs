//! Loops that end in the middle of traffic (L10, L11).

use std::time::Duration;

use bytes::Bytes;
use waterwheel::channel::{
    Channel, ChannelOptions, Ctx, DrainOptions, Drained, Handler, HandlerResult,
};

use crate::cell::Cell;
use crate::random::SeededRng;
use crate::test_bed::{Echo, TestBed, WAIT_LIMIT, end, get, until};

const CONNECTIONS: usize = 50;

/// Two groups, and connections between them on which something goes to and fro for ever.
struct Traffic<'c> {
    servers: TestBed<'c>,
    clients: TestBed<'c>,
    channels: Vec<Channel>,
}

impl<'c> Traffic<'c> {
    fn begin(cell: &'c Cell) -> Self {
        let (servers, clients) = (TestBed::new(cell, 2), TestBed::new(cell, 2));
        let server =
            servers.serve(ChannelOptions::default(), |edit| edit.add_last("echo", Echo).map(drop));
        let client = cell
            .client(&clients.group)
            .initialiser(|edit| Ok(edit.add_last("echo", Echo).map(drop)?));
        let mut channels = Vec::new();
        for _ in 0..CONNECTIONS {
            let channel = get(client.connect(server.local_address().unwrap())).unwrap();
            channel.send(Bytes::from_static(&[7; 1000]));
            channels.push(channel);
        }
        let traffic = Self { servers, clients, channels };
        let before = traffic.bytes();
        until("it flows", || traffic.bytes() > before + 100_000);
        traffic
    }

    fn bytes(&self) -> u64 {
        self.clients.group.children().map(|at| at.metrics().bytes_read).sum()
    }

    fn assert_all_closed(&self) {
        for channel in &self.channels {
            channel.closed().wait_timeout(WAIT_LIMIT).expect("it is closed");
            assert!(!channel.is_open() && !channel.is_active());
            let late = get(channel.write_and_flush(Bytes::from_static(b"late"))).unwrap_err();
            assert!(late.to_string().starts_with("the channel is closed"), "{late}");
        }
    }
}

pub(crate) fn l10_a_shutdown_of_servers_in_the_middle_of_traffic_closes_everything(cell: &Cell) {
    let traffic = Traffic::begin(cell);
    end(&traffic.servers.group).wait_timeout(WAIT_LIMIT).expect("the servers end");
    traffic.assert_all_closed();
    until("nothing is left", || traffic.clients.channels() == 0);
}

pub(crate) fn l10_a_shutdown_of_clients_in_the_middle_of_traffic_closes_everything(cell: &Cell) {
    let traffic = Traffic::begin(cell);
    end(&traffic.clients.group).wait_timeout(WAIT_LIMIT).expect("the clients end");
    traffic.assert_all_closed();
    until("only the server is left", || traffic.servers.channels() == 1);
}

/// Sends all it has.
struct Push(Vec<Bytes>);

impl Handler for Push {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.drain(..).for_each(|piece| ctx.write(piece));
        ctx.flush();
        Ok(())
    }
}

/// Much waits to be sent to peers that do not read yet: a drain waits for it, and lets nobody else in.
pub(crate) fn l11_a_drain_in_the_middle_of_traffic_sends_what_waits(cell: &Cell) {
    let (servers, clients) = (TestBed::new(cell, 2), TestBed::new(cell, 2));
    let mut dice = SeededRng::new();
    let data = dice.bytes(8 << 20);
    let pieces = dice.cut(data.clone(), 60_000);
    let server = servers.serve(ChannelOptions::default(), move |edit| {
        edit.add_last("push", Push(pieces.clone())).map(drop)
    });
    let address = server.local_address().unwrap();
    let deaf = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    let mut lines: Vec<_> = (0..4).map(|_| clients.client_with(&server, deaf)).collect();
    until("all are accepted", || servers.channels() == 1 + lines.len());
    let options = DrainOptions::within(WAIT_LIMIT).shutdown(Duration::ZERO, WAIT_LIMIT).unwrap();
    let drained = servers.group.drain(options);
    until("it drains", || servers.group.is_draining());
    server.closed().wait_timeout(WAIT_LIMIT).expect("nobody listens any more");
    get(cell.client(&clients.group).connect(address)).expect_err("nobody is let in any more");
    assert!(!drained.is_done(), "it waits");
    // They are closed when none of them has anything left.
    lines.iter().for_each(|(client, _)| client.set_auto_read(true));
    for (_, ear) in &mut lines {
        assert!(ear.rest() == data, "what was read is not what was sent");
    }
    assert_eq!(drained.join().unwrap(), Drained::Complete);
    servers.group.termination().wait_timeout(WAIT_LIMIT).expect("and then the loops end");
}
