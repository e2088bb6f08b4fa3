//! The calls of a handler, and what it sends.

use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::Msg;
use waterwheel_http::{Request, Response};
use waterwheel_websocket::{
    BroadcastMessage, HandshakeError, MessagePart, PartData, SendError, WebSocketMessage,
    WebSocketOptions, WebSocketUpgrade,
};

use crate::support::frames::frame;
use crate::support::loop_bench::SECOND;
use crate::support::script::Script;
use crate::support::server_bench::{REQUEST, ServerBench};

fn echo() -> ServerBench {
    ServerBench::new(&WebSocketOptions::default(), Script::echo())
}

#[test]
fn w02_a_handler_is_opened_given_messages_in_order_and_closed_once() {
    let mut bench = echo();
    assert_eq!(bench.script.log.take()[0], "open");
    let round = [
        frame(0x81, b"one", true),
        frame(0x02, b"tw", true),
        frame(0x89, b"control", true),
        frame(0x80, b"o", true),
        frame(0x81, "drei \u{e4}".as_bytes(), true),
    ];
    bench.send_raw(round.concat());
    let calls = ["text one", "binary two", "text drei \\xc3\\xa4", "complete"];
    assert_eq!(bench.script.log.take(), calls);
    assert_eq!(bench.received(), ["text one", "pong control", "text drei \\\\xc3\\\\xa4"]);
    bench.send_close(1000);
    assert_eq!(bench.calls(), ["closed: received 1000"]);
    bench.send_text("after the Close");
    bench.finish();
    assert!(bench.calls().is_empty(), "nothing comes after on_close");
    bench.assert_gone();
}

#[test]
fn w02_a_round_of_reads_is_answered_by_one_write() {
    let mut bench = echo();
    let writes = |bench: &ServerBench| bench.manual.counts().writes;
    let before = writes(&bench);
    let round: Vec<_> = (0..50).flat_map(|n| frame(0x81, n.to_string().as_bytes(), true)).collect();
    bench.send_raw(round);
    assert_eq!(bench.received().len(), 50);
    assert_eq!(writes(&bench) - before, 1, "fifty answers");
    bench.send_text("alone");
    assert_eq!(bench.received(), ["text alone"]);
    assert_eq!(writes(&bench) - before, 2);
}

#[test]
fn w02_what_is_sent_outside_of_a_round_is_flushed_at_once() {
    let script = Script::new(|socket, line| {
        match line {
            "open" => {
                socket.send_text("welcome")?;
                socket.schedule(Duration::from_secs(1), 7);
            }
            "timer 7" => socket.send_binary(b"tick")?,
            "event &str" | "event String" => socket.send("event")?,
            "complete" => socket.send_text("done")?,
            _ => {}
        }
        Ok(())
    });
    let mut bench = ServerBench::new(&WebSocketOptions::default(), script);
    assert_eq!(bench.received(), ["text welcome", "text done"], "the round of the request");
    bench.advance(Duration::from_secs(1));
    assert_eq!(bench.received(), ["binary tick"]);
    bench.channel().fire_user_event(String::from("x"));
    assert_eq!(bench.received(), ["text event"]);
    assert_eq!(bench.calls(), ["open", "timer 7", "event String"]);
}

#[test]
fn w02_no_timer_fires_after_on_close() {
    let script = Script::new(|socket, line| {
        if line == "open" {
            socket.schedule(Duration::from_secs(1), 7);
        }
        Ok(())
    });
    let mut bench = ServerBench::new(&WebSocketOptions::default(), script);
    bench.send_close(1000);
    bench.advance(Duration::from_secs(2));
    assert!(!bench.peer.is_closed(), "the connection waits for the end of the peer's data");
    assert_eq!(bench.calls(), ["open", "closed: received 1000"]);
}

#[test]
fn w02_other_threads_send_by_the_channel() {
    let mut bench = echo();
    let channel = bench.channel();
    std::thread::spawn(move || {
        drop(channel.write(WebSocketMessage::text("from elsewhere")));
        drop(channel.write(BroadcastMessage::binary([1])));
        drop(channel.write_and_flush(WebSocketMessage::Ping(Bytes::from_static(b"p"))));
    })
    .join()
    .unwrap();
    assert_eq!(bench.received(), ["text from elsewhere", "binary \\x01", "ping p"]);
    let long = vec![b'x'; 70_000];
    let written = bench.channel().write_and_flush(WebSocketMessage::binary(long));
    assert_eq!(bench.received(), ["binary [70000]"]);
    written.join().unwrap();
}

#[test]
fn w02_a_handler_that_writes_to_its_own_channel_keeps_the_order() {
    let script = Script::new(|socket, line| {
        if line.starts_with("text") {
            socket.send_text("first")?;
            socket.channel().send(WebSocketMessage::text("second"));
            socket.send_text("third")?;
            socket.send_broadcast(&BroadcastMessage::text("fourth"))?;
            socket.send(WebSocketMessage::binary(vec![0; 1000]))?;
            socket.send_text("sixth")?;
        }
        Ok(())
    });
    let mut bench = ServerBench::new(&WebSocketOptions::default(), script);
    bench.send_text("go");
    let answers =
        ["text first", "text second", "text third", "text fourth", "binary [1000]", "text sixth"];
    assert_eq!(bench.received(), answers);
}

