//! A client and a server that are joined by the test, which may cut, hold and damage the bytes between them.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::{ChannelOptions, Ctx, Events, HalfClosed, Handler, HandlerResult, Msg};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_tls::rustls::ClientConfig;
use waterwheel_tls::rustls::pki_types::ServerName;
use waterwheel_tls::{
    ClientTls, ServerTls, TlsHandler, TlsHandshake, TlsOptions, TlsPeerClosed, TlsStopped,
};

/// The name in the server's certificate.
pub(crate) const NAME: &str = "wheel.example";

/// A certificate that signs itself, and its key, as PEM text.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Identity {
    pub(crate) fn new(name: &str) -> Self {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        Self { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }
}

pub(crate) struct Configs {
    pub(crate) server: ServerTls,
    pub(crate) client: ClientTls,
}

impl Configs {
    pub(crate) fn new() -> Self {
        let identity = Identity::new(NAME);
        let (certificate, key) = (identity.certificate.as_bytes(), identity.key.as_bytes());
        let server = ServerTls::builder().certificate_pem(certificate, key).alpn(["b", "a"]);
        let client = ClientTls::builder().trust_pem("roots", certificate).alpn(["a", "b"]);
        Self { server: server.build().unwrap(), client: client.build().unwrap() }
    }

    /// Returns configurations with TLS 1.2 only.
    pub(crate) fn tls12() -> Self {
        let mut configs = Self::new();
        let identity = Identity::new(NAME);
        let mut roots = waterwheel_tls::rustls::RootCertStore::empty();
        let parsed = |pem: &str| {
            use waterwheel_tls::rustls::pki_types::pem::PemObject;
            waterwheel_tls::rustls::pki_types::CertificateDer::from_pem_slice(pem.as_bytes())
                .unwrap()
        };
        roots.add(parsed(&identity.certificate)).unwrap();
        let provider = configs.client.config().crypto_provider().clone();
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&waterwheel_tls::rustls::version::TLS12])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        configs.client = client.into();
        let (certificate, key) = (identity.certificate.as_bytes(), identity.key.as_bytes());
        configs.server = ServerTls::builder().certificate_pem(certificate, key).build().unwrap();
        configs
    }
}

/// The user events that a handler after TLS has seen.
#[derive(Clone, Default)]
pub(crate) struct EventLog(Rc<RefCell<Vec<String>>>, Rc<RefCell<Option<TlsHandshake>>>);

impl EventLog {
    pub(crate) fn take(&self) -> Vec<String> {
        self.0.take()
    }

    pub(crate) fn handshake(&self) -> Option<TlsHandshake> {
        self.1.borrow().clone()
    }
}

struct Watch(EventLog);

impl Handler for Watch {
    fn interest(&self) -> Events {
        Events::USER_EVENT
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        let name = if let Some(handshake) = event.get::<TlsHandshake>() {
            *self.0.1.borrow_mut() = Some(handshake.clone());
            "handshake".into()
        } else if event.is::<TlsPeerClosed>() {
            "peer closed".into()
        } else if event.is::<TlsStopped>() {
            "stopped".into()
        } else if let Some(half) = event.get::<HalfClosed>() {
            format!("{half:?} over")
        } else {
            event.type_name().into()
        };
        self.0.0.borrow_mut().push(name);
        ctx.fire_user_event(event);
        Ok(())
    }
}

/// One end: its channel, and the events after TLS.
pub(crate) struct End {
    pub(crate) channel: Embedded,
    pub(crate) events: EventLog,
}

impl End {
    pub(crate) fn new(tls: TlsHandler, options: ChannelOptions) -> Self {
        let events = EventLog::default();
        let watch = Watch(events.clone());
        let channel = Embedded::builder().stream().options(options).build(|edit| {
            edit.add_last("tls", tls)?;
            edit.add_last("watch", watch)?;
            Ok(())
        });
        Self { channel: channel.unwrap(), events }
    }

    /// Inserts a handler before TLS.
    pub(crate) fn insert_first(&mut self, handler: impl Handler) {
        let added = self.channel.with_pipeline(|pipeline| {
            pipeline.edit(|edit| edit.add_first("first", handler).map(drop))
        });
        added.unwrap().unwrap();
    }

    /// Runs what is due by now: the handler is called back by timers without a delay.
    pub(crate) fn settle(&mut self) {
        for _ in 0..4 {
            self.channel.run();
        }
    }

    /// Takes all plaintext that was read.
    pub(crate) fn received(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(bytes) = self.channel.read_inbound::<Bytes>() {
            all.extend_from_slice(&bytes);
        }
        all
    }

    /// Takes all ciphertext that was written.
    pub(crate) fn sent(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(bytes) = self.channel.read_outbound::<Bytes>() {
            all.extend_from_slice(&bytes);
        }
        all
    }
}

pub(crate) struct Link {
    pub(crate) client: End,
    pub(crate) server: End,
    /// The largest piece in which bytes arrive.
    pub(crate) cut: usize,
}

impl Link {
    pub(crate) fn new() -> Self {
        Self::with(&Configs::new(), TlsOptions::default())
    }

    pub(crate) fn with(configs: &Configs, options: TlsOptions) -> Self {
        let name = ServerName::try_from(NAME).unwrap();
        let client = TlsHandler::client(configs.client.clone(), name).with_options(options);
        let server = TlsHandler::server(configs.server.clone()).with_options(options);
        Self {
            client: End::new(client, ChannelOptions::default()),
            server: End::new(server, ChannelOptions::default()),
            cut: usize::MAX,
        }
    }

    /// A link whose handshake is done.
    pub(crate) fn established(options: TlsOptions) -> Self {
        let mut link = Self::with(&Configs::new(), options);
        link.exchange();
        assert_eq!(link.client.events.take(), ["handshake"]);
        assert_eq!(link.server.events.take(), ["handshake"]);
        link
    }

    /// Moves bytes both ways until both ends are silent.
    pub(crate) fn exchange(&mut self) {
        loop {
            self.client.settle();
            self.server.settle();
            let (to_server, to_client) = (self.client.sent(), self.server.sent());
            if to_server.is_empty() && to_client.is_empty() {
                return;
            }
            deliver(&mut self.server.channel, &to_server, self.cut);
            deliver(&mut self.client.channel, &to_client, self.cut);
        }
    }
}

pub(crate) fn deliver(to: &mut Embedded, bytes: &[u8], cut: usize) {
    for piece in bytes.chunks(cut) {
        to.write_inbound(Bytes::copy_from_slice(piece));
    }
}
