//! T03: ALPN chooses the pipeline.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use proptest::prelude::*;
use waterwheel_channel::{ChannelOptions, Ctx, Edit, Events, HalfClosed, PipelineError};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::{Embedded, EmbeddedBuilder};
use waterwheel_testkit::recorder::{Log, RecordedMethod};
use waterwheel_tls::rustls::pki_types::ServerName;
use waterwheel_tls::rustls::{self, AlertDescription};
use waterwheel_tls::{
    AlpnError, AlpnHandler, AlpnHandlerBuilder, ClientTls, InvalidAlpnHandler, ServerTls, TlsError,
    TlsHandler,
};

use crate::support::{Identity, NAME, deliver};

const HANDSHAKE: &str = "on_user_event waterwheel_tls::handshake::TlsHandshake";

fn inbound() -> Events {
    Events::ACTIVE
        | Events::INACTIVE
        | Events::READ
        | Events::READ_COMPLETE
        | Events::USER_EVENT
        | Events::ERROR
}

/// Returns an initialiser that adds a recorder at the back.
fn record(
    log: &Log,
    name: &'static str,
) -> impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync + 'static {
    let log = log.clone();
    move |edit| {
        edit.add_last(name, log.recorder().interest(inbound()))?;
        Ok(())
    }
}

/// Returns a builder with the protocols `h2` and `http/1.1`.
fn http(log: &Log) -> AlpnHandlerBuilder {
    AlpnHandler::builder().on("h2", record(log, "h2")).on("http/1.1", record(log, "http/1.1"))
}

/// A channel with TLS and a handler that waits for its outcome.
struct Bench {
    channel: Embedded,
    log: Log,
    faults: Log,
}

impl Bench {
    fn with(builder: EmbeddedBuilder, tls: TlsHandler, alpn: AlpnHandlerBuilder, log: Log) -> Self {
        let (alpn, faults) = (alpn.build().unwrap(), Log::new());
        let builder = builder.stream().reporter(Arc::new(faults.clone()));
        let channel = builder.build(|edit| {
            edit.add_last("tls", tls)?;
            edit.add_last("alpn", alpn)?;
            Ok(())
        });
        Self { channel: channel.unwrap(), log, faults }
    }

    fn new(tls: TlsHandler, make: impl FnOnce(&Log) -> AlpnHandlerBuilder) -> Self {
        let log = Log::new();
        Self::with(Embedded::builder(), tls, make(&log), log)
    }

    fn names(&mut self) -> Vec<String> {
        self.channel.with_pipeline(|pipeline| pipeline.names()).unwrap_or_default()
    }

    fn error(&mut self) -> Error {
        self.channel.read_error().expect("an error")
    }

    fn is_open(&self) -> bool {
        self.channel.channel().is_open()
    }
}

/// Both handlers of a connection: the server accepts `server`, the client offers `client`.
fn ends(server: &[&str], client: &[&str]) -> (TlsHandler, TlsHandler) {
    let identity = Identity::new(NAME);
    let (certificate, key) = (identity.certificate.as_bytes(), identity.key.as_bytes());
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    let server = ServerTls::builder().certificate_pem(certificate, key).alpn(names(server));
    let client = ClientTls::builder().trust_pem("roots", certificate).alpn(names(client));
    let name = ServerName::try_from(NAME).unwrap();
    let client = TlsHandler::client(client.build().unwrap(), name);
    (TlsHandler::server(server.build().unwrap()), client)
}

/// Moves bytes both ways until both ends are silent.
fn exchange(client: &mut Embedded, server: &mut Embedded, cut: usize) {
    fn sent(channel: &mut Embedded) -> Vec<u8> {
        (0..4).for_each(|_| channel.run());
        let parts = std::iter::from_fn(|| channel.read_outbound::<Bytes>());
        parts.flatten().collect()
    }
    loop {
        let (to_server, to_client) = (sent(client), sent(server));
        if to_server.is_empty() && to_client.is_empty() {
            return;
        }
        deliver(server, &to_server, cut);
        deliver(client, &to_client, cut);
    }
}

/// Runs a handshake against a plain client end.
fn serve(
    server: &[&str],
    client: &[&str],
    make: impl FnOnce(&Log) -> AlpnHandlerBuilder,
) -> (Bench, Embedded) {
    let (tls, peer) = ends(server, client);
    let mut bench = Bench::new(tls, make);
    let mut peer = Embedded::builder()
        .stream()
        .build(|edit| {
            edit.add_last("tls", peer)?;
            Ok(())
        })
        .unwrap();
    exchange(&mut peer, &mut bench.channel, usize::MAX);
    (bench, peer)
}