/// Memory of the user, whose drop sends.
struct SendsWhenDropped(waterwheel_channel::Channel);

impl AsRef<[u8]> for SendsWhenDropped {
    fn as_ref(&self) -> &[u8] {
        b"memory"
    }
}

impl Drop for SendsWhenDropped {
    fn drop(&mut self) {
        self.0.send(WebSocketMessage::text("dropped"));
    }
}

#[test]
fn w02_the_memory_of_a_message_is_dropped_outside_of_every_borrow() {
    let script = Script::new(|socket, line| {
        let memory = || Bytes::from_owner(SendsWhenDropped(socket.channel()));
        match line {
            "text short" => socket.send(WebSocketMessage::Ping(memory()))?,
            "text refused" => {
                let is_last = false;
                let data = PartData::Text("first".into());
                socket.send(WebSocketMessage::Part(MessagePart { data, is_last }))?;
                let data = PartData::Binary(memory());
                let refused = socket.send(WebSocketMessage::Part(MessagePart { data, is_last }));
                assert_eq!(refused, Err(SendError::UnfinishedMessage));
            }
            _ => {}
        }
        Ok(())
    });
    let mut bench = ServerBench::new(&WebSocketOptions::default(), script);
    bench.send_text("short");
    assert_eq!(bench.received(), ["ping memory", "text dropped"]);
    bench.send_text("refused");
    assert_eq!(bench.received(), ["~text first"]);
    assert!(bench.channel().is_open());
    let reports = bench.faults.take().join("; ");
    assert!(!reports.contains("panicked"), "{reports}");
}

#[test]
fn w02_parts_are_handed_on_and_written_as_frames() {
    let options = WebSocketOptions::builder().parts(true).build().unwrap();
    let script = Script::silent();
    let mut bench = ServerBench::new(&options, script);
    bench.send_raw(&frame(0x81, "h\u{e9}llo".as_bytes(), true)[..6 + 2]);
    assert_eq!(bench.calls(), ["open", "part text h"], "no half of a character");
    bench.send_raw(&frame(0x81, "h\u{e9}llo".as_bytes(), true)[6 + 2..]);
    assert_eq!(bench.calls(), ["last text \\xc3\\xa9llo"]);
    bench.send(0x02, b"a");
    bench.send(0x80, b"");
    assert_eq!(bench.calls(), ["part binary a", "last binary "]);
}

#[test]
fn w02_control_frames_are_messages_if_asked_for() {
    let options = WebSocketOptions::builder().pass_control(true).build().unwrap();
    let mut bench = ServerBench::new(&options, Script::silent());
    bench.send_ping("a");
    bench.send(0x8a, b"b");
    assert_eq!(bench.calls(), ["open", "ping a", "pong b"]);
    assert_eq!(bench.received(), ["pong a"], "pings are answered all the same");
}

/// Opens a connection that sends back how it is called.
async fn teller(request: Request) -> Result<Response, HandshakeError> {
    let upgrade = WebSocketUpgrade::of(&request, &WebSocketOptions::default())?;
    Ok(upgrade.handle(Script::new(|socket, line| Ok(socket.send_text(line)?))))
}

#[test]
fn w01_a_request_that_does_not_end_is_given_up_after_the_time_for_a_head() {
    let mut bench = ServerBench::connect(Script::silent(), |bootstrap| bootstrap, teller);
    for piece in REQUEST.as_bytes()[..REQUEST.len() - 1].chunks(20) {
        bench.send_raw(piece);
        bench.advance(SECOND);
    }
    bench.advance(10 * SECOND);
    let answer = bench.received_raw();
    assert!(answer.starts_with(b"HTTP/1.1 408 "), "{}", answer.escape_ascii());
    bench.advance(60 * SECOND);
    bench.assert_gone();
}

#[test]
fn w02_frames_right_behind_the_request_are_read_after_on_open() {
    let mut bench = ServerBench::connect(Script::silent(), |bootstrap| bootstrap, teller);
    let mut bytes = REQUEST.as_bytes().to_vec();
    bytes.extend(frame(0x81, b"early", true));
    bytes.extend(&frame(0x81, b"late", true)[..5]);
    bench.send_raw(bytes);
    bench.send_raw(&frame(0x81, b"late", true)[5..]);
    let answer = bench.received_raw();
    let text = String::from_utf8_lossy(&answer);
    let at = |name: &str| text.find(name).unwrap_or_else(|| panic!("{name} in {text}"));
    assert!(at("\r\n\r\n") < at("open") && at("open") < at("text early"));
    assert!(at("text early") < at("text late"));
    assert_eq!(text.matches("early").count(), 1);
}

