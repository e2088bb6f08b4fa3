//! T03: the configuration of a server, chosen when the ClientHello is known.

use std::future::pending;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{ChannelOptions, Ctx, Handler, HandlerResult, Msg};
use waterwheel_executor::{Error, ImmediateExecutor, Promise, PromiseFuture};
use waterwheel_tls::rustls::{self, AlertDescription, ProtocolVersion};
use waterwheel_tls::{
    ClientHello, ClientHelloError, ServerTls, TlsError, TlsHandler, TlsHandshake, TlsOptions,
};

use crate::support::{Configs, End, Link, NAME, deliver};

/// A link to a server with this configuration.
fn link(configs: &Configs, server: ServerTls) -> Link {
    let mut link = Link::with(configs, TlsOptions::default());
    link.server = End::new(TlsHandler::server(server), ChannelOptions::default());
    link
}

/// A server that waits for its configuration, the promise of which is with the test.
struct LateServer {
    link: Link,
    promise: Promise<Option<ServerTls>>,
    configs: Configs,
    futures: Arc<AtomicUsize>,
}

/// Counts the futures that exist.
struct FutureCount(Arc<AtomicUsize>);

impl Drop for FutureCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl LateServer {
    /// Returns a server that has asked for its configuration.
    fn new() -> Self {
        let mut late = Self::before_hello();
        late.link.exchange();
        assert_eq!(late.futures(), 1, "asked");
        late
    }

    fn before_hello() -> Self {
        Self::with_options(ChannelOptions::default())
    }

    fn with_options(options: ChannelOptions) -> Self {
        let configs = Configs::new();
        let (promise, future) = ImmediateExecutor.new_promise::<Option<ServerTls>>();
        let future = Mutex::new(Some(future));
        let futures = Arc::new(AtomicUsize::new(0));
        let counter = futures.clone();
        let server = ServerTls::chosen_by(move |_| {
            let future: PromiseFuture<_> = future.lock().unwrap().take().expect("asked once");
            counter.fetch_add(1, Ordering::Relaxed);
            let count = FutureCount(counter.clone());
            async move {
                let chosen = future.await;
                drop(count);
                chosen
            }
        });
        let mut link = Link::with(&configs, TlsOptions::default());
        link.server = End::new(TlsHandler::server(server), options);
        Self { link, promise, configs, futures }
    }

    fn futures(&self) -> usize {
        self.futures.load(Ordering::Relaxed)
    }

    fn error(&mut self) -> TlsError {
        let error = self.link.server.channel.read_error().expect("an error");
        error.find::<TlsError>().unwrap().clone()
    }

    /// Checks that the choice was dropped, and that its outcome changes nothing.
    fn assert_cancelled(mut self) {
        self.link.server.settle();
        assert_eq!(self.futures(), 0, "the future was dropped");
        self.promise.set_success(Some(self.configs.server.clone()));
        self.link.server.settle();
        assert_eq!(self.link.server.sent(), b"");
        assert!(self.link.server.events.handshake().is_none());
    }
}

fn alert(alert: AlertDescription) -> Vec<u8> {
    vec![21, 3, 3, 0, 2, 2, u8::from(alert)]
}

#[test]
fn t03_a_lookup_chooses_the_configuration_by_the_clients_hello() {
    let configs = Configs::new();
    let chosen = configs.server.clone();
    let server = ServerTls::chosen_by_lookup(move |hello| {
        assert_eq!(hello.alpn().collect::<Vec<_>>(), [b"a", b"b"]);
        assert!(hello.versions().contains(&ProtocolVersion::TLSv1_3));
        Ok((hello.server_name() == Some(NAME)).then(|| chosen.clone()))
    });
    let mut link = link(&configs, server);
    link.exchange();
    let handshake = link.server.events.handshake().unwrap();
    assert_eq!(handshake.server_name.as_deref(), Some(NAME));
    assert_eq!(link.client.events.take(), ["handshake"]);
}

#[test]
fn t03_a_choice_works_with_tls_1_2_and_with_bytes_one_by_one() {
    for configs in [Configs::tls12(), Configs::new()] {
        let chosen = configs.server.clone();
        let server = ServerTls::chosen_by_lookup(move |_| Ok(Some(chosen.clone())));
        let mut link = link(&configs, server);
        link.cut = 1;
        link.exchange();
        drop(link.client.channel.write_outbound(Bytes::from_static(b"data")));
        link.exchange();
        assert_eq!(link.server.received(), b"data");
    }
}

