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

/// A channel whose transport takes nothing, with flushed data and a close that waits for it.
fn closing_link(options: TlsOptions) -> Link {
    let mut link = Link::established(options);
    link.client.channel.set_room(0);
    drop(link.client.channel.write_outbound(Bytes::from_static(b"last words")));
    link.client.channel.close();
    assert!(link.client.channel.channel().is_open());
    link
}

/// The transport takes bytes again: the data and close_notify arrive, and the channel closes.
#[track_caller]
fn assert_closes_in_order(mut link: Link) {
    link.client.settle();
    assert!(link.client.channel.channel().is_open(), "closed before its data is written");
    link.client.channel.clear_faults();
    link.client.settle();
    link.exchange();
    assert_eq!(link.server.received(), b"last words");
    assert_eq!(link.server.events.take()[0], "peer closed");
    assert!(!link.client.channel.channel().is_open());
    assert!(link.client.channel.read_error().is_none());
}

#[test]
fn t02_a_second_close_waits_for_close_notify_like_the_first() {
    let mut link = closing_link(TlsOptions::default());
    let second = link.client.channel.on_loop(Channel::close);
    assert!(!second.is_done());
    assert_closes_in_order(link);
    second.join().unwrap();
}

#[test]
fn t02_two_closes_that_wait_for_the_handshake_are_in_order() {
    let mut link = Link::new();
    drop(link.client.channel.write_outbound(Bytes::from_static(b"last words")));
    link.client.channel.close();
    drop(link.client.channel.on_loop(Channel::close));
    let hello = link.client.sent();
    deliver(&mut link.server.channel, &hello, usize::MAX);
    link.client.channel.set_room(0);
    let answer = link.server.sent();
    deliver(&mut link.client.channel, &answer, usize::MAX);
    drop(link.server.events.take());
    link.client.settle();
    assert!(link.client.channel.channel().is_open(), "closed before its data is written");
    link.client.channel.clear_faults();
    link.exchange();
    assert_eq!(link.server.received(), b"last words");
}

#[test]
fn t02_a_close_notify_of_the_peer_does_not_cut_a_close_short() {
    for awaits in [false, true] {
        let options = TlsOptions::builder().await_close_notify(awaits).build().unwrap();
        let mut link = closing_link(options);
        link.server.channel.fire_user_event(StopTls);
        let farewell = link.server.sent();
        deliver(&mut link.client.channel, &farewell, usize::MAX);
        assert_eq!(link.client.events.take(), ["peer closed"]);
        assert_closes_in_order(link);
    }
}

#[test]
fn t02_a_handshake_that_ends_after_a_close_leaves_the_limit_of_the_close() {
    let mut link = Link::new();
    let hello = link.client.sent();
    deliver(&mut link.server.channel, &hello, usize::MAX);
    link.client.channel.set_room(0);
    link.client.channel.close();
    let answer = link.server.sent();
    deliver(&mut link.client.channel, &answer, usize::MAX);
    assert_eq!(link.client.events.take(), Vec::<String>::new(), "a handshake after the close");
    link.client.channel.advance(Duration::from_secs(3));
    assert!(!link.client.channel.channel().is_open());
}

#[test]
fn t02_a_close_in_the_handshake_waits_for_its_limit_at_most() {
    let mut link = Link::new();
    let write = link.client.channel.write_outbound(Bytes::from_static(b"one shot"));
    link.client.channel.close();
    link.client.channel.advance(Duration::from_millis(9_999));
    assert!(link.client.channel.channel().is_open());
    link.client.channel.advance(Duration::from_millis(1));
    assert!(!link.client.channel.channel().is_open());
    write.join().unwrap_err();
}

#[test]
fn t02_a_close_in_the_handshake_without_flushed_writes_is_done_at_once_with_an_alert() {
    let mut link = Link::new();
    let write = link.client.channel.write(Bytes::from_static(b"not flushed"));
    let hello = link.client.sent();
    link.client.channel.close();
    assert!(!link.client.channel.channel().is_open());
    write.join().unwrap_err();
    assert_eq!((hello[0], &link.client.sent()[..]), (22, &[21, 3, 3, 0, 2, 1, 0][..]));
}

#[test]
fn t02_a_close_after_the_end_of_the_output_waits_for_close_notify() {
    let mut link = Link::established(TlsOptions::default());
    link.client.channel.set_room(0);
    drop(link.client.channel.write_outbound(Bytes::from_static(b"last words")));
    let shutdown = link.client.channel.on_loop(Channel::shutdown_output);
    link.client.channel.close();
    assert_closes_in_order(link);
    shutdown.join().unwrap();
}

#[test]
fn t06_a_close_that_waits_when_tls_is_stopped_by_the_peer_loses_nothing() {
    let options = TlsOptions::builder().on_close_notify(OnCloseNotify::StopTls).build().unwrap();
    let mut link = Link::established(options);
    link.client.channel.set_room(0);
    let data = vec![7; 400_000];
    drop(link.client.channel.write_outbound(Bytes::from(data.clone())));
    link.client.channel.close();
    link.server.channel.fire_user_event(StopTls);
    let farewell = link.server.sent();
    deliver(&mut link.client.channel, &farewell, usize::MAX);
    link.client.settle();
    assert!(link.client.channel.channel().is_open(), "closed before its data is written");
    link.client.channel.clear_faults();
    link.exchange();
    assert!(link.server.received() == data);
    assert!(!link.client.channel.channel().is_open());
}

#[test]
fn t06_a_close_after_the_end_of_tls_waits_for_what_was_written() {
    let options = TlsOptions::builder().on_close_notify(OnCloseNotify::StopTls).build().unwrap();
    let mut link = Link::established(options);
    link.client.channel.set_room(0);
    drop(link.client.channel.write_outbound(Bytes::from_static(b"in TLS, ")));
    link.client.channel.fire_user_event(StopTls);
    drop(link.client.channel.write_outbound(Bytes::from_static(b"in the clear")));
    link.client.channel.close();
    assert!(link.client.channel.channel().is_open(), "closed before its data is written");
    link.client.channel.clear_faults();
    link.client.settle();
    assert!(!link.client.channel.channel().is_open());
    link.exchange();
    assert_eq!(link.server.received(), b"in TLS, in the clear");
}
