//! Loops that end in the middle of traffic (L10).

use bytes::Bytes;
use waterwheel::channel::{Channel, ChannelOptions};

use crate::cell::Cell;
use crate::stage::{Echo, PATIENCE, Stage, end, get, until};

const CONNECTIONS: usize = 50;

/// Two groups, and connections between them on which something goes to and fro for ever.
struct Traffic<'c> {
    servers: Stage<'c>,
    clients: Stage<'c>,
    channels: Vec<Channel>,
}

impl<'c> Traffic<'c> {
    fn begin(cell: &'c dyn Cell) -> Self {
        let (servers, clients) = (Stage::new(cell, 2), Stage::new(cell, 2));
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
            channel.closed().wait_timeout(PATIENCE).expect("it is closed");
            assert!(!channel.is_open() && !channel.is_active());
            let late = get(channel.write_and_flush(Bytes::from_static(b"late"))).unwrap_err();
            assert!(late.to_string().starts_with("the channel is closed"), "{late}");
        }
    }
}

pub(crate) fn l10_a_shutdown_of_servers_in_the_middle_of_traffic_closes_everything(
    cell: &dyn Cell,
) {
    let traffic = Traffic::begin(cell);
    end(&traffic.servers.group).wait_timeout(PATIENCE).expect("the servers end");
    traffic.assert_all_closed();
    until("nothing is left", || traffic.clients.channels() == 0);
}

pub(crate) fn l10_a_shutdown_of_clients_in_the_middle_of_traffic_closes_everything(
    cell: &dyn Cell,
) {
    let traffic = Traffic::begin(cell);
    end(&traffic.clients.group).wait_timeout(PATIENCE).expect("the clients end");
    traffic.assert_all_closed();
    until("only the server is left", || traffic.servers.channels() == 1);
}
