//! A client of ours, by its async face, at servers that others wrote.

use std::process::Command;

use waterwheel::bytes::Bytes;
use waterwheel::channel::Bootstrap;
use waterwheel::executor::Error;
use waterwheel::http::Client;
use waterwheel::net::Tcp;
use waterwheel::websocket::{
    CloseCode, CloseOutcome, CloseReason, DeflateOptions, MessagePart, PartData, WebSocket,
    WebSocketConnector, WebSocketMessage, WebSocketOptions,
};

use crate::peer_program::PeerProgram;
use crate::peers::{netty_peer, node_peer, python_peer};
use crate::support::one_loop;

/// Talks to a server without compression, with it, and with compressors that keep their context.
fn visit_server(peer: impl Fn() -> Option<Command>) {
    let Some(mut command) = peer() else { return };
    let mut server = PeerProgram::start(command.arg("server"));
    let url = format!("ws://127.0.0.1:{}/", server.wait_for_line("listening on "));
    let (off, on) = (WebSocketOptions::builder(), WebSocketOptions::builder());
    let keeping = DeflateOptions::builder().context_takeover(true).peer_context_takeover(true);
    for options in
        [off, on.clone().deflate(DeflateOptions::default()), on.deflate(keeping.build().unwrap())]
    {
        let options = options.pass_control(true).build().unwrap();
        let group = one_loop();
        let client = Client::builder(Bootstrap::new(&group, Tcp)).build().unwrap();
        let connector = WebSocketConnector::new(client).options(options);
        let url = url.clone();
        let visit = group.spawn_with(move || async move { visit(&connector, &url).await });
        visit.unwrap().join().unwrap().unwrap();
        server.wait_for("closed");
        server.wait_for("closed");
    }
    server.kill();
}

/// Talks over one connection and closes it, then has the server close another one.
async fn visit(connector: &WebSocketConnector, url: &str) -> Result<(), Error> {
    let mut socket = connector.request(url).subprotocol("v2").connect().await?;
    talk(&mut socket).await?;
    let reason = CloseReason::new(CloseCode::new(4001).unwrap(), "good bye");
    let CloseOutcome::Received(Some(answer)) = socket.close(reason.clone()).await else {
        panic!("the server does not answer the Close");
    };
    assert_eq!(answer.code(), reason.code());

    let mut socket = connector.request(url).subprotocol("v2").connect().await?;
    socket.send("close 4002 enough").await?;
    assert!(socket.next().await.is_none());
    let reason = CloseReason::new(CloseCode::new(4002).unwrap(), "enough");
    assert_eq!(socket.outcome(), Some(&CloseOutcome::Received(Some(reason))));
    Ok(())
}

async fn talk(socket: &mut WebSocket) -> Result<(), Error> {
    let all = Bytes::from_iter(0..=255);
    for message in [
        WebSocketMessage::text("Grüße, 漢字 😀"),
        WebSocketMessage::text(""),
        WebSocketMessage::binary(all.repeat(4)),
        WebSocketMessage::binary(all),
        WebSocketMessage::text("ä".repeat(1 << 19)),
        WebSocketMessage::binary(vec![7; 1 << 20]),
    ] {
        socket.send(message.clone()).await?;
        assert!(next(socket).await? == message, "{} bytes", message_len(&message));
    }
    for (text, is_last) in [("in ", false), ("three ", false), ("fragments", true)] {
        let data = PartData::Text(text.into());
        socket.send(WebSocketMessage::Part(MessagePart { data, is_last })).await?;
    }
    assert_eq!(next(socket).await?, WebSocketMessage::text("in three fragments"));
    socket.send("fragments").await?;
    assert_eq!(next(socket).await?, WebSocketMessage::text("one zwöi 三"));
    socket.send(WebSocketMessage::Ping("payload".into())).await?;
    assert_eq!(next(socket).await?, WebSocketMessage::Pong("payload".into()));
    socket.send("ping").await?;
    assert_eq!(next(socket).await?, WebSocketMessage::Ping("are you there".into()));
    assert_eq!(next(socket).await?, WebSocketMessage::text("pong"), "it was answered");
    Ok(())
}

async fn next(socket: &mut WebSocket) -> Result<WebSocketMessage, Error> {
    socket.next().await.expect("the connection is open")
}

fn message_len(message: &WebSocketMessage) -> usize {
    match message {
        WebSocketMessage::Text(text) => text.len(),
        WebSocketMessage::Binary(bytes) => bytes.len(),
        _ => 0,
    }
}

#[test]
fn w08_a_server_of_python_websockets() {
    visit_server(python_peer);
}

#[test]
fn w08_a_server_of_node_ws() {
    visit_server(node_peer);
}

#[test]
fn w08_a_netty_server() {
    visit_server(netty_peer);
}
