//! Responses that end HTTP.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use http::{Method, Response};
use waterwheel_async::AsyncChannel;
use waterwheel_channel::{Ctx, Edit, Handler, HandlerResult, Msg};
use waterwheel_executor::Error;
use waterwheel_http::{ClientError, Incoming, into_upgraded, upgrade_connection};
use waterwheel_testkit::manual::Peer;

use crate::support::{Bench, OK_HELLO, URL};

const SWITCHED: &str =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n";

/// Sends a request for another protocol, and answers it.
fn switched(bench: &mut Bench, answer: &str) -> (Peer, Response<Incoming>) {
    let call = bench.start(|client| async move {
        client.request(Method::GET, URL).header("upgrade", "echo").send().await
    });
    let peer = bench.accept();
    assert!(bench.received(&peer).ends_with("upgrade: echo\r\nconnection: upgrade\r\n\r\n"));
    bench.send(&peer, answer);
    let response = call.take().unwrap();
    (peer, response)
}

fn take_over(bench: &mut Bench, response: Response<Incoming>) -> AsyncChannel<bytes::Bytes> {
    let taken = bench.event_loop.on_loop(|_| into_upgraded(response)).unwrap().unwrap();
    bench.run();
    taken
}

/// Reads until a message ends with a full stop.
fn read_sentence(
    bench: &mut Bench,
    mut channel: AsyncChannel<bytes::Bytes>,
) -> (String, AsyncChannel<bytes::Bytes>) {
    let read = bench.start(|_| async move {
        let mut text = Vec::new();
        while !text.ends_with(b".") {
            text.extend_from_slice(&channel.next().await.unwrap().unwrap());
        }
        (String::from_utf8(text).unwrap(), channel)
    });
    read.take()
}

#[test]
fn h11_a_switched_connection_is_taken_over_with_what_was_read() {
    for late in [false, true] {
        let mut bench = Bench::new();
        let (peer, response) = switched(&mut bench, &format!("{SWITCHED}first, "));
        assert_eq!(response.status(), 101);
        bench.send(&peer, "second, ");
        let mut channel = take_over(&mut bench, response);
        if !late {
            bench.send(&peer, "third.");
        } else {
            peer.send("third.");
        }
        let (text, kept) = read_sentence(&mut bench, channel);
        assert_eq!(text, "first, second, third.");
        channel = kept;
        let sent = bench.start(|_| async move {
            channel.send("answer".into()).await.unwrap();
            channel
        });
        assert_eq!(bench.received(&peer), "answer");
        // The pool does not know the connection any more.
        let call = bench.get_text(URL);
        let second = bench.accept();
        bench.send(&second, OK_HELLO);
        assert_eq!(call.take().unwrap(), "hello");
        let channel = sent.take();
        assert!(!peer.is_closed());
        bench.drop_on_loop(channel);
        assert!(peer.is_closed());
        bench.assert_nothing_left();
    }
}

#[test]
fn h11_a_switched_connection_is_taken_over_by_handlers_with_what_was_read() {
    let mut bench = Bench::new();
    let (peer, response) = switched(&mut bench, &format!("{SWITCHED}first, "));
    let (recorder, log) = Recorder::new();
    let channel = bench
        .event_loop
        .on_loop(|_| {
            upgrade_connection(response, |edit| {
                edit.add_last("recorder", recorder)?;
                Ok(edit.channel())
            })
        })
        .unwrap()
        .unwrap();
    bench.run();
    bench.send(&peer, "second.");
    assert_eq!(log.take(), ["active", "first, ", "complete", "second.", "complete"]);
    drop(channel.write_and_flush(Bytes::from_static(b"answer")));
    bench.run();
    assert_eq!(bench.received(&peer), "answer");
    drop(channel.close());
    bench.run();
    assert!(peer.is_closed());
    bench.assert_nothing_left();
}

#[test]
fn h11_the_error_of_an_initialiser_closes_the_connection_and_is_told() {
    let mut bench = Bench::new();
    let (peer, response) = switched(&mut bench, SWITCHED);
    let refused = |_: &mut Edit<'_>| Err::<(), _>(Error::new("no handlers today"));
    let error =
        bench.event_loop.on_loop(|_| upgrade_connection(response, refused).unwrap_err()).unwrap();
    assert!(matches!(error, ClientError::Upgrade { .. }), "{error}");
    assert!(error.to_string().ends_with("no handlers today"), "{error}");
    bench.run();
    assert!(peer.is_closed());
    bench.assert_nothing_left();
}

/// Notes what it sees of a channel.
struct Recorder(Rc<RefCell<Vec<String>>>);

impl Recorder {
    fn new() -> (Self, Rc<RefCell<Vec<String>>>) {
        let log = Rc::new(RefCell::new(Vec::new()));
        (Self(log.clone()), log)
    }
}

impl Handler for Recorder {
    fn on_active(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.0.borrow_mut().push("active".into());
        Ok(())
    }

    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let bytes = msg.into_bytes().unwrap();
        self.0.borrow_mut().push(String::from_utf8_lossy(&bytes).into_owned());
        Ok(())
    }

    fn on_read_complete(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.0.borrow_mut().push("complete".into());
        Ok(())
    }
}

