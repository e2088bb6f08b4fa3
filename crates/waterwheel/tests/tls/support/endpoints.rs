//! Our end of a connection: servers and clients whose last handler reports what it sees.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Bootstrap, Channel, ChannelOptions, Ctx, EventLoopGroup, Events, HalfClosed, Handler,
    HandlerResult, Msg, ServerBootstrap,
};
use waterwheel::executor::Error;
use waterwheel::net::{Auto, Tcp};
use waterwheel::tls::rustls;
use waterwheel::tls::rustls::pki_types::ServerName;
use waterwheel::tls::{
    ClientTls, ServerTls, TlsError, TlsHandler, TlsHandshake, TlsOptions, TlsPeerClosed,
};

use super::NAME;

/// The longest wait for an event: a guard against a hang, far longer than a busy machine needs.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// An event that the handler after TLS has seen.
#[derive(Debug)]
pub(crate) enum Seen {
    Handshake(TlsHandshake),
    Read(Bytes),
    /// The peer's close_notify.
    PeerClosed,
    InputClosed,
    Failed(Error),
    Inactive,
}

/// The treatment of plaintext by the last handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// Reports it.
    Report,
    /// Echoes it, and closes the channel after a line "bye".
    Echo,
    /// Echoes it, and answers the end of the peer's stream with "bye" and the end of its own.
    EchoAfterEnd,
    /// Answers a request of HTTP with a description of the connection, and closes the channel.
    Http,
}

/// Tells the test what it sees.
struct Reporter {
    service: Service,
    seen: Sender<Seen>,
    request: Vec<u8>,
    description: String,
}

impl Reporter {
    fn new(service: Service, seen: Sender<Seen>) -> Self {
        Self { service, seen, request: Vec::new(), description: String::new() }
    }

    fn report(&self, seen: Seen) {
        // A test that is over does not listen any more.
        let _ = self.seen.send(seen);
    }

    fn respond(&mut self, ctx: &Ctx<'_>) {
        if self.request.windows(4).any(|end| end == b"\r\n\r\n") {
            ctx.write_and_flush(Bytes::from(http_response(&self.description)));
            ctx.close();
        }
    }
}

impl Handler for Reporter {
    fn interest(&self) -> Events {
        Events::READ | Events::USER_EVENT | Events::ERROR | Events::INACTIVE
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let bytes = msg.into_bytes().unwrap_or_default();
        match self.service {
            Service::Report => self.report(Seen::Read(bytes)),
            Service::EchoAfterEnd => ctx.write_and_flush(bytes),
            Service::Echo => {
                let is_bye = bytes.ends_with(b"bye\n");
                ctx.write_and_flush(bytes);
                if is_bye {
                    ctx.close();
                }
            }
            Service::Http => {
                self.request.extend_from_slice(&bytes);
                self.respond(ctx);
            }
        }
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.is::<TlsPeerClosed>() {
            self.report(Seen::PeerClosed);
        } else if event.get::<HalfClosed>() == Some(&HalfClosed::Input) {
            self.report(Seen::InputClosed);
            if self.service == Service::EchoAfterEnd {
                ctx.write_and_flush(Bytes::from_static(b"bye\n"));
                ctx.shutdown_output();
            }
        } else if let Ok(handshake) = event.take::<TlsHandshake>() {
            self.description = describe(&handshake);
            self.report(Seen::Handshake(handshake));
        }
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        self.report(Seen::Failed(error));
        Ok(())
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.report(Seen::Inactive);
        Ok(())
    }
}

/// Returns a response of HTTP with this text.
pub(crate) fn http_response(text: &str) -> String {
    let len = text.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{text}")
}

/// Returns version, application protocol, name, number of client certificates and resumption in a line.
fn describe(handshake: &TlsHandshake) -> String {
    let TlsHandshake { version, alpn, server_name, peer_certificates, is_resumed, .. } = handshake;
    let alpn = alpn.as_deref().map_or("-".into(), String::from_utf8_lossy);
    let name = server_name.as_deref().unwrap_or("-");
    let version = version.and_then(|version| version.as_str()).unwrap_or("-");
    let resumed = if *is_resumed { "resumed" } else { "new" };
    format!("{version} {alpn} {name} {} {resumed}\n", peer_certificates.len())
}

/// The events of a channel, or of the connections of a server one after the other.
pub(crate) struct Observer(Receiver<Seen>);

impl Observer {
    pub(crate) fn next(&self) -> Seen {
        self.0.recv_timeout(WAIT_LIMIT).expect("an event comes")
    }

    /// Waits for the end of a handshake.
    pub(crate) fn handshake(&self) -> TlsHandshake {
        match self.next() {
            Seen::Handshake(handshake) => handshake,
            other => panic!("not a handshake: {other:?}"),
        }
    }

