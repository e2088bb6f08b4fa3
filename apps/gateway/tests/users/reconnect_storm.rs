//! Two thousand clients that lose their connections at the same time, more than once, while publications go on.

use std::time::Duration;

use serde_json::{Value, json};
use waterwheel::channel::{Bootstrap, EventLoopGroup, interval};
use waterwheel::http::Client;
use waterwheel::net::{Auto, Tcp};
use waterwheel::websocket::{WebSocket, WebSocketConnector, WebSocketMessage};

use crate::gateway::Gateway;
use crate::tools::LIMIT;

const CLIENTS: usize = 2_000;

/// Publications, counted from 0.
const PUBLICATIONS: u64 = 80;

/// At these publications every client drops its connection and comes back.
const STORMS: [u64; 2] = [20, 50];

/// A client that subscribes, and resumes behind what it has seen.
struct StormClient {
    connector: WebSocketConnector,
    url: String,
    position: Option<String>,
    seen: u64,
}

impl StormClient {
    /// Reads all publications, each once and in their order, through all storms.
    async fn read_all(mut self) {
        let mut socket = self.subscribe().await;
        while self.seen < PUBLICATIONS {
            let push = next(&mut socket).await;
            assert_eq!((&push["push"], &push["data"]), (&json!("message"), &json!(self.seen)));
            self.position = push["position"].as_str().map(str::to_owned);
            let is_storm = STORMS.contains(&self.seen);
            self.seen += 1;
            if is_storm {
                // Without a Close, as a network that fails.
                drop(socket);
                socket = self.subscribe().await;
            }
        }
    }

    async fn subscribe(&mut self) -> WebSocket {
        let request = self.connector.request(&self.url).timeout(LIMIT);
        let mut socket = request.connect().await.expect("a connection");
        let since = self.position.as_deref();
        let command = json!({"id": 1, "subscribe": {"topic": "storm", "since": since}});
        socket.send(command.to_string()).await.unwrap();
        let answer = next(&mut socket).await;
        assert_eq!(answer["ok"]["gap"], false, "{answer}");
        socket
    }
}

async fn next(socket: &mut WebSocket) -> Value {
    match socket.next().await {
        Some(Ok(WebSocketMessage::Text(text))) => serde_json::from_str(&text).unwrap(),
        other => panic!("a text, not {other:?}"),
    }
}

/// Publishes numbers, slowly enough that some come while the clients are away.
async fn publish(connector: WebSocketConnector, url: String) {
    let mut socket = connector.connect(url).await.unwrap();
    let mut ticks = interval(Duration::from_millis(25));
    for number in 0..PUBLICATIONS {
        ticks.tick().await;
        let command = json!({"id": number, "publish": {"topic": "storm", "data": number}});
        socket.send(command.to_string()).await.unwrap();
        let answer = next(&mut socket).await;
        assert!(answer["ok"]["position"].is_string(), "{answer}");
    }
}

#[test]
fn g02_two_thousand_clients_that_reconnect_at_once_lose_nothing_and_get_nothing_twice() {
    let gateway = Gateway::start(&[]);
    let group = EventLoopGroup::builder(Auto).threads(2).build().unwrap();
    let client = Client::builder(Bootstrap::new(&group, Tcp)).build().unwrap();
    let connector = WebSocketConnector::new(client);
    let url = gateway.websocket_url();
    let start = |_| {
        let (connector, url) = (connector.clone(), url.clone());
        let client = StormClient { connector, url, position: None, seen: 0 };
        group.next().spawn_with(move || client.read_all()).unwrap()
    };
    let clients: Vec<_> = (0..CLIENTS).map(start).collect();
    let present = || gateway.curl("/api/presence?topic=storm", &[])["count"].as_u64();
    crate::tools::wait_until("all have subscribed", || present() == Some(CLIENTS as u64));
    let publisher = group.next().spawn_with(move || publish(connector, url)).unwrap();
    publisher.join().expect("all were published");
    for client in clients {
        client.join().expect("a client that has seen everything once");
    }
    group.shutdown_gracefully(Duration::ZERO, LIMIT).unwrap().join().unwrap();
    // The storms have happened, and the history has helped.
    let metrics = gateway.curl_text("/metrics", &[]);
    let figure = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name}")).trim().parse::<f64>().unwrap()
    };
    let opened = figure("waterwheel_clients_opened_total{protocol=\"websocket\"}");
    assert_eq!(opened, (CLIENTS * (1 + STORMS.len()) + 1) as f64);
    assert!(figure("waterwheel_recovered_publications_total") > 0.0);
    assert_eq!(figure("waterwheel_gaps_total"), 0.0);
}
