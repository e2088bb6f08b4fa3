//! Handlers that leave the pipeline while data flows.

use bytes::Bytes;
use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};
use waterwheel_executor::Error;
use waterwheel_testkit::recorder::Log;
use waterwheel_websocket::WebSocketOptions;

use crate::support::frames::frame;
use crate::support::loop_bench::SECOND;
use crate::support::script::Script;
use crate::support::server_bench::ServerBench;

/// Logs the bytes that it reads.
struct RawReader(Log);

impl Handler for RawReader {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        if let Ok(bytes) = msg.into_bytes() {
            self.0.push(format!("raw {}", bytes.escape_ascii()));
        }
        Ok(())
    }
}

/// Leaves WebSocket for another protocol when it reads `leave`.
fn leaver() -> (ServerBench, Log) {
    let log = Log::new();
    let raw = log.clone();
    let script = Script::new(move |socket, line| {
        if line == "text leave" {
            socket.send_text("before")?;
            let raw = RawReader(raw.clone());
            socket.ctx().pipeline().edit(|edit| {
                edit.remove("websocket/decoder")?;
                edit.remove("websocket/encoder")?;
                edit.add_last("raw", raw)?;
                Ok::<_, Error>(())
            })?;
            socket.send_text("after")?;
        }
        Ok(())
    });
    (ServerBench::new(&WebSocketOptions::default(), script), log)
}

#[test]
fn w02_a_removal_loses_neither_what_was_sent_nor_what_was_read() {
    let (mut bench, log) = leaver();
    bench.send_raw([frame(0x81, b"leave", true), b"another protocol".to_vec()].concat());
    assert_eq!(bench.received(), ["text before", "text after"]);
    assert_eq!(log.take(), ["raw another protocol"]);
    assert_eq!(bench.calls(), ["open", "text leave", "closed: lost"], "on_close is called once");
    bench.send_raw("more");
    assert_eq!(log.take(), ["raw more"]);
    drop(bench.channel().write_and_flush(Bytes::from_static(b"raw")));
    bench.run();
    assert_eq!(bench.received_raw(), "raw");
    bench.advance(1_000 * SECOND);
    assert!(bench.channel().is_open(), "no timer is left");
    assert_eq!(bench.event_loop.event_loop().metrics().timers, 0);
    drop(bench.channel().close());
    bench.assert_gone();
}

#[test]
fn w02_a_removal_hands_on_what_was_not_decoded() {
    let log = Log::new();
    let raw = log.clone();
    let script = Script::new(move |socket, line| {
        if line == "text fill" {
            socket.send_binary(&[0; 70_000])?;
        }
        if line == "event String" {
            let raw = RawReader(raw.clone());
            socket.ctx().pipeline().edit(|edit| {
                edit.remove("websocket/decoder")?;
                edit.remove("websocket/encoder")?;
                edit.add_last("raw", raw)?;
                Ok::<_, Error>(())
            })?;
        }
        Ok(())
    });
    let mut bench = ServerBench::new(&WebSocketOptions::default(), script);
    bench.peer.set_limit(0);
    bench.send_raw([frame(0x81, b"fill", true), b"rest".to_vec()].concat());
    bench.channel().fire_user_event(String::new());
    bench.run();
    assert_eq!(log.take(), ["raw rest"]);
}

#[test]
fn w02_a_close_that_waits_closes_the_channel_when_the_handlers_are_removed() {
    let (mut bench, _) = leaver();
    let closed = bench.channel().close();
    assert_eq!(bench.received(), ["close 1000"]);
    let removed = bench.channel().with_pipeline(|pipeline| {
        pipeline.edit(|edit| {
            edit.remove("websocket/decoder")?;
            edit.remove("websocket/encoder")?;
            Ok::<_, Error>(())
        })
    });
    bench.run();
    removed.join().unwrap().unwrap();
    closed.join().unwrap();
    assert!(!bench.channel().is_open(), "a close that has succeeded has closed the channel");
    bench.assert_gone();
}