#[test]
fn t03_a_future_may_choose_later_and_writes_wait_for_it() {
    let mut late = LateServer::before_hello();
    let write = late.link.server.channel.write_outbound(Bytes::from_static(b"greeting"));
    late.link.exchange();
    assert_eq!(late.link.server.sent(), b"");
    assert!(late.link.server.events.handshake().is_none());
    late.promise.set_success(Some(late.configs.server.clone()));
    late.link.exchange();
    assert_eq!(late.link.server.events.take(), ["handshake"]);
    assert_eq!(late.link.client.received(), b"greeting");
    write.join().unwrap();
    assert_eq!(late.futures.load(Ordering::Relaxed), 0);
}

#[test]
fn t03_a_future_that_is_ready_at_once_chooses() {
    let configs = Configs::new();
    let chosen = configs.server.clone();
    let server = ServerTls::chosen_by(move |hello: ClientHello| {
        let chosen = chosen.clone();
        async move { Ok(hello.server_name().is_some().then_some(chosen)) }
    });
    let mut link = link(&configs, server);
    link.exchange();
    assert_eq!(link.server.events.take(), ["handshake"]);
}

#[test]
fn t03_reads_are_paused_while_the_choice_is_under_way_and_go_on_after_it() {
    let mut late = LateServer::new();
    deliver(&mut late.link.server.channel, b"\x15\x03\x03\x00\x02\x02\x28", usize::MAX);
    assert_eq!(late.link.server.channel.unread(), 1);
    late.promise.set_success(Some(late.configs.server.clone()));
    late.link.server.settle();
    assert_eq!(late.link.server.channel.unread(), 0);
    let alert = rustls::Error::AlertReceived(AlertDescription::HandshakeFailure);
    let error = late.link.server.channel.read_error().unwrap();
    assert_eq!(error.find::<TlsError>(), Some(&TlsError::Handshake(alert)));
}

/// Cuts what is read into pieces, which follow each other whether reads are paused or not.
struct Cut(usize);

impl Handler for Cut {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let mut bytes = msg.into_bytes().expect("bytes");
        while !bytes.is_empty() {
            ctx.fire_read(bytes.split_to(self.0.min(bytes.len())));
        }
        Ok(())
    }
}

#[test]
fn t03_bytes_that_arrive_during_the_choice_are_replayed_in_order() {
    // The choice begins with the hello's last byte, in the middle of a message; an alert comes behind it.
    for cut in [1, 3, 100, 10_000] {
        let mut late = LateServer::before_hello();
        late.link.server.insert_first(Cut(cut));
        late.link.client.settle();
        let mut bytes = late.link.client.sent();
        bytes.extend_from_slice(b"\x15\x03\x03\x00\x02\x02\x28");
        deliver(&mut late.link.server.channel, &bytes, usize::MAX);
        late.link.server.settle();
        assert!(late.link.server.channel.channel().is_open());
        late.promise.set_success(Some(late.configs.server.clone()));
        late.link.server.settle();
        let alert = rustls::Error::AlertReceived(AlertDescription::HandshakeFailure);
        let error = late.link.server.channel.read_error().unwrap();
        assert_eq!(error.find::<TlsError>(), Some(&TlsError::Handshake(alert)), "cut {cut}");
        assert_eq!(late.link.server.sent().first(), Some(&22), "the hello was answered before");
    }
}

#[test]
fn t03_more_than_64_kib_during_the_choice_end_the_connection() {
    for (more, is_open) in [(64 * 1024, true), (64 * 1024 + 1, false)] {
        let mut late = LateServer::before_hello();
        late.link.server.insert_first(Cut(1));
        late.link.client.settle();
        let mut bytes = late.link.client.sent();
        bytes.resize(bytes.len() + more, 0);
        deliver(&mut late.link.server.channel, &bytes, usize::MAX);
        late.link.server.settle();
        assert_eq!(late.link.server.channel.channel().is_open(), is_open);
        if !is_open {
            assert_eq!(late.error(), TlsError::ChoiceInputTooLong { limit: 64 * 1024 });
            assert_eq!(late.link.server.sent(), alert(AlertDescription::InternalError));
            late.assert_cancelled();
        }
    }
}