#[test]
fn h11_a_connection_is_closed_with_an_upgrade_that_is_dropped() {
    let mut bench = Bench::new();
    let (peer, response) = switched(&mut bench, SWITCHED);
    assert!(!peer.is_closed());
    bench.drop_on_loop(response);
    assert!(peer.is_closed());
    bench.assert_nothing_left();
}

#[test]
fn h11_a_server_may_decline_an_upgrade() {
    let mut bench = Bench::new();
    let (peer, response) = switched(&mut bench, OK_HELLO);
    let error = bench.event_loop.on_loop(|_| into_upgraded(response).unwrap_err()).unwrap();
    assert!(matches!(error, ClientError::NotUpgraded { status } if status == 200), "{error}");
    bench.run();
    assert!(!peer.is_closed());
    bench.assert_nothing_left();
}

#[test]
fn h11_a_connection_that_ends_before_it_is_taken_over_is_an_error() {
    let mut bench = Bench::new();
    let (peer, response) = switched(&mut bench, SWITCHED);
    bench.reset(&peer);
    let error = bench.event_loop.on_loop(|_| into_upgraded(response).unwrap_err()).unwrap();
    assert!(matches!(error, ClientError::NotUpgraded { .. }), "{error}");
    bench.assert_nothing_left();
}

#[test]
fn h11_the_end_of_an_upgraded_peer_is_seen_after_its_data() {
    let mut bench = Bench::new();
    let (peer, response) = switched(&mut bench, SWITCHED);
    bench.send(&peer, "last words.");
    bench.finish(&peer);
    let channel = take_over(&mut bench, response);
    let (text, mut channel) = read_sentence(&mut bench, channel);
    assert_eq!(text, "last words.");
    let end = bench.start(|_| async move { channel.next().await.is_none() });
    assert!(end.take());
    bench.assert_nothing_left();
}

#[test]
fn h11_a_successful_connect_ends_http() {
    let mut bench = Bench::new();
    let call = bench.start(|client| async move {
        client.request(Method::CONNECT, "192.0.2.1:80").send().await
    });
    let peer = bench.accept();
    // A length means nothing here.
    bench.send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello.");
    let channel = take_over(&mut bench, call.take().unwrap());
    let (text, channel) = read_sentence(&mut bench, channel);
    assert_eq!(text, "hello.");
    bench.drop_on_loop(channel);
    bench.assert_nothing_left();

    let mut bench = Bench::new();
    let call = bench.start(|client| async move {
        client.request(Method::CONNECT, "192.0.2.1:80").send().await
    });
    let peer = bench.accept();
    bench.send(&peer, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(call.take().unwrap().status(), 403);
    assert!(!peer.is_closed());
    bench.assert_nothing_left();
}

#[test]
fn h11_the_body_of_a_response_outlives_an_upgrade_that_is_taken_off_its_loop() {
    let mut bench = Bench::new();
    let (peer, response) = switched(&mut bench, SWITCHED);
    // Outside of the loop.
    assert!(matches!(into_upgraded(response).unwrap_err(), ClientError::NoLoop));
    bench.run();
    assert!(peer.is_closed());
    bench.assert_nothing_left();
}

#[test]
fn h11_each_direction_of_an_upgraded_connection_ends_on_its_own() {
    for is_late in [false, true] {
        let mut bench = Bench::new();
        let call = bench.start(|client| async move {
            client.request(Method::GET, URL).header("upgrade", "echo").send().await
        });
        let peer = bench.accept();
        peer.send(format!("{SWITCHED}last words."));
        if !is_late {
            peer.finish();
        }
        bench.run();
        peer.take_received();
        let channel = take_over(&mut bench, call.take().unwrap());
        if is_late {
            peer.finish();
            bench.run();
        }
        let (text, mut channel) = read_sentence(&mut bench, channel);
        assert_eq!(text, "last words.");
        let sent = bench.start(|_| async move {
            assert!(channel.next().await.is_none());
            channel.send("answer".into()).await.unwrap();
            channel
        });
        assert_eq!(bench.received(&peer), "answer", "sent after the peer has finished");
        assert!(!peer.is_closed());
        let channel = sent.take();
        bench.drop_on_loop(channel);
        assert!(peer.is_closed());
        bench.assert_nothing_left();
    }
}

#[test]
fn h11_a_declined_upgrade_does_not_take_over_the_connection_of_a_later_one() {
    let mut bench = Bench::new();
    let (peer, declined) = switched(&mut bench, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let call = bench.start(|client| async move {
        client.request(Method::GET, URL).header("upgrade", "echo").send().await
    });
    assert!(bench.received(&peer).starts_with("GET / "), "the connection is used again");
    bench.send(&peer, SWITCHED);
    let switched = call.take().unwrap();
    let taken = bench.event_loop.on_loop(|_| into_upgraded(declined)).unwrap();
    assert!(matches!(taken, Err(ClientError::NotUpgraded { .. })), "{taken:?}");
    let channel = take_over(&mut bench, switched);
    assert!(!peer.is_closed());
    bench.drop_on_loop(channel);
    bench.assert_nothing_left();
}
