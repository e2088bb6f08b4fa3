//! The cost of TLS: echoes of one connection, and a server for load generators.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use waterwheel::channel::{EventLoopGroup, NewChannel, ServerBootstrap, Stream};
use waterwheel::executor::Clock;
use waterwheel::net::{Auto, Socket, Tcp};
use waterwheel::tls::rustls::pki_types::ServerName;
use waterwheel::tls::rustls::{self, ClientConnection};
use waterwheel::tls::{ClientTls, ServerTls, TlsHandler};

use crate::MicroResult;
use crate::hops::EchoHandler;

/// Sends `echoes` messages of `size` bytes over TLS 1.3, each after the reply to the previous one: the loop has its own
/// thread, the main thread is the peer.
pub(crate) fn echoes(echoes: u64, size: usize) -> MicroResult {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let server = ServerTls::builder().certificate_pem(certificate.as_bytes(), key.as_bytes());
    let client = ClientTls::builder().trust_pem("the certificate", certificate.as_bytes());

    let (mut socket, served) = UnixStream::pair()?;
    let group = EventLoopGroup::builder(Auto).threads(1).build()?;
    let stream = Stream::connected(Socket::new(served)?.into(), None);
    let config = server.build()?;
    let new = NewChannel::new(stream).initialiser(move |edit| {
        edit.add_last("tls", TlsHandler::server(config.clone()))?;
        edit.add_last("echo", EchoHandler)?;
        Ok(())
    });
    let channel = group.register(new).join()?;

    let name = ServerName::try_from("localhost")?;
    let mut connection = ClientConnection::new(client.build()?.config().clone(), name)?;
    let mut peer = rustls::Stream::new(&mut connection, &mut socket);
    let mut message = vec![7; size];
    let began = Clock::Monotonic.now();
    for _ in 0..echoes {
        peer.write_all(&message)?;
        peer.read_exact(&mut message)?;
    }
    let nanos = Clock::Monotonic.now().since(began).as_nanos() as f64 / echoes as f64;
    println!("{{\"echoes\":{echoes},\"ns_per_echo\":{nanos:.1}}}");
    channel.close().join()?;
    Ok(())
}

/// Serves echoes over TLS 1.3 on `port` of loopback, without session tickets, until the process is ended.
pub(crate) fn server(port: u16, certificate: &str, key: &str) -> MicroResult {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let chain = waterwheel::tls::pem::load_certificates(certificate)?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider.into())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, waterwheel::tls::pem::load_private_key(key)?)?;
    config.send_tls13_tickets = 0;
    let config = ServerTls::from(config);
    let group = EventLoopGroup::builder(Auto).threads(1).build()?;
    let server = ServerBootstrap::new(&group, Tcp)
        .child_initialiser(move |edit| {
            edit.add_last("tls", TlsHandler::server(config.clone()))?;
            edit.add_last("echo", EchoHandler)?;
            Ok(())
        })
        .bind(("127.0.0.1", port))
        .join()?;
    server.closed().join()?;
    Ok(())
}
