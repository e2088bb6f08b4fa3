//! T06: TLS begins and ends in the middle of a stream.

use std::sync::Arc;

use bytes::Bytes;
use waterwheel_channel::{ChannelOptions, Ctx, Handler, HandlerResult, Msg, WaterMarks};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;
use waterwheel_tls::rustls::ServerConfig;
use waterwheel_tls::rustls::pki_types::ServerName;
use waterwheel_tls::{
    OnCloseNotify, ServerTls, StopTls, TlsError, TlsHandler, TlsHandshake, TlsOptions,
};

use crate::support::{Configs, End, Link, NAME, deliver};

#[test]
fn t06_tls_ends_in_the_middle_of_a_stream_with_no_byte_lost() {
    let options = TlsOptions::builder().on_close_notify(OnCloseNotify::StopTls).build().unwrap();
    for cut in [1, 7, 1_000, usize::MAX] {
        let mut link = Link::established(options);
        link.cut = cut;
        drop(link.client.channel.write(Bytes::from_static(b"in TLS, ")));
        link.client.channel.fire_user_event(StopTls);
        // Behind close_notify, before the server has answered: pipelined.
        drop(link.client.channel.write_outbound(Bytes::from_static(b"in the clear")));
        let sent = link.client.sent();
        assert!(sent.ends_with(b"in the clear"));
        assert!(!sent.windows(6).any(|bytes| bytes == b"in TLS"));
        drop(link.server.channel.write(Bytes::from_static(b"answer in TLS")));
        deliver(&mut link.server.channel, &sent, cut);
        drop(link.server.channel.write_outbound(Bytes::from_static(b", then clear")));
        link.exchange();
        assert_eq!(link.server.received(), b"in TLS, in the clear", "cut {cut}");
        assert_eq!(link.client.received(), b"answer in TLS, then clear", "cut {cut}");
        assert_eq!(link.server.events.take(), ["peer closed", "stopped"]);
        assert_eq!(link.client.events.take(), ["peer closed", "stopped"]);
        assert!(link.client.channel.channel().is_open());
        let has_tls =
            |pipeline: waterwheel_channel::Pipeline<'_>| pipeline.remove_if_present("tls").unwrap();
        assert_eq!(link.client.channel.with_pipeline(has_tls), Some(false));
        assert_eq!(link.server.channel.with_pipeline(has_tls), Some(false));
    }
}

#[test]
fn t06_a_peer_that_does_not_answer_the_end_of_tls_is_given_up() {
    let mut link = Link::established(TlsOptions::default());
    link.client.channel.fire_user_event(StopTls);
    let limit = std::time::Duration::from_secs(3);
    link.client.channel.advance(limit);
    let error = link.client.channel.read_error().unwrap();
    assert_eq!(error.find::<TlsError>(), Some(&TlsError::CloseTimeout { limit }));
    assert!(!link.client.channel.channel().is_open());
}

#[test]
fn t06_tls_begins_in_the_middle_of_a_stream() {
    let configs = Configs::new();
    let mut link = Link::with(&configs, TlsOptions::default());
    link.client.channel = Embedded::builder().stream().build(|_| Ok(())).unwrap();
    drop(link.client.channel.write_outbound(Bytes::from_static(b"STARTTLS\n")));
    assert_eq!(link.client.sent(), b"STARTTLS\n");
    let name = ServerName::try_from(NAME).unwrap();
    let tls = TlsHandler::client(configs.client.clone(), name);
    let added =
        link.client.channel.with_pipeline(|pipeline| pipeline.add_last("tls", tls).map(drop));
    added.unwrap().unwrap();
    drop(link.client.channel.write_outbound(Bytes::from_static(b"secret")));
    link.exchange();
    assert_eq!(link.server.received(), b"secret");
}

#[test]
fn t06_a_removed_handler_fails_what_waits_and_sends_none_of_it_in_the_clear() {
    let mut link = Link::new();
    let write = link.client.channel.write_outbound(Bytes::from_static(b"secret"));
    link.client
        .channel
        .with_pipeline(|pipeline| pipeline.remove_if_present("tls"))
        .unwrap()
        .unwrap();
    let error = write.join().unwrap_err();
    assert_eq!(error.find::<TlsError>(), Some(&TlsError::Removed));
    let sent = link.client.sent();
    assert!(!sent.windows(6).any(|bytes| bytes == b"secret"));
    assert_eq!(link.client.channel.channel().pending_bytes(), 0);
}

#[test]
fn t06_what_is_written_after_the_request_waits_for_close_notify() {
    let options = TlsOptions::builder().on_close_notify(OnCloseNotify::StopTls).build().unwrap();
    let mut link = Link::established(options);
    link.client.channel.set_room(0);
    let secret = vec![b's'; 400_000];
    drop(link.client.channel.write_outbound(Bytes::from(secret.clone())));
    link.client.channel.fire_user_event(StopTls);
    drop(link.client.channel.write_outbound(Bytes::from_static(b"clear")));
    link.client.channel.clear_faults();
    link.exchange();
    let received = link.server.received();
    assert!(received == [&secret[..], b"clear"].concat(), "{} bytes", received.len());
    assert_eq!(link.client.events.take(), ["peer closed", "stopped"]);
}