#[test]
fn w02_a_message_that_may_not_be_sent_is_refused() {
    let script = Script::new(|socket, line| {
        if line == "text long ping" {
            let ping = WebSocketMessage::Ping(Bytes::from(vec![0; 126]));
            assert_eq!(socket.send(ping), Err(SendError::ControlTooLong { len: 126 }));
            socket.send_text("still open")?;
        }
        if line == "text close" {
            socket.close(waterwheel_websocket::CloseCode::NORMAL);
            assert!(socket.is_closing());
            assert_eq!(socket.send_text("x"), Err(SendError::Closing));
            assert_eq!(socket.send("x"), Err(SendError::Closing));
            assert_eq!(
                socket.send_broadcast(&BroadcastMessage::text("x")),
                Err(SendError::Closing)
            );
            socket.close(waterwheel_websocket::CloseCode::GOING_AWAY);
        }
        Ok(())
    });
    let mut bench = ServerBench::new(&WebSocketOptions::default(), script);
    bench.send_text("long ping");
    assert_eq!(bench.received(), ["text still open"]);
    bench.send_text("close");
    assert_eq!(bench.received(), ["close 1000"], "one Close, nothing behind it");
    let refused = bench.channel().write_and_flush(WebSocketMessage::text("x"));
    bench.run();
    let error = refused.join().unwrap_err();
    assert_eq!(error.find::<SendError>(), Some(&SendError::Closing));
}

#[test]
fn w02_a_message_beyond_the_hard_cap_is_refused_whole() {
    let script = Script::new(|socket, line| {
        if line == "text fill" {
            socket.send(WebSocketMessage::binary(vec![0; 90_000]))?;
            let refused = socket.send(WebSocketMessage::binary(vec![0; 20_000])).unwrap_err();
            assert!(matches!(refused, SendError::BufferFull { len: 20_000, .. }), "{refused}");
            socket.send_text("short")?;
        }
        Ok(())
    });
    let marks = waterwheel_channel::WaterMarks::new(32 * 1024, 64 * 1024);
    let marks = marks.unwrap().with_hard_cap(100_000).unwrap();
    let mut bench =
        ServerBench::with_bootstrap(&WebSocketOptions::default(), script, |bootstrap| {
            bootstrap.child_water_marks(marks)
        });
    bench.peer.set_limit(0);
    bench.send_text("fill");
    assert!(bench.channel().is_open());
    let refused = bench.channel().write_and_flush(WebSocketMessage::binary(vec![0; 20_000]));
    bench.run();
    refused.join().unwrap_err();
    bench.peer.set_limit(usize::MAX);
    assert_eq!(bench.received(), ["binary [90000]", "text short"], "no half of a frame");
}

#[test]
fn w02_a_message_that_compression_makes_longer_than_the_hard_cap_is_refused_whole() {
    const CAP: usize = 100_000;
    /// Bytes that no compressor makes shorter.
    fn noise(len: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8 | 0x90
        };
        (0..len).map(next).collect()
    }
    let script = Script::new(|socket, line| {
        if line == "text fill" {
            for len in [CAP - 64, CAP - 1_000, CAP - 10_000] {
                let refused = socket.send(WebSocketMessage::binary(noise(len)));
                assert!(matches!(refused, Err(SendError::BufferFull { .. })), "{len}: {refused:?}");
            }
            socket.send(WebSocketMessage::binary(noise(CAP - 20_000)))?;
        }
        Ok(())
    });
    let deflate = waterwheel_websocket::DeflateOptions::default();
    let options = WebSocketOptions::builder().deflate(deflate).build().unwrap();
    let marks = waterwheel_channel::WaterMarks::new(32 * 1024, 64 * 1024).unwrap();
    let marks = marks.with_hard_cap(CAP).unwrap();
    let handler = script.clone();
    let service = async move |request: waterwheel_http::Request| {
        let upgrade = waterwheel_websocket::WebSocketUpgrade::of(&request, &options)?;
        Ok::<_, waterwheel_websocket::HandshakeError>(upgrade.handle(handler.clone()))
    };
    let mut bench =
        ServerBench::connect(script, |bootstrap| bootstrap.child_water_marks(marks), service);
    let offer = "\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n";
    bench.send_raw(REQUEST.replace("\r\n\r\n", offer));
    bench.received_raw();
    bench.peer.set_limit(0);
    bench.send_text("fill");
    let channel = bench.channel();
    assert!(channel.is_open(), "{:?}", channel.close_cause());
    bench.peer.set_limit(usize::MAX);
    let received = bench.received();
    assert_eq!(received.len(), 1, "{received:?}");
    assert!(received[0].starts_with("*binary ["), "{received:?}");
}

#[test]
fn w02_other_messages_pass_the_encoder() {
    let mut bench = echo();
    drop(bench.channel().write_and_flush(Msg::new(Bytes::from_static(b"\x81\x03raw"))));
    assert_eq!(bench.received(), ["text raw"]);
}