    /// Waits for a failure of TLS, and for the end of the channel.
    pub(crate) fn failure(&self) -> TlsError {
        let error = match self.next() {
            Seen::Failed(error) => error,
            other => panic!("not a failure: {other:?}"),
        };
        self.expect_inactive();
        error.find::<TlsError>().unwrap_or_else(|| panic!("not of TLS: {error}")).clone()
    }

    /// Waits for the failure of a handshake, and returns its cause.
    pub(crate) fn handshake_failure(&self) -> rustls::Error {
        match self.failure() {
            TlsError::Handshake(error) => error,
            other => panic!("not of the handshake: {other}"),
        }
    }

    /// Waits for the peer's close_notify and the end of the channel, without an error.
    pub(crate) fn expect_peer_closed(&self) {
        match self.next() {
            Seen::PeerClosed => self.expect_inactive(),
            other => panic!("not close_notify: {other:?}"),
        }
    }

    /// Waits for the end of the channel, without an error. The peer may have answered our close_notify in time.
    pub(crate) fn expect_end(&self) {
        match self.next() {
            Seen::Inactive => {}
            Seen::PeerClosed => self.expect_inactive(),
            other => panic!("not the end of the channel: {other:?}"),
        }
    }

    fn expect_inactive(&self) {
        let next = self.next();
        assert!(matches!(next, Seen::Inactive), "not the end of the channel: {next:?}");
    }

    /// Waits until this many bytes have been read.
    pub(crate) fn read(&self, len: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < len {
            match self.next() {
                Seen::Read(bytes) => all.extend_from_slice(&bytes),
                other => panic!("not data: {other:?}, after {} of {len} bytes", all.len()),
            }
        }
        all
    }
}

pub(crate) fn one_loop() -> EventLoopGroup {
    EventLoopGroup::builder(Auto).threads(1).build().unwrap()
}

/// A running server; it ends with the value.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) observer: Observer,
    _group: EventLoopGroup,
}

impl Server {
    pub(crate) fn start(config: ServerTls, service: Service) -> Self {
        Self::with_options(config, service, TlsOptions::default())
    }

    /// Starts a server on one loop: the events of successive connections come in order.
    pub(crate) fn with_options(config: ServerTls, service: Service, options: TlsOptions) -> Self {
        Self::on_loops(one_loop(), config, service, options)
    }

    /// Starts a server whose connections take turns on two loops.
    pub(crate) fn on_two_loops(config: ServerTls, service: Service) -> Self {
        let group = EventLoopGroup::builder(Auto).threads(2).build().unwrap();
        Self::on_loops(group, config, service, TlsOptions::default())
    }

    fn on_loops(
        group: EventLoopGroup,
        config: ServerTls,
        service: Service,
        options: TlsOptions,
    ) -> Self {
        let (sender, receiver) = channel();
        let server = ServerBootstrap::new(&group, Tcp)
            .child_options(ChannelOptions {
                allow_half_closure: service == Service::EchoAfterEnd,
                ..ChannelOptions::default()
            })
            .child_initialiser(move |edit| {
                let tls = TlsHandler::server(config.clone()).with_options(options);
                edit.add_last("tls", tls)?;
                edit.add_last("reporter", Reporter::new(service, sender.clone()))?;
                Ok(())
            })
            .bind("127.0.0.1:0")
            .join()
            .unwrap();
        let address = server.local_address().and_then(|address| address.socket_addr()).unwrap();
        Self { address, observer: Observer(receiver), _group: group }
    }

    pub(crate) fn port(&self) -> String {
        self.address.port().to_string()
    }
}

/// A connected client.
pub(crate) struct Client {
    pub(crate) channel: Channel,
    pub(crate) observer: Observer,
}

impl Client {
    /// Connects to a server called [`NAME`]. The handshake has only begun.
    pub(crate) fn connect(group: &EventLoopGroup, to: SocketAddr, config: &ClientTls) -> Self {
        Self::with_options(group, to, config, TlsOptions::default())
    }

    pub(crate) fn with_options(
        group: &EventLoopGroup,
        to: SocketAddr,
        config: &ClientTls,
        options: TlsOptions,
    ) -> Self {
        let config = config.clone();
        let (sender, receiver) = channel();
        let channel = Bootstrap::new(group, Tcp)
            .initialiser(move |edit| {
                let name = ServerName::try_from(NAME).map_err(Error::new)?;
                let tls = TlsHandler::client(config.clone(), name).with_options(options);
                edit.add_last("tls", tls)?;
                edit.add_last("reporter", Reporter::new(Service::Report, sender.clone()))?;
                Ok(())
            })
            .connect(to)
            .join()
            .unwrap();
        Self { channel, observer: Observer(receiver) }
    }

    pub(crate) fn send(&self, bytes: impl Into<Bytes>) {
        drop(self.channel.write_and_flush(bytes.into()));
    }

    /// Closes the channel in order, and waits for its end.
    pub(crate) fn close(self) {
        self.channel.close().join().unwrap();
        self.observer.expect_end();
    }
}