#[test]
fn t06_tls_that_is_ended_in_its_handshake_sends_nothing_in_the_clear_before() {
    let options = TlsOptions::builder().on_close_notify(OnCloseNotify::StopTls).build().unwrap();
    let mut link = Link::with(&Configs::new(), options);
    drop(link.client.channel.write_outbound(Bytes::from_static(b"secret, ")));
    link.client.channel.fire_user_event(StopTls);
    drop(link.client.channel.write_outbound(Bytes::from_static(b"clear")));
    let hello = link.client.sent();
    assert!(!hello.windows(5).any(|bytes| bytes == b"clear" || bytes == b"secre"));
    deliver(&mut link.server.channel, &hello, usize::MAX);
    link.exchange();
    assert_eq!(link.server.received(), b"secret, clear");
}

#[test]
fn t06_an_idle_connection_that_is_ended_in_its_handshake_waits_too() {
    let mut link = Link::new();
    link.client.channel.fire_user_event(StopTls);
    drop(link.client.channel.write_outbound(Bytes::from_static(b"clear")));
    let hello = link.client.sent();
    assert!(!hello.windows(5).any(|bytes| bytes == b"clear"));
}

/// The peer may take an alert for plain text.
#[test]
fn t06_a_failure_after_our_close_notify_sends_no_alert() {
    let options = TlsOptions::builder().await_close_notify(true).build().unwrap();
    let ends: [fn(&mut Embedded); 2] =
        [|channel| channel.fire_user_event(StopTls), |channel| channel.close()];
    for end in ends {
        let mut link = Link::established(options);
        end(&mut link.client.channel);
        assert!(!link.client.sent().is_empty(), "close_notify");
        deliver(&mut link.client.channel, b"GET / HTTP/1.1", usize::MAX);
        link.client.settle();
        assert!(link.client.channel.read_error().is_some());
        assert!(!link.client.channel.channel().is_open());
        assert_eq!(link.client.sent(), b"");
    }
}

#[test]
fn t06_tls_that_cannot_begin_in_the_middle_of_a_stream_closes_the_channel() {
    let configs = Configs::new();
    let mut config = ServerConfig::clone(configs.server.config().unwrap());
    config.max_early_data_size = 1; // Refused.
    let tls = TlsHandler::server(ServerTls::from(Arc::new(config)));
    let mut channel = Embedded::builder().stream().build(|_| Ok(())).unwrap();
    let added = channel.with_pipeline(|pipeline| {
        pipeline.write(Bytes::from_static(b"220 go ahead\n"));
        pipeline.flush();
        let added = pipeline.add_first("tls", tls).map(drop);
        // A program that does not look at the error goes on.
        pipeline.write(Bytes::from_static(b"secret"));
        pipeline.flush();
        added
    });
    let error = Error::new(added.unwrap().unwrap_err());
    assert!(matches!(error.find(), Some(TlsError::Configuration(_))), "{error}");
    drop(channel.write_outbound(Bytes::from_static(b"secret")));
    assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "220 go ahead\n");
    assert!(channel.read_outbound::<Bytes>().is_none(), "nothing is sent in the clear");
    assert!(!channel.channel().is_open());
    let cause = channel.channel().close_cause().unwrap();
    assert!(matches!(cause.find(), Some(TlsError::Configuration(_))), "{cause}");
}

/// The ciphertext of many small messages is much longer than they are. In the second case, only the last ones find no
/// room, and close_notify would.
#[test]
fn t06_a_full_channel_whose_peer_ends_tls_is_closed_rather_than_sent_with_a_gap() {
    let options = TlsOptions::builder().on_close_notify(OnCloseNotify::StopTls).build().unwrap();
    let configs = Configs::new();
    let water_marks = WaterMarks::new(10_000, 20_000).unwrap().with_hard_cap(100_000).unwrap();
    for (count, size) in [(10_000, 10), (2_800, 14)] {
        let mut link = Link::with(&configs, options);
        let name = ServerName::try_from(NAME).unwrap();
        let client = TlsHandler::client(configs.client.clone(), name).with_options(options);
        let channel = ChannelOptions { water_marks, ..ChannelOptions::default() };
        link.client = End::new(client, channel);
        link.exchange();
        link.client.channel.set_room(0);
        let message = Bytes::from(vec![7; size]);
        let writes: Vec<_> =
            (0..count).map(|_| link.client.channel.write_outbound(message.clone())).collect();
        link.server.channel.fire_user_event(StopTls);
        let farewell = link.server.sent();
        deliver(&mut link.client.channel, &farewell, usize::MAX);
        link.client.settle();
        assert!(!link.client.channel.channel().is_open(), "{count} messages");
        assert!(writes.iter().all(|write| write.is_done()));
        assert_eq!(link.client.channel.channel().pending_bytes(), 0);
    }
}

/// Removes TLS when its handshake is over.
struct RemoveTls;

impl Handler for RemoveTls {
    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.is::<TlsHandshake>() {
            ctx.pipeline().remove_if_present("tls")?;
        }
        Ok(())
    }
}

#[test]
fn t06_bytes_behind_a_handshake_that_ends_tls_are_passed_on_in_order() {
    let mut link = Link::new();
    let added =
        link.server.channel.with_pipeline(|pipeline| pipeline.add_last("remove", RemoveTls));
    added.unwrap().unwrap();
    let hello = link.client.sent();
    deliver(&mut link.server.channel, &hello, usize::MAX);
    let answer = link.server.sent();
    deliver(&mut link.client.channel, &answer, usize::MAX);
    drop(link.client.channel.write_outbound(Bytes::from_static(b"in TLS")));
    let flight = [&link.client.sent()[..], b"\x17\x03\x03"].concat();
    deliver(&mut link.server.channel, &flight, usize::MAX);
    deliver(&mut link.server.channel, b"\x00", usize::MAX);
    assert_eq!(link.server.received(), b"in TLS\x17\x03\x03\x00");
}