#[test]
fn t03_the_negotiated_protocol_chooses_the_pipeline_on_both_sides() {
    let cases = [
        (&["h2", "http/1.1"][..], &["http/1.1", "h2"][..], "h2"),
        (&["http/1.1"], &["h2", "http/1.1"], "http/1.1"),
        (&["h2", "http/1.1"], &[], "otherwise"),
        (&[], &["h2", "http/1.1"], "otherwise"),
    ];
    for (accepted, offered, expected) in cases {
        let (server, client) = ends(accepted, offered);
        let make = |log: &Log| http(log).otherwise(record(log, "otherwise"));
        let (mut server, mut client) = (Bench::new(server, make), Bench::new(client, make));
        drop(client.channel.write_outbound(Bytes::from_static(b"request")));
        drop(server.channel.write_outbound(Bytes::from_static(b"answer")));
        exchange(&mut client.channel, &mut server.channel, usize::MAX);
        for (side, text) in [(&mut server, "request"), (&mut client, "answer")] {
            let mut lines = side.log.take();
            lines.retain(|line| !line.ends_with("on_read_complete"));
            let expected_lines = ["on_added", "on_active", HANDSHAKE, &format!("on_read {text}")]
                .map(|line| format!("{expected} {line}"));
            assert_eq!(lines, expected_lines);
            assert_eq!(side.names(), ["tls", expected]);
        }
    }
}

#[test]
fn t03_events_that_came_meanwhile_come_before_the_handshake() {
    let (tls, peer) = ends(&["h2"], &["h2"]);
    let (mut bench, mut peer) = (Bench::new(tls, http), Bench::new(peer, http));
    bench.channel.fire_user_event(String::from("early"));
    assert_eq!(bench.log.take(), [""; 0]);
    exchange(&mut peer.channel, &mut bench.channel, usize::MAX);
    let expected = ["on_added", "on_active", "on_user_event early", HANDSHAKE, "on_read_complete"];
    assert_eq!(bench.log.take(), expected.map(|line| format!("h2 {line}")));
}

#[test]
fn t03_at_most_sixteen_events_are_held_and_the_handshake_is_not_lost_among_them() {
    let (tls, peer) = ends(&["h2"], &["h2"]);
    let (mut bench, mut peer) = (Bench::new(tls, http), Bench::new(peer, http));
    for at in 0..20 {
        bench.channel.fire_user_event(format!("{at}"));
    }
    exchange(&mut peer.channel, &mut bench.channel, usize::MAX);
    let lines = bench.log.take();
    let expected: Vec<_> = (0..16).map(|at| format!("h2 on_user_event {at}")).collect();
    assert_eq!(lines[2..18], expected, "the other four passed before");
    assert_eq!(lines[18], format!("h2 {HANDSHAKE}"));
}

#[test]
fn t03_a_failed_handshake_chooses_nothing_and_its_error_goes_on() {
    // The certificate is of another server.
    let (server, _) = ends(&["h2"], &["h2"]);
    let (_, client) = ends(&["h2"], &["h2"]);
    let (mut server, log) = (Bench::new(server, http), Log::new());
    let alpn = http(&log).build().unwrap();
    let mut client = Embedded::builder()
        .stream()
        .build(|edit| {
            edit.add_last("tls", client)?;
            edit.add_last("alpn", alpn)?;
            edit.add_last("app", log.recorder().interest(inbound()))?;
            Ok(())
        })
        .unwrap();
    exchange(&mut client, &mut server.channel, usize::MAX);
    let lines = log.take();
    assert_eq!(lines[0], "app on_added");
    assert!(lines[1].starts_with("app on_error the TLS handshake failed"), "{lines:?}");
    assert_eq!(lines[2..], ["app on_removed", "app dropped"], "neither active nor inactive");
    assert!(server.error().find::<TlsError>().is_some());
    assert_eq!(server.log.take(), [""; 0]);
    assert!(!server.is_open() && !client.channel().is_open());
}