#[test]
fn t03_no_configuration_for_a_name_is_refused_with_unrecognized_name() {
    let configs = Configs::new();
    let mut link = link(&configs, ServerTls::chosen_by_lookup(|_| Ok(None)));
    link.exchange();
    let error = link.server.channel.read_error().unwrap();
    let expected = TlsError::UnrecognizedName { name: Some(NAME.into()) };
    assert_eq!(error.find::<TlsError>(), Some(&expected));
    let error = link.client.channel.read_error().unwrap();
    let received = rustls::Error::AlertReceived(AlertDescription::UnrecognisedName);
    assert_eq!(error.find::<TlsError>(), Some(&TlsError::Handshake(received)));
    assert!(!link.server.channel.channel().is_open());
}

#[test]
fn t03_no_configuration_for_a_client_without_a_name_is_a_missing_extension() {
    let mut configs = Configs::new();
    let mut client = (**configs.client.config()).clone();
    client.enable_sni = false;
    configs.client = client.into();
    let mut link = link(&configs, ServerTls::chosen_by_lookup(|_| Ok(None)));
    link.client.settle();
    deliver(&mut link.server.channel, &link.client.sent(), 100);
    assert_eq!(link.server.sent(), alert(AlertDescription::MissingExtension));
    let error = link.server.channel.read_error().unwrap();
    assert_eq!(error.find::<TlsError>(), Some(&TlsError::UnrecognizedName { name: None }));
}

#[test]
fn t03_a_choice_that_fails_ends_the_connection_with_internal_error() {
    #[derive(Debug, thiserror::Error)]
    #[error("the store is down")]
    struct StoreDown;

    let mut late = LateServer::new();
    late.promise.set_failure(Error::new(StoreDown));
    late.link.server.settle();
    assert_eq!(late.link.server.sent(), alert(AlertDescription::InternalError));
    let error = late.link.server.channel.read_error().unwrap();
    assert!(matches!(error.find::<TlsError>(), Some(TlsError::ChoiceFailed(_))), "{error}");
    assert!(error.find::<StoreDown>().is_some(), "the user's error is the source");
    assert_eq!(error.to_string(), "the TLS configuration could not be chosen: the store is down");
    assert!(!late.link.server.channel.channel().is_open());
}

#[test]
fn t03_a_chooser_that_panics_ends_the_connection_with_internal_error() {
    let at_once = ServerTls::chosen_by_lookup(|_| panic!("on purpose"));
    #[expect(unreachable_code, reason = "panics before a future exists")]
    let in_call = ServerTls::chosen_by(|_| {
        panic!("on purpose");
        async { Ok(None) }
    });
    let in_future = ServerTls::chosen_by(|_| async { panic!("on purpose") });
    for server in [at_once, in_call, in_future] {
        let mut link = link(&Configs::new(), server);
        link.client.settle();
        deliver(&mut link.server.channel, &link.client.sent(), usize::MAX);
        link.server.settle();
        assert_eq!(link.server.sent(), alert(AlertDescription::InternalError));
        let error = link.server.channel.read_error().unwrap();
        assert!(matches!(error.find::<TlsError>(), Some(TlsError::ChoiceFailed(_))), "{error}");
        assert!(error.to_string().contains("on purpose"), "{error}");
        assert!(!link.server.channel.channel().is_open());
    }
}

#[test]
fn t03_a_chooser_that_returns_another_chooser_fails() {
    let server =
        ServerTls::chosen_by_lookup(|_| Ok(Some(ServerTls::chosen_by_lookup(|_| Ok(None)))));
    let mut link = link(&Configs::new(), server);
    link.exchange();
    let error = link.server.channel.read_error().unwrap();
    assert!(matches!(error.find::<TlsError>(), Some(TlsError::ChoiceFailed(_))), "{error}");
}

