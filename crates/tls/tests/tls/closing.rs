//! T02: close_notify in both directions, half-closure, streams that are cut off.

use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{Channel, Ctx, Events, HalfClosed, Handler, HandlerResult, Msg};
use waterwheel_tls::{OnCloseNotify, StopTls, TlsError, TlsOptions, TlsPeerClosed};

use crate::support::{Link, deliver};

#[test]
fn t02_a_close_sends_what_is_flushed_and_close_notify() {
    let mut link = Link::established(TlsOptions::default());
    let write = link.client.channel.write_outbound(Bytes::from_static(b"last words"));
    link.client.channel.close();
    assert!(!link.client.channel.channel().is_open());
    write.join().unwrap();
    link.exchange();
    assert_eq!(link.server.received(), b"last words");
    assert_eq!(link.server.events.take(), ["peer closed"]);
    assert!(!link.server.channel.channel().is_open(), "the answer to close_notify is a close");
    assert!(
        link.server.channel.read_error().is_none() && link.client.channel.read_error().is_none()
    );
}

#[test]
fn t02_a_close_in_the_handshake_waits_for_flushed_writes() {
    let mut link = Link::new();
    let write = link.client.channel.write_outbound(Bytes::from_static(b"one shot"));
    link.client.channel.close();
    assert!(link.client.channel.channel().is_open());
    link.exchange();
    assert_eq!(link.server.received(), b"one shot");
    write.join().unwrap();
    assert!(!link.client.channel.channel().is_open());
}

#[test]
fn t02_a_stream_without_close_notify_is_reported_as_truncated() {
    let mut link = Link::established(TlsOptions::default());
    drop(link.client.channel.write_outbound(Bytes::from_static(b"whole")));
    link.exchange();
    link.server.channel.finish_inbound();
    assert_eq!(link.server.received(), b"whole");
    let error = link.server.channel.read_error().unwrap();
    assert_eq!(error.find::<TlsError>(), Some(&TlsError::Truncated));
}

#[test]
fn t02_the_end_of_the_stream_after_close_notify_is_no_error() {
    let mut link = Link::established(TlsOptions::default());
    link.client.channel.close();
    let farewell = link.client.sent();
    crate::support::deliver(&mut link.server.channel, &farewell, 1);
    link.server.channel.finish_inbound();
    assert!(link.server.channel.read_error().is_none());
}

#[test]
fn t02_half_closure_maps_to_close_notify() {
    let options = TlsOptions::builder().on_close_notify(OnCloseNotify::HalfClose).build().unwrap();
    let mut link = Link::established(options);
    drop(link.client.channel.write_outbound(Bytes::from_static(b"request")));
    drop(link.client.channel.on_loop(Channel::shutdown_output));
    link.client.channel.run();
    link.exchange();
    assert_eq!(link.server.received(), b"request");
    assert_eq!(link.server.events.take(), ["peer closed", "Input over"]);
    drop(link.server.channel.write_outbound(Bytes::from_static(b"response")));
    link.exchange();
    assert_eq!(link.client.received(), b"response");
    assert!(link.client.channel.channel().is_open());
    let refused = link.client.channel.write_outbound(Bytes::from_static(b"more"));
    refused.join().unwrap_err();
}

#[test]
fn t02_a_close_may_wait_for_the_close_notify_of_the_peer_within_a_limit() {
    let limit = Duration::from_secs(2);
    let options =
        TlsOptions::builder().await_close_notify(true).close_timeout(limit).build().unwrap();
    let mut link = Link::established(options);
    link.client.channel.close();
    assert!(link.client.channel.channel().is_open());
    link.exchange();
    assert!(!link.client.channel.channel().is_open());
    assert!(link.client.channel.read_error().is_none());

    let mut link = Link::established(options);
    link.client.channel.close();
    link.client.channel.advance(limit);
    assert!(!link.client.channel.channel().is_open(), "the peer never answers");
    let error = link.client.channel.read_error().unwrap();
    assert_eq!(error.find::<TlsError>(), Some(&TlsError::CloseTimeout { limit }));
}

#[test]
fn t02_a_peer_that_does_not_read_delays_a_close_by_the_limit_at_most() {
    let limit = Duration::from_secs(2);
    let options = TlsOptions::builder().close_timeout(limit).build().unwrap();
    let mut link = Link::established(options);
    link.client.channel.set_room(0);
    let write = link.client.channel.write_outbound(Bytes::from(vec![0; 1 << 20]));
    link.client.channel.close();
    assert!(link.client.channel.channel().is_open());
    link.client.channel.advance(limit);
    assert!(!link.client.channel.channel().is_open());
    write.join().unwrap_err();
}

/// Answers every message in the call that reads it, and ends its output when the peer has.
struct Answer {
    /// Flushes at once; or, as most servers, at the end of a round of reads.
    at_once: bool,
}

impl Answer {
    fn answer(&self, ctx: &Ctx<'_>, text: &'static [u8]) {
        ctx.write(Bytes::from_static(text));
        if self.at_once {
            ctx.flush();
        }
    }
}

impl Handler for Answer {
    fn interest(&self) -> Events {
        Events::READ | Events::READ_COMPLETE | Events::USER_EVENT
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        self.answer(ctx, b"answer");
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.is::<TlsPeerClosed>() {
            self.answer(ctx, b", farewell");
        } else if event.get() == Some(&HalfClosed::Input) {
            ctx.shutdown_output();
        }
        ctx.fire_user_event(event);
        Ok(())
    }
}

/// The answers are queued at the TLS handler, which runs, when it comes to the close_notify.
#[test]
fn t02_data_that_comes_with_close_notify_is_answered_in_tls() {
    for (action, at_once, is_open) in [
        (OnCloseNotify::Close, true, false),
        (OnCloseNotify::Close, false, false),
        (OnCloseNotify::HalfClose, true, false),
        (OnCloseNotify::HalfClose, false, false),
        (OnCloseNotify::StopTls, true, true),
        (OnCloseNotify::StopTls, false, true),
    ] {
        let options = TlsOptions::builder().on_close_notify(action).build().unwrap();
        let mut link = Link::established(options);
        let answer = Answer { at_once };
        let added =
            link.server.channel.with_pipeline(|pipeline| pipeline.add_last("answer", answer));
        added.unwrap().unwrap();
        drop(link.client.channel.write(Bytes::from_static(b"question")));
        link.client.channel.fire_user_event(StopTls);
        let sent = link.client.sent();
        deliver(&mut link.server.channel, &sent, usize::MAX);
        link.server.settle();
        let answers = link.server.sent();
        assert!(!answers.windows(6).any(|bytes| bytes == b"answer"), "{action:?}: in the clear");
        deliver(&mut link.client.channel, &answers, usize::MAX);
        assert_eq!(link.client.received(), b"answer, farewell", "{action:?}, {at_once}");
        assert_eq!(link.server.channel.channel().is_open(), is_open, "{action:?}");
        assert!(link.server.channel.read_error().is_none(), "{action:?}");
    }
}
