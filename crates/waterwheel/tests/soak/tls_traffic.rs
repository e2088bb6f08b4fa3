//! TLS: the echo service with it, and clients that break the protocol. The echo scenarios use the service too.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use rustix::net::sockopt::set_socket_linger;
use waterwheel::channel::{Address, ChannelOptions, ServerBootstrap, WaterMarks};
use waterwheel::tls::rustls::pki_types::ServerName;
use waterwheel::tls::rustls::{ClientConnection as RustlsConnection, StreamOwned};
use waterwheel::tls::{ClientTls, OnCloseNotify, ServerTls, TlsHandler, TlsOptions};

use crate::client_connection::WAIT_LIMIT;
use crate::handlers::{Echo, UNCHECKED};
use crate::random::SeededRng;
use crate::services::{CAP, GroupSetup, echo_options};
use crate::soak_setup::{Service, SoakSetup};

const NAME: &str = "wheel.example";

/// The configurations of both sides, which every connection shares.
pub(crate) struct TlsConfigs {
    server: ServerTls,
    client: ClientTls,
    options: TlsOptions,
}

impl TlsConfigs {
    pub(crate) fn new() -> Self {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]);
        let made = made.expect("a certificate is made");
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        // A small cache of sessions is full after the first round, and so does not look like growth.
        let server = ServerTls::builder()
            .certificate_pem(certificate.as_bytes(), key.as_bytes())
            .session_cache(32);
        let client = ClientTls::builder().trust_pem("the certificate", certificate.as_bytes());
        // The times are those of a busy machine.
        let options = TlsOptions::builder()
            .handshake_timeout(WAIT_LIMIT)
            .close_timeout(WAIT_LIMIT)
            .on_close_notify(OnCloseNotify::HalfClose);
        Self {
            server: server.build().expect("a valid certificate"),
            client: client.build().expect("a valid root"),
            options: options.build().expect("valid options"),
        }
    }

    pub(crate) fn server_handler(&self) -> TlsHandler {
        TlsHandler::server(self.server.clone()).with_options(self.options)
    }

    pub(crate) fn client_handler(&self) -> TlsHandler {
        TlsHandler::client(self.client.clone(), server_name()).with_options(self.options)
    }
}

fn server_name() -> ServerName<'static> {
    ServerName::try_from(NAME).expect("a valid name")
}

/// Sets the options and handlers of an echo server with TLS.
///
/// Reading stops at a high-water mark of 16 KiB. A round of four reads of 4 KiB may complete a record that began before,
/// which adds at most 32 KiB of plaintext: with the overhead of records less than the hard cap of 64 KiB.
pub(crate) fn serve_tls(common: &GroupSetup, server: ServerBootstrap) -> ServerBootstrap {
    let marks = WaterMarks::new(CAP / 8, CAP / 4).and_then(|marks| marks.with_hard_cap(CAP));
    let water_marks = marks.expect("valid water marks");
    let (tls, byte_counts) = (common.tls.clone(), common.byte_counts.clone());
    server.child_options(ChannelOptions { water_marks, ..echo_options() }).child_initialiser(
        move |edit| {
            edit.add_last("tls", tls.server_handler())?;
            edit.add_last("echo", Echo::new(&byte_counts))?;
            Ok(())
        },
    )
}

/// Connects without a channel, so that the scenario controls every byte.
fn connect(setup: &SoakSetup) -> TcpStream {
    let Address::Ip(to) = setup.address(Service::Tls) else { panic!("an IP address") };
    let stream = TcpStream::connect::<SocketAddr>(to).expect("the server listens");
    stream.set_read_timeout(Some(WAIT_LIMIT)).expect("a valid time");
    stream.set_write_timeout(Some(WAIT_LIMIT)).expect("a valid time");
    stream
}

/// Reads until the server ends the connection, in order or by a reset.
fn read_to_the_end(stream: &mut impl Read) -> Vec<u8> {
    let mut read = Vec::new();
    match stream.read_to_end(&mut read) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    read
}

/// Sends something that is not TLS. The answer is an alert, and the end of the connection.
pub(crate) fn garbage(setup: &SoakSetup, rng: &mut SeededRng) {
    let _can_open = setup.with_descriptors();
    let mut stream = connect(setup);
    let len = 16 + rng.below(1000);
    let mut data = rng.bytes(len).to_vec();
    // Not the type of a record, so that the first byte is the error.
    data[0] |= 0x80;
    stream.write_all(&data).expect("the server reads");
    let answer = read_to_the_end(&mut stream);
    // A reset, because the server did not read everything, may discard the alert.
    assert!(answer.is_empty() || answer[0] == 21, "an alert: {answer:?}");
}

/// Leaves in the middle of the handshake: after a part of its bytes, in order or by a reset.
pub(crate) fn leave_in_the_handshake(setup: &SoakSetup, rng: &mut SeededRng) {
    let _can_open = setup.with_descriptors();
    let mut stream = connect(setup);
    let config = setup.common.tls.client.config().clone();
    let mut session = RustlsConnection::new(config, server_name()).expect("a valid configuration");
    let mut hello = Vec::new();
    session.write_tls(&mut hello).expect("memory takes everything");
    stream.write_all(&hello[..rng.below(hello.len())]).expect("the server reads");
    leave(stream, rng);
}

/// Leaves after the handshake without close_notify, with data under way: the server must not take it for the end of the
/// data, and must not keep the connection.
pub(crate) fn truncate(setup: &SoakSetup, rng: &mut SeededRng) {
    let _can_open = setup.with_descriptors();
    let config = setup.common.tls.client.config().clone();
    let session = RustlsConnection::new(config, server_name()).expect("a valid configuration");
    let mut tls = StreamOwned::new(session, connect(setup));
    let mut data = vec![UNCHECKED];
    let len = rng.below(20_000);
    data.extend_from_slice(&rng.bytes(len));
    tls.write_all(&data).expect("the server reads");
    let mut echoed = vec![0; rng.below(data.len())];
    tls.read_exact(&mut echoed).expect("the server echoes");
    assert!(data.starts_with(&echoed), "the received data differs from the sent data");
    leave(tls.sock, rng);
}

/// Ends a connection: by FIN, after which the server ends it too, or by RST.
fn leave(mut stream: TcpStream, rng: &mut SeededRng) {
    if rng.below(2) == 0 {
        set_socket_linger(&stream, Some(std::time::Duration::ZERO)).expect("a TCP socket");
    } else {
        stream.shutdown(Shutdown::Write).expect("the connection is open");
        read_to_the_end(&mut stream);
    }
}
