//! A proxy that terminates TLS: TLS from the clients, plain text or TLS to a server behind it.
//!
//! ```sh
//! python3 -m http.server 8000                                            # any server
//! cargo run --release -p waterwheel --example tls_proxy -- \
//!     127.0.0.1:7443 cert.pem key.pem 127.0.0.1:8000                     # the pair made as for tls_echo
//! curl --cacert cert.pem https://localhost:7443/
//! ```
//!
//! `--backend-tls ROOTS.pem NAME` speaks TLS to the server, whose certificate has to be valid for NAME; `--proxy-v2`
//! tells it the client's address, and the name that the client asked for, by a PROXY header.
//!
//! ```text
//!   client ⇄ tls ⇄ flow control ⇄ front ⇄ back [⇄ tls ⇄ PROXY header] ⇄ server
//! ```
//!
//! Shows the handlers of a plain proxy (support/forwarding.rs) behind TLS:
//!
//! - The server is connected to when the handshake is over, so that half a handshake costs it nothing. Plaintext that
//!   came with the end of the handshake waits in the `FlowControl` until the connect has succeeded.
//! - A side is read only while the other one is writable, TLS or not.
//! - The end of one direction is a close_notify in TLS and a FIN behind it. A client that ends its stream without
//!   close_notify is cut off: `TlsError::Truncated` is reported, and the server's connection is closed.

use std::error::Error;
use std::net::{SocketAddr, ToSocketAddrs};

use waterwheel::bytes::{Bytes, BytesMut};
use waterwheel::channel::{
    Address, ChannelOptions, Ctx, EventLoopGroup, Events, Handler, HandlerResult, Msg,
    ServerBootstrap,
};
use waterwheel::codec::{ProxyHeader, ProxyTlv};
use waterwheel::executor;
use waterwheel::handlers::FlowControl;
use waterwheel::net::{Auto, Tcp};
use waterwheel::tls::rustls::pki_types::ServerName;
use waterwheel::tls::{ClientTls, OnCloseNotify, ServerTls, TlsHandler, TlsHandshake, TlsOptions};

#[path = "../support/forwarding.rs"]
#[allow(dead_code, reason = "`ConnectTarget` does not wait for a handshake")]
mod forwarding;

use forwarding::{connect_target, side_options};

/// The server behind the proxy.
#[derive(Clone)]
struct Backend {
    address: SocketAddr,
    tls: Option<(ClientTls, ServerName<'static>)>,
    has_proxy_header: bool,
    tls_options: TlsOptions,
}

/// Connects to the backend when the handshake with the client is over.
struct ConnectAfterHandshake(Backend);

impl Handler for ConnectAfterHandshake {
    fn interest(&self) -> Events {
        Events::USER_EVENT
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if let Some(handshake) = event.get::<TlsHandshake>() {
            let backend = &self.0;
            let header = backend.has_proxy_header.then(|| proxy_header(ctx, handshake));
            connect_target(ctx, backend.address, |edit| {
                if let Some(header) = header.transpose()? {
                    edit.add_last("proxy header", SendFirst(header))?;
                }
                if let Some((config, name)) = backend.tls.clone() {
                    let tls = TlsHandler::client(config, name).with_options(backend.tls_options);
                    edit.add_last("tls", tls)?;
                }
                Ok(())
            })?;
        }
        ctx.fire_user_event(event);
        Ok(())
    }
}

/// Sends bytes before everything else: a handler after it sees the connection when they are written.
struct SendFirst(Bytes);

impl Handler for SendFirst {
    fn interest(&self) -> Events {
        Events::ACTIVE
    }

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.write_and_flush(self.0.clone());
        ctx.fire_active();
        Ok(())
    }
}

fn proxy_header(ctx: &Ctx<'_>, handshake: &TlsHandshake) -> Result<Bytes, executor::Error> {
    let socket = |address: Option<Address>| address.and_then(|address| address.socket_addr());
    let (peer, local) = (ctx.channel().peer_address(), ctx.channel().local_address());
    let mut header = match (socket(peer), socket(local)) {
        (Some(client), Some(server)) => ProxyHeader::tcp(client, server),
        _ => ProxyHeader::local(),
    };
    if let Some(name) = &handshake.server_name {
        header.tlvs.push(ProxyTlv { kind: ProxyTlv::AUTHORITY, value: name.clone().into() });
    }
    let mut bytes = BytesMut::new();
    header.encode_v2(&mut bytes).map_err(executor::Error::new)?;
    Ok(bytes.freeze())
}

fn main() -> Result<(), Box<dyn Error>> {
    const USAGE: &str = "usage: tls_proxy LISTEN CERTIFICATE.pem KEY.pem TARGET \
                         [--backend-tls ROOTS.pem NAME] [--proxy-v2]";
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [listen, certificate, key, target, options @ ..] = &args[..] else {
        return Err(USAGE.into());
    };
    let mut addresses = target.to_socket_addrs().map_err(|error| format!("{target}: {error}"))?;
    let address = addresses.next().ok_or("the target has no address")?;
    let tls_options = TlsOptions::builder().on_close_notify(OnCloseNotify::HalfClose).build()?;
    let mut backend = Backend { address, tls: None, has_proxy_header: false, tls_options };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match (option.as_str(), &options.as_slice()) {
            ("--proxy-v2", _) => backend.has_proxy_header = true,
            ("--backend-tls", [roots, name, ..]) => {
                let config = ClientTls::builder().trust_file(roots).build()?;
                backend.tls = Some((config, ServerName::try_from(name.clone())?));
                options.nth(1);
            }
            _ => return Err(USAGE.into()),
        }
    }
    let config = ServerTls::builder().certificate_files(certificate, key).build()?;
    let group = EventLoopGroup::builder(Auto).name("tls proxy").build()?;
    let server = ServerBootstrap::new(&group, Tcp)
        .child_options(ChannelOptions { auto_read: false, ..side_options() })
        .child_initialiser(move |edit| {
            let tls = TlsHandler::server(config.clone()).with_options(tls_options);
            edit.add_last("tls", tls)?;
            edit.add_last("flow control", FlowControl::new())?;
            edit.add_last("connect", ConnectAfterHandshake(backend.clone()))?;
            Ok(())
        })
        .bind(listen.as_str())
        .join()?;
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    Ok(server.closed().join()?)
}
