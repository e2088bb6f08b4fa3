//! Loops that are shut down or drained during traffic (L10, L11).

use std::time::Duration;

use bytes::Bytes;
use waterwheel::channel::{
    Channel, ChannelOptions, Ctx, DrainOptions, Drained, Handler, HandlerResult,
};

use crate::cell::Cell;
use crate::random::SeededRng;
use crate::test_bed::{Echo, TestBed, WAIT_LIMIT, get, shut_down, wait_until};

const CONNECTIONS: usize = 50;

/// Two groups, and connections between them on which both ends echo, so that traffic never ends.
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
        wait_until("data flows", || traffic.bytes() > before + 100_000);
        traffic
    }

    fn bytes(&self) -> u64 {
        self.clients.group.children().map(|at| at.metrics().bytes_read).sum()
    }

    fn assert_all_closed(&self) {
        for channel in &self.channels {
            channel.closed().wait_timeout(WAIT_LIMIT).expect("the channel is closed");
            assert!(!channel.is_open() && !channel.is_active());
            let late = get(channel.write_and_flush(Bytes::from_static(b"late"))).unwrap_err();
            assert!(late.to_string().starts_with("the channel is closed"), "{late}");
        }
    }
}

pub(crate) fn l10_shutting_down_servers_during_traffic_closes_everything(cell: &Cell) {
    let traffic = Traffic::begin(cell);
    shut_down(&traffic.servers.group).wait_timeout(WAIT_LIMIT).expect("the servers end");
    traffic.assert_all_closed();
    wait_until("no channel is left", || traffic.clients.channels() == 0);
}

pub(crate) fn l10_shutting_down_clients_during_traffic_closes_everything(cell: &Cell) {
    let traffic = Traffic::begin(cell);
    shut_down(&traffic.clients.group).wait_timeout(WAIT_LIMIT).expect("the clients end");
    traffic.assert_all_closed();
    wait_until("only the server is left", || traffic.servers.channels() == 1);
}

/// Sends its pieces when the channel becomes active.
struct SendOnActive(Vec<Bytes>);

impl Handler for SendOnActive {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.drain(..).for_each(|piece| ctx.write(piece));
        ctx.flush();
        Ok(())
    }
}

/// Many bytes are pending for peers that do not read yet: the drain waits for them, and accepts no new connections.
pub(crate) fn l11_a_drain_during_traffic_sends_all_pending_bytes(cell: &Cell) {
    let (servers, clients) = (TestBed::new(cell, 2), TestBed::new(cell, 2));
    let mut rng = SeededRng::new();
    let data = rng.bytes(8 << 20);
    let pieces = rng.cut(data.clone(), 60_000);
    let server = servers.serve(ChannelOptions::default(), move |edit| {
        edit.add_last("send", SendOnActive(pieces.clone())).map(drop)
    });
    let address = server.local_address().unwrap();
    let without_auto_read = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    let mut connections: Vec<_> =
        (0..4).map(|_| clients.client_with(&server, without_auto_read)).collect();
    wait_until("all are accepted", || servers.channels() == 1 + connections.len());
    let options = DrainOptions::within(WAIT_LIMIT).shutdown(Duration::ZERO, WAIT_LIMIT).unwrap();
    let drained = servers.group.drain(options);
    wait_until("the group drains", || servers.group.is_draining());
    server.closed().wait_timeout(WAIT_LIMIT).expect("the server is closed");
    get(cell.client(&clients.group).connect(address))
        .expect_err("a draining group accepts no connection");
    assert!(!drained.is_done(), "the drain waits for pending bytes");
    // The channels are closed when none of them has pending bytes.
    connections.iter().for_each(|(client, _)| client.set_auto_read(true));
    for (_, events) in &mut connections {
        assert!(events.rest() == data, "the bytes read differ from the bytes sent");
    }
    assert_eq!(drained.join().unwrap(), Drained::Complete);
    servers.group.termination().wait_timeout(WAIT_LIMIT).expect("the loops end after the drain");
}