#[test]
fn t03_a_mismatch_is_no_application_protocol_on_both_sides() {
    let (server, client) = ends(&["h2"], &["http/1.1"]);
    let (mut server, mut client) = (Bench::new(server, http), Bench::new(client, http));
    exchange(&mut client.channel, &mut server.channel, usize::MAX);
    let expected = TlsError::Handshake(rustls::Error::NoApplicationProtocol);
    let error = server.error();
    assert_eq!(error.find::<TlsError>(), Some(&expected));
    let text = "the TLS handshake failed: the client offers no application protocol (ALPN) that the server names";
    assert_eq!(error.to_string(), text);
    let alert = rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol);
    assert_eq!(client.error().find::<TlsError>(), Some(&TlsError::Handshake(alert)));
    assert_eq!([server.log.take(), client.log.take()].concat(), [""; 0]);
    assert!(!server.is_open() && !client.is_open());
}

#[test]
fn t03_without_a_fallback_a_peer_without_alpn_is_refused_in_order() {
    let (mut bench, mut peer) = serve(&["h2"], &[], http);
    let error = bench.error();
    assert!(matches!(error.find(), Some(AlpnError::NotNegotiated { .. })), "{error}");
    let text =
        "ALPN: the peer has negotiated no application protocol; accepted are 'h2', 'http/1.1'";
    assert_eq!(error.to_string(), text);
    assert!(!bench.is_open());
    assert_eq!(bench.log.take(), [""; 0]);
    assert!(peer.read_error().is_none(), "the peer got a close_notify");
    assert!(!peer.channel().is_open());
}

#[test]
fn t03_a_protocol_without_a_pipeline_never_gets_the_fallback() {
    let make = |log: &Log| http(log).otherwise(record(log, "otherwise"));
    let (mut bench, _peer) = serve(&["spdy/3"], &["spdy/3"], make);
    let error = bench.error();
    assert!(matches!(error.find(), Some(AlpnError::UnknownProtocol { .. })), "{error}");
    assert!(error.to_string().contains("'spdy/3'"), "{error}");
    assert!(!bench.is_open());
    assert_eq!(bench.log.take(), [""; 0]);
}

/// A channel without TLS.
fn plain(options: ChannelOptions) -> Bench {
    let (log, faults) = (Log::new(), Log::new());
    let alpn = http(&log).build().unwrap();
    let builder = Embedded::builder().stream().options(options);
    let channel = builder.build(|edit| {
        edit.add_last("alpn", alpn)?;
        Ok(())
    });
    Bench { channel: channel.unwrap(), log, faults }
}

#[test]
fn t03_plain_bytes_without_tls_are_a_clear_error() {
    let mut bench = plain(ChannelOptions::default());
    bench.channel.write_inbound(Bytes::from_static(b"GET / HTTP/1.1\r\n\r\n"));
    let error = bench.error();
    let text = error.to_string();
    assert!(text.starts_with("ALPN: 18 bytes came before a TLS handshake"), "{text}");
    assert!(text.contains("'GET / HTTP/1.1\\r\\n\\r\\n'"), "{text}");
    bench.channel.write_inbound(Bytes::from_static(b"more"));
    assert!(!bench.is_open() && bench.channel.read_inbound_any().is_none());
    assert_eq!(bench.log.take(), [""; 0]);
}

#[test]
fn t03_a_plain_stream_that_ends_is_closed() {
    let mut bench = plain(ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() });
    bench.channel.fire_user_event(HalfClosed::Input);
    let error = bench.error();
    assert!(matches!(error.find(), Some(AlpnError::Ended)), "{error}");
    assert!(!bench.is_open());
}

#[test]
fn t03_a_handler_that_removes_the_alpn_handler_at_its_error_gets_everything() {
    let log = Log::new();
    let alpn = http(&log).build().unwrap();
    let mut channel = Embedded::builder()
        .stream()
        .build(|edit| {
            edit.add_last("alpn", alpn)?;
            let recorder = log.recorder().interest(inbound()).holds(RecordedMethod::Error);
            let remove = |ctx: &Ctx<'_>| Ok(ctx.pipeline().remove("alpn")?);
            edit.add_last("app", recorder.at(RecordedMethod::Error, remove))?;
            Ok(())
        })
        .unwrap();
    channel.write_inbound(Bytes::from_static(b"plain"));
    let lines = log.take();
    assert!(lines[1].starts_with("app on_error ALPN"), "{lines:?}");
    assert_eq!(lines[2..], ["app on_active", "app on_read plain", "app on_read_complete"]);
    assert!(channel.channel().is_open());
}

