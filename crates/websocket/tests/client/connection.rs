//! A client's side of a connection.

use waterwheel_websocket::{CloseCode, WebSocketMessage, WebSocketOptions};

use crate::support::client_bench::ClientBench;
use crate::support::frames::{close_payload, frame};
use crate::support::loop_bench::SECOND;
use crate::support::script::Script;

#[test]
fn w02_a_client_masks_what_it_sends_each_frame_with_another_mask() {
    let mut bench = ClientBench::new(&WebSocketOptions::default());
    let script = Script::echo();
    let (peer, _) = bench.open_with(&script);
    peer.send([frame(0x81, b"same", false), frame(0x81, b"same", false)].concat());
    bench.run();
    let bytes = peer.take_received();
    assert_eq!((bytes.len(), &bytes[..2]), (20, &[0x81, 0x84][..]));
    assert_ne!(bytes[2..6], bytes[12..16], "two masks are the same by chance once in 2^32");
    for frame in [&bytes[..10], &bytes[10..]] {
        let text: Vec<_> = (0..4).map(|at| frame[2 + at] ^ frame[6 + at]).collect();
        assert_eq!(text, b"same");
    }
}

#[test]
fn w05_a_client_answers_a_close_and_waits_for_the_end() {
    let mut bench = ClientBench::new(&WebSocketOptions::default());
    let script = Script::silent();
    let (peer, channel) = bench.open_with(&script);
    bench.send(&peer, 0x88, close_payload(1001, "restart"));
    assert_eq!(bench.received(&peer), ["close 1001"]);
    assert_eq!(script.calls(), ["open", "closed: received 1001 \"restart\""]);
    assert!(!peer.is_closed());
    peer.finish();
    bench.run();
    assert!(peer.is_closed() && !channel.is_open());
    drop(channel);
    bench.assert_nothing_left();
}

#[test]
fn w05_a_client_that_closes_is_answered_or_gives_up() {
    for is_answered in [true, false] {
        let mut bench = ClientBench::new(&WebSocketOptions::default());
        let script = Script::new(|socket, line| {
            if line == "text go" {
                socket.close(CloseCode::NORMAL);
            }
            Ok(())
        });
        let (peer, channel) = bench.open_with(&script);
        bench.send(&peer, 0x81, b"go");
        assert_eq!(bench.received(&peer), ["close 1000"]);
        if is_answered {
            bench.send(&peer, 0x81, b"on its way");
            bench.send(&peer, 0x88, close_payload(1000, ""));
            peer.finish();
            bench.run();
            let calls = ["open", "text go", "text on its way", "closed: received 1000"];
            assert_eq!(script.calls(), calls);
        } else {
            bench.advance(5 * SECOND);
            assert_eq!(script.calls(), ["open", "text go", "closed: lost"]);
        }
        assert!(peer.is_closed());
        drop(channel);
        bench.assert_nothing_left();
    }
}

#[test]
fn w05_a_masked_frame_of_a_server_is_a_violation() {
    let mut bench = ClientBench::new(&WebSocketOptions::default());
    let script = Script::silent();
    let (peer, _) = bench.open_with(&script);
    bench.send_raw(&peer, frame(0x81, b"x", true));
    let received = bench.received(&peer);
    assert!(received.len() == 1 && received[0].starts_with("close 1002 "), "{received:?}");
    assert!(script.calls()[1].starts_with("closed: failed: "));
    assert!(peer.is_ended());
    peer.reset();
    bench.run();
    assert_eq!(bench.faults.take(), [""; 0]);
}

#[test]
fn r04_a_flood_of_pings_of_a_server_that_does_not_read_is_answered_by_the_last_pong() {
    let mut bench = ClientBench::new(&WebSocketOptions::default());
    let script = Script::silent();
    let (peer, channel) = bench.open_with(&script);
    peer.set_limit(0);
    let mut number = 0;
    for _ in 0..1_000 {
        let pings = (0..100).flat_map(|_| {
            number += 1;
            frame(0x89, format!("{number:0100}").as_bytes(), false)
        });
        let pings: Vec<_> = pings.collect();
        bench.send_raw(&peer, pings);
        let pending = channel.pending_bytes();
        assert!(pending <= 64 * 1024 + 32 * 1024, "{pending}");
    }
    assert_eq!(peer.unread(), 0, "a client reads all the same: its server may wait for that");
    peer.set_limit(usize::MAX);
    let pongs = bench.received(&peer);
    assert!(pongs.len() < 1_000, "{}", pongs.len());
    assert_eq!(pongs.last().unwrap(), &format!("pong {number:0100}"));
}

#[test]
fn w05_a_client_reads_while_its_server_does_not() {
    let mut bench = ClientBench::new(&WebSocketOptions::default());
    let script = Script::silent();
    let (peer, channel) = bench.open_with(&script);
    peer.set_limit(0);
    drop(channel.write_and_flush(WebSocketMessage::binary(vec![0; 100_000])));
    bench.send(&peer, 0x81, b"news");
    assert!(!channel.is_writable());
    assert_eq!(script.calls(), ["open", "text news"]);
}

#[test]
fn w05_a_client_pings_a_silent_server() {
    let mut bench = ClientBench::new(&WebSocketOptions::default());
    let script = Script::silent();
    let (peer, channel) = bench.open_with(&script);
    bench.advance(30 * SECOND);
    assert_eq!(bench.received(&peer), ["ping "]);
    bench.advance(20 * SECOND);
    assert_eq!(script.calls(), ["open", "closed: lost"]);
    drop(channel);
    bench.assert_nothing_left();
}
