//! Detection behind a header, by two detectors.

use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{Ctx, Events, Handler, HandlerResult, Msg, Signature};
use waterwheel_handlers::{DetectError, ProtocolDetector};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::Log;

use crate::support::{begins, colours};

/// Stands for a `ProxyServer`: takes a header of four bytes, fires it as a user event, and removes itself.
struct TakeHeader(Vec<u8>);

impl Handler for TakeHeader {
    fn interest(&self) -> Events {
        Events::READ
    }

    fn signature(&self) -> Signature {
        Signature::transparent()
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.0.extend_from_slice(&msg.into_bytes().unwrap());
        if self.0.len() >= 4 {
            let rest = Bytes::from(self.0.split_off(4));
            ctx.fire_user_event(String::from_utf8(self.0.clone()).unwrap());
            ctx.pipeline().remove(ctx.slot())?;
            if !rest.is_empty() {
                ctx.fire_read(rest);
            }
        }
        Ok(())
    }
}

#[test]
fn k13_detection_continues_behind_a_header() {
    for pieces in
        [&["<10>green light"][..], &["<", "1", "0>g", "re", "en light"], &["<10>", "green light"]]
    {
        let log = Log::new();
        let behind = colours(&log).build().unwrap();
        let before = ProtocolDetector::builder()
            .protocol("header", begins("<"), move |edit| {
                edit.add_last("header", TakeHeader(Vec::new()))?;
                edit.add_last("detect behind the header", behind.clone())?;
                Ok(())
            })
            .build()
            .unwrap();
        let mut channel = Embedded::new(|edit| {
            edit.add_last("detect", before)?;
            Ok(())
        })
        .unwrap();
        for piece in pieces {
            channel.write_inbound(Bytes::from_static(piece.as_bytes()));
        }
        assert_eq!(
            log.take(),
            [
                "green on_added",
                "green on_active",
                "green on_user_event <10>",
                "green on_read green light",
                "green on_read_complete",
            ],
            "{pieces:?}"
        );
        let names = channel.with_pipeline(|pipeline| pipeline.names());
        assert_eq!(names.unwrap(), ["green"]);
    }
}

#[test]
fn k13_the_limit_of_time_behind_a_header_includes_the_header() {
    let log = Log::new();
    let behind = colours(&log).timeout(Duration::from_secs(1)).build().unwrap();
    let before = ProtocolDetector::builder().protocol("header", begins("<"), move |edit| {
        edit.add_last("header", TakeHeader(Vec::new()))?;
        edit.add_last("detect behind the header", behind.clone())?;
        Ok(())
    });
    let before = before.no_timeout().build().unwrap();
    let mut channel = Embedded::new(|edit| {
        edit.add_last("detect", before)?;
        Ok(())
    })
    .unwrap();
    channel.advance(Duration::from_secs(100));
    channel.write_inbound(Bytes::from_static(b"<1"));
    channel.advance(Duration::from_millis(999));
    assert!(channel.channel().is_open());
    channel.advance(Duration::from_millis(1));
    assert!(!channel.channel().is_open(), "the header did not end");
    let error = channel.read_error().unwrap();
    assert!(matches!(error.find(), Some(DetectError::TimedOut { length: 0, .. })), "{error}");
    assert_eq!(log.take(), [""; 0]);
}