#[test]
fn t03_an_initialiser_that_fails_closes_the_channel_with_its_error() {
    let (mut bench, peer) = serve(&["h2"], &["h2"], |log| {
        let log = log.clone();
        AlpnHandler::builder().on("h2", move |edit| {
            edit.add_last("h2", log.recorder())?;
            Err(Error::new("no room"))
        })
    });
    let error = bench.error();
    assert_eq!(error.to_string(), "ALPN: the initialiser of 'h2' failed: no room");
    assert!(!bench.is_open() && !peer.channel().is_open());
    assert_eq!(bench.log.take(), ["never-added dropped"], "the edit was undone");
}

#[test]
fn t03_a_handler_that_cannot_be_added_closes_the_channel() {
    let (mut bench, _peer) = serve(&["h2"], &["h2"], |log| {
        let log = log.clone();
        AlpnHandler::builder().on("h2", move |edit| {
            let fails = |_: &Ctx<'_>| Err(Error::new("not now"));
            edit.add_last("h2", log.recorder().at(RecordedMethod::Added, fails))?;
            Ok(())
        })
    });
    let error = bench.error();
    assert!(matches!(error.find(), Some(PipelineError::NotAdded { .. })), "{error}");
    assert!(!bench.is_open());
}

#[test]
fn t03_an_initialiser_that_panics_closes_the_channel() {
    let (bench, _peer) =
        serve(&["h2"], &["h2"], |_| AlpnHandler::builder().on("h2", |_| panic!("a defect")));
    assert!(!bench.is_open());
    let faults = bench.faults.take();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("`alpn`") && faults[0].contains("a defect"), "{faults:?}");
}

#[test]
fn t03_after_a_close_in_the_initialiser_its_handlers_see_beginning_and_end() {
    let (bench, _peer) = serve(&["h2"], &["h2"], |log| {
        let record = record(log, "h2");
        AlpnHandler::builder().on("h2", move |edit| {
            record(edit)?;
            drop(edit.channel().close());
            Ok(())
        })
    });
    assert!(!bench.is_open());
    let lines = bench.log.take();
    let expected = ["on_added", "on_active", HANDSHAKE].map(|line| format!("h2 {line}"));
    assert_eq!(lines[..3], expected);
    assert!(lines.contains(&String::from("h2 on_inactive")), "{lines:?}");
}

#[test]
fn t03_an_initialiser_may_replace_the_alpn_handler_itself() {
    let (mut bench, _peer) = serve(&["h2"], &["h2"], |log| {
        let log = log.clone();
        AlpnHandler::builder().on("h2", move |edit| {
            edit.replace("alpn", "h2", log.recorder().interest(inbound()))?;
            Ok(())
        })
    });
    let expected = ["on_added", "on_active", HANDSHAKE, "on_read_complete"];
    assert_eq!(bench.log.take(), expected.map(|line| format!("h2 {line}")));
    assert_eq!(bench.names(), ["tls", "h2"]);
}

#[test]
fn t03_a_handler_that_is_removed_from_outside_passes_on_what_it_has_held() {
    let (tls, peer) = ends(&["h2"], &["h2"]);
    let (mut bench, mut peer) = (Bench::new(tls, http), Bench::new(peer, http));
    bench.channel.fire_user_event(String::from("early"));
    let recorder = bench.log.recorder().interest(inbound());
    bench
        .channel
        .with_pipeline(|pipeline| {
            pipeline.edit(|edit| {
                edit.add_last("app", recorder)?;
                edit.remove("alpn")
            })
        })
        .unwrap()
        .unwrap();
    assert_eq!(bench.log.take(), ["app on_added", "app on_active", "app on_user_event early"]);
    exchange(&mut peer.channel, &mut bench.channel, usize::MAX);
    let mut lines = bench.log.take();
    lines.retain(|line| line != "app on_read_complete");
    assert_eq!(lines, [format!("app {HANDSHAKE}")]);
}

#[test]
fn t03_a_connection_that_closes_before_the_choice_announces_nothing() {
    let (tls, _) = ends(&["h2"], &["h2"]);
    let log = Log::new();
    let alpn = http(&log).build().unwrap();
    let mut channel = Embedded::builder()
        .stream()
        .build(|edit| {
            edit.add_last("tls", tls)?;
            edit.add_last("alpn", alpn)?;
            edit.add_last("app", log.recorder().interest(inbound()))?;
            Ok(())
        })
        .unwrap();
    channel.close();
    assert!(!channel.channel().is_open());
    let lines = log.take();
    assert!(!lines.iter().any(|line| line.ends_with("active")), "{lines:?}");
}