#[test]
fn t03_an_invalid_hello_is_refused_with_its_alert_and_never_reaches_the_chooser() {
    let server = ServerTls::chosen_by_lookup(|_| unreachable!("not asked"));
    for (bytes, sent) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], AlertDescription::DecodeError),
        (&b"\x15\x03\x03\x00\x02\x02\x28"[..], AlertDescription::UnexpectedMessage),
        (&b"\x16\x03\x01\x00\x04\x01\xff\xff\xff"[..], AlertDescription::DecodeError),
    ] {
        let mut end = End::new(TlsHandler::server(server.clone()), ChannelOptions::default());
        deliver(&mut end.channel, bytes, usize::MAX);
        assert_eq!(end.sent(), alert(sent));
        let error = end.channel.read_error().unwrap();
        assert!(matches!(error.find::<TlsError>(), Some(TlsError::ClientHello(_))), "{error}");
        assert!(!end.channel.channel().is_open());
        assert!(end.channel.read_error().is_none(), "one error, not two");
    }
    let too_long = ClientHelloError::TooLong { limit: 64 * 1024 };
    assert_eq!(too_long.to_string(), "the ClientHello is longer than the limit of 65536 bytes");
}

#[test]
fn t03_the_limit_of_the_handshake_holds_during_the_choice() {
    let (promise, mut outcome) = ImmediateExecutor.new_promise::<TlsHandshake>();
    let limit = Duration::from_secs(5);
    let options = TlsOptions::builder().handshake_timeout(limit).build().unwrap();
    let dropped = Arc::new(AtomicUsize::new(1));
    let counter = dropped.clone();
    let server = ServerTls::chosen_by(move |_| {
        let count = FutureCount(counter.clone());
        async move {
            let _count = count;
            pending().await
        }
    });
    let mut link = Link::new();
    let tls = TlsHandler::server(server).with_options(options).complete_handshake(promise);
    link.server = End::new(tls, ChannelOptions::default());
    link.exchange();
    link.server.channel.advance(limit);
    let expected = TlsError::HandshakeTimeout { limit };
    let error = link.server.channel.read_error().unwrap();
    assert_eq!(error.find::<TlsError>(), Some(&expected));
    assert_eq!(outcome.try_take().unwrap().unwrap_err().find::<TlsError>(), Some(&expected));
    link.server.settle();
    assert_eq!(dropped.load(Ordering::Relaxed), 0, "the future was dropped");
}

#[test]
fn t03_a_close_cancels_the_choice() {
    let mut late = LateServer::new();
    let unflushed = late.link.server.channel.channel().write(Bytes::from_static(b"x"));
    late.link.server.settle();
    drop(late.link.server.channel.channel().close());
    late.link.server.settle();
    assert!(!late.link.server.channel.channel().is_open());
    assert!(unflushed.join().is_err());
    late.assert_cancelled();
}

#[test]
fn t03_the_removal_of_the_handler_cancels_the_choice_and_reads_go_on() {
    let mut late = LateServer::new();
    let removed = late.link.server.channel.with_pipeline(|pipeline| pipeline.remove("tls").is_ok());
    assert_eq!(removed, Some(true));
    late.link.server.settle();
    deliver(&mut late.link.server.channel, b"plain", usize::MAX);
    assert_eq!(late.link.server.received(), b"plain");
    late.assert_cancelled();
}

#[test]
fn t03_the_end_of_the_peer_cancels_the_choice() {
    for allow_half_closure in [false, true] {
        let options = ChannelOptions { allow_half_closure, ..ChannelOptions::default() };
        let mut late = LateServer::with_options(options);
        late.link.exchange();
        late.link.server.channel.finish_inbound();
        late.link.server.settle();
        assert_eq!(late.error(), TlsError::HandshakeCutOff);
        assert!(!late.link.server.channel.channel().is_open());
        late.assert_cancelled();
    }
}

#[test]
fn t03_a_connection_that_breaks_cancels_the_choice() {
    let mut late = LateServer::new();
    late.link.server.channel.fail(Error::from(io::Error::from(io::ErrorKind::ConnectionReset)));
    late.link.server.settle();
    let error = late.link.server.channel.read_error().unwrap();
    assert_eq!(error.io_kind(), Some(io::ErrorKind::ConnectionReset));
    late.assert_cancelled();
}

#[test]
fn t03_a_connection_asks_its_chooser_once() {
    let count = Arc::new(AtomicUsize::new(0));
    let (configs, counter) = (Configs::new(), count.clone());
    let chosen = configs.server.clone();
    let server = ServerTls::chosen_by_lookup(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(Some(chosen.clone()))
    });
    let mut link = link(&configs, server);
    link.cut = 7;
    link.exchange();
    assert_eq!(link.server.events.take(), ["handshake"]);
    assert_eq!(count.load(Ordering::Relaxed), 1);
}
