//! Peers that do not read.

use waterwheel_channel::PauseReads;
use waterwheel_websocket::{WebSocketMessage, WebSocketOptions};

use crate::support::frames::{close_payload, frame};
use crate::support::script::Script;
use crate::support::server_bench::ServerBench;

const HIGH_MARK: usize = 64 * 1024;
const ONE_READ: usize = 64 * 1024;

/// Echoes each text ten times as long.
fn amplifier(pause: PauseReads) -> ServerBench {
    let script = Script::new(|socket, line| {
        if line.starts_with("text") {
            socket.send(WebSocketMessage::binary(vec![0; 1_000]))?;
        }
        Ok(())
    });
    ServerBench::with_bootstrap(&WebSocketOptions::default(), script, |bootstrap| {
        bootstrap.child_pause_reads_while_unwritable(pause)
    })
}

#[test]
fn w05_a_server_decodes_nothing_for_a_peer_that_does_not_read_and_loses_nothing() {
    for pause in [PauseReads::Always, PauseReads::Never] {
        let mut bench = amplifier(pause);
        bench.peer.set_limit(0);
        let round: Vec<_> = (0..500).flat_map(|_| frame(0x81, b"go", true)).collect();
        for _ in 0..20 {
            bench.send_raw(&round);
        }
        let pending = bench.channel().pending_bytes();
        assert!(pending <= HIGH_MARK + 16 * 1024 + 1_100, "{pause:?}: {pending}");
        assert!(!bench.channel().is_writable());
        let before = bench.calls().len();
        assert!(before < 100, "{pause:?}: {before} messages were decoded");
        bench.peer.set_limit(usize::MAX);
        let mut received = 0;
        for _ in 0..100 {
            received += bench.received().len();
        }
        assert_eq!(received, 10_000, "{pause:?}: nothing is lost");
    }
}

#[test]
fn w05_what_came_before_the_end_is_read_when_the_peer_reads_again() {
    let mut bench = amplifier(PauseReads::Always);
    bench.peer.set_limit(0);
    let mut round: Vec<_> = (0..200).flat_map(|_| frame(0x81, b"go", true)).collect();
    round.extend(frame(0x88, &close_payload(4001, ""), true));
    bench.peer.send(round);
    bench.finish();
    assert!(bench.calls().len() < 100);
    bench.peer.set_limit(usize::MAX);
    let received = bench.received();
    assert_eq!(received.len(), 201);
    assert_eq!(received[200], "close 4001");
    let calls = bench.calls();
    assert!(calls.contains(&"closed: received 4001".to_owned()), "{:?}", calls.last());
    bench.assert_gone();
}

#[test]
fn w05_the_end_in_the_same_round_waits_for_what_was_not_decoded() {
    let mut bench = amplifier(PauseReads::Never);
    bench.peer.set_limit(0);
    let mut round: Vec<_> = (0..200).flat_map(|_| frame(0x81, b"go", true)).collect();
    round.extend(frame(0x88, &close_payload(4001, ""), true));
    bench.peer.send(round);
    bench.finish();
    bench.peer.set_limit(usize::MAX);
    let received = bench.received();
    assert_eq!(received.len(), 201);
    assert_eq!(received[200], "close 4001");
    assert!(bench.calls().contains(&"closed: received 4001".to_owned()));
    bench.assert_gone();
}

#[test]
fn w05_an_undecoded_rest_without_a_close_ends_the_connection() {
    let mut bench = amplifier(PauseReads::Never);
    bench.peer.set_limit(0);
    let round: Vec<_> = (0..200).flat_map(|_| frame(0x81, b"go", true)).collect();
    bench.peer.send(round);
    bench.finish();
    bench.peer.set_limit(usize::MAX);
    assert_eq!(bench.received().len(), 200);
    assert!(bench.calls().contains(&"closed: lost".to_owned()));
    bench.assert_gone();
}

#[test]
fn r04_a_flood_of_pings_of_a_peer_that_does_not_read_is_bounded() {
    let mut bench = ServerBench::new(&WebSocketOptions::default(), Script::silent());
    bench.peer.set_limit(0);
    let flood: Vec<_> = (0..1_000).flat_map(|_| frame(0x89, &[b'x'; 125], true)).collect();
    for _ in 0..50 {
        bench.send_raw(&flood);
    }
    let pending = bench.channel().pending_bytes();
    assert!(pending <= HIGH_MARK + ONE_READ, "{pending}");
    assert!(bench.peer.unread() > 0, "the server does not read");
    bench.peer.set_limit(usize::MAX);
    let mut pongs = 0;
    for _ in 0..200 {
        pongs += bench.received().len();
    }
    assert_eq!(pongs, 50_000);
}

#[test]
fn w05_a_handler_that_sends_without_end_sends_while_it_is_writable() {
    let script = Script::new(|socket, line| {
        if line == "text go" || line == "writable true" {
            while socket.is_writable() {
                socket.send_binary(&[0; 500])?;
            }
        }
        Ok(())
    });
    let mut bench = ServerBench::new(&WebSocketOptions::default(), script);
    bench.peer.set_limit(10_000);
    bench.send_text("go");
    let mut received = 0;
    while received < 2_000_000 {
        assert!(bench.channel().pending_bytes() <= HIGH_MARK + 20_000);
        let bytes = bench.peer.take_received().len();
        assert!(bytes > 0, "it goes on when there is room");
        received += bytes;
        bench.run();
    }
}