#[test]
fn t03_without_auto_read_the_chosen_handlers_ask_for_their_bytes() {
    let (tls, peer) = ends(&["h2"], &["h2"]);
    let log = Log::new();
    let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    let builder = Embedded::builder().options(options);
    let mut bench = Bench::with(builder, tls, http(&log), log);
    let mut peer = Bench::new(peer, http);
    exchange(&mut peer.channel, &mut bench.channel, usize::MAX);
    assert_eq!(bench.log.take().len(), 4, "added, active, handshake, the end of the round");
    drop(peer.channel.write_outbound(Bytes::from_static(b"data")));
    exchange(&mut peer.channel, &mut bench.channel, usize::MAX);
    assert_eq!(bench.log.take(), [""; 0], "nobody has asked");
    bench.channel.read();
    assert_eq!(bench.log.take(), ["h2 on_read data", "h2 on_read_complete"]);
}

#[test]
fn t03_every_clone_chooses_on_its_own_from_any_thread() {
    let log = Log::new();
    let alpn = http(&log).build().unwrap();
    assert_eq!(alpn.protocols().collect::<Vec<_>>(), [&b"h2"[..], b"http/1.1"]);
    let shared = Arc::new(Mutex::new(alpn));
    for protocol in ["h2", "http/1.1"] {
        let clone = std::thread::spawn({
            let shared = shared.clone();
            move || shared.lock().unwrap().clone()
        });
        let clone = clone.join().unwrap();
        let (tls, peer) = ends(&[protocol], &[protocol]);
        let mut peer = Bench::new(peer, http);
        let mut channel = Embedded::builder()
            .stream()
            .build(|edit| {
                edit.add_last("tls", tls)?;
                edit.add_last("alpn", clone)?;
                Ok(())
            })
            .unwrap();
        exchange(&mut peer.channel, &mut channel, usize::MAX);
        assert_eq!(log.take()[0], format!("{protocol} on_added"));
        drop(channel);
        drop(log.take());
    }
}

#[test]
fn t03_a_builder_refuses_what_no_peer_could_choose() {
    let none = |_: &mut Edit<'_>| Ok(());
    let build = |builder: AlpnHandlerBuilder| builder.build().unwrap_err();
    assert_eq!(build(AlpnHandler::builder().otherwise(none)), InvalidAlpnHandler::NoProtocol);
    let twice = build(AlpnHandler::builder().on("h2", none).on("h2", none));
    assert_eq!(twice.to_string(), "two pipelines of an ALPN handler are for 'h2'");
    for length in [0, 256] {
        let error = build(AlpnHandler::builder().on(vec![b'x'; length], none));
        assert!(
            matches!(error, InvalidAlpnHandler::InvalidName { length: found, .. } if found == length)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn t03_any_cut_gives_the_same_beginning_and_every_byte_once(
        cut in 1usize..400,
        messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..6),
        is_late in any::<bool>(),
    ) {
        let (server, client) = ends(&["h2"], &["h2"]);
        let (mut server, mut client) = (Bench::new(server, http), Bench::new(client, http));
        if is_late {
            exchange(&mut client.channel, &mut server.channel, cut);
        }
        for message in &messages {
            drop(client.channel.write_outbound(Bytes::from(message.clone())));
            drop(server.channel.write_outbound(Bytes::from(message.clone())));
        }
        exchange(&mut client.channel, &mut server.channel, cut);
        let expected = messages.concat();
        for side in [&mut server, &mut client] {
            let lines = side.log.take();
            let beginning = ["on_added", "on_active", HANDSHAKE].map(|line| format!("h2 {line}"));
            prop_assert_eq!(&lines[..3], &beginning[..]);
            let others = lines[3..].iter().find(|line| !line.starts_with("h2 on_read"));
            prop_assert_eq!(others, None);
            let mut received = Vec::new();
            while let Some(bytes) = side.channel.read_inbound::<Bytes>() {
                received.extend_from_slice(&bytes);
            }
            prop_assert_eq!(&received, &expected);
        }
    }
}
