//! Sessions that are resumed on another loop than the one that made them, over TCP (T07).

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, ThreadId};

use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Bootstrap, Channel, Ctx, EventLoopGroup, Events, Handler, HandlerResult, Msg, ServerBootstrap,
};
use waterwheel::executor::Error;
use waterwheel::net::{Auto, Tcp};
use waterwheel::tls::rustls::pki_types::ServerName;
use waterwheel::tls::rustls::{CipherSuite, ProtocolVersion};
use waterwheel::tls::{ClientTls, ServerTls, TlsHandler, TlsHandshake};

use crate::program::WAIT_LIMIT;

const NAME: &str = "wheel.example";

/// An event of a connection, with the thread of its loop.
#[derive(Debug)]
enum Seen {
    Handshake(ThreadId, TlsHandshake),
    Read,
    Failed(String),
}

/// Echoes if it is the server's; reports what it sees.
struct Observer {
    seen: Sender<Seen>,
    is_server: bool,
}

impl Handler for Observer {
    fn interest(&self) -> Events {
        Events::READ | Events::USER_EVENT | Events::ERROR
    }

    fn on_user_event(&mut self, _: &Ctx<'_>, event: Msg) -> HandlerResult {
        if let Ok(handshake) = event.take::<TlsHandshake>() {
            let _ = self.seen.send(Seen::Handshake(thread::current().id(), handshake));
        }
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        if self.is_server {
            ctx.write_and_flush(msg);
        } else {
            let _ = self.seen.send(Seen::Read);
        }
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        let _ = self.seen.send(Seen::Failed(error.to_string()));
        Ok(())
    }
}

fn serve(group: &EventLoopGroup, config: ServerTls) -> (Channel, SocketAddr, Receiver<Seen>) {
    let (sender, seen) = channel();
    let server = ServerBootstrap::new(group, Tcp)
        .child_initialiser(move |edit| {
            edit.add_last("tls", TlsHandler::server(config.clone()))?;
            edit.add_last("observer", Observer { seen: sender.clone(), is_server: true })?;
            Ok(())
        })
        .bind("127.0.0.1:0")
        .join()
        .unwrap();
    let address = server.local_address().and_then(|address| address.socket_addr()).unwrap();
    (server, address, seen)
}

fn handshake(seen: &Receiver<Seen>) -> (ThreadId, TlsHandshake) {
    match seen.recv_timeout(WAIT_LIMIT).unwrap() {
        Seen::Handshake(thread, handshake) => (thread, handshake),
        Seen::Read => panic!("data before the handshake"),
        Seen::Failed(error) => panic!("{error}"),
    }
}

/// Connects and waits for an echo, before which the client gets its tickets. Returns the handshakes of the client and
/// of the server, and the threads they ran on.
fn connect(
    group: &EventLoopGroup,
    address: SocketAddr,
    config: &ClientTls,
    at_server: &Receiver<Seen>,
) -> [(ThreadId, TlsHandshake); 2] {
    let (sender, seen) = channel();
    let config = config.clone();
    let client = Bootstrap::new(group, Tcp)
        .initialiser(move |edit| {
            let name = ServerName::try_from(NAME).map_err(Error::new)?;
            edit.add_last("tls", TlsHandler::client(config.clone(), name))?;
            edit.add_last("observer", Observer { seen: sender.clone(), is_server: false })?;
            Ok(())
        })
        .connect(address)
        .join()
        .unwrap();
    client.write_and_flush(Bytes::from_static(b"hello")).join().unwrap();
    let outcomes = [handshake(&seen), handshake(at_server)];
    match seen.recv_timeout(WAIT_LIMIT).unwrap() {
        Seen::Read => {}
        other => panic!("{other:?} instead of an echo"),
    }
    client.close().join().unwrap();
    outcomes
}

#[test]
fn t07_a_session_is_resumed_on_another_loop() {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let server = || ServerTls::builder().certificate_pem(certificate.as_bytes(), key.as_bytes());
    let client = || ClientTls::builder().trust_pem("roots", certificate.as_bytes());
    let tls12 = [CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256];
    let servers = EventLoopGroup::builder(Auto).threads(2).build().unwrap();
    let clients = EventLoopGroup::builder(Auto).threads(2).build().unwrap();
    for (way, config, client, version) in [
        ("sessions of TLS 1.3", server(), client(), ProtocolVersion::TLSv1_3),
        (
            "session ids of TLS 1.2",
            server(),
            client().cipher_suites(tls12),
            ProtocolVersion::TLSv1_2,
        ),
        (
            "tickets of TLS 1.3",
            server().stateless_tickets().session_cache(0),
            client(),
            ProtocolVersion::TLSv1_3,
        ),
        (
            "tickets of TLS 1.2",
            server().stateless_tickets().session_cache(0),
            client().cipher_suites(tls12),
            ProtocolVersion::TLSv1_2,
        ),
    ] {
        let (listener, address, seen) = serve(&servers, config.build().unwrap());
        let client = client.build().unwrap();
        let (mut client_loops, mut server_loops) = (HashSet::new(), HashSet::new());
        for round in 0..8 {
            for (loops, (thread, outcome)) in [&mut client_loops, &mut server_loops]
                .into_iter()
                .zip(connect(&clients, address, &client, &seen))
            {
                loops.insert(thread);
                assert_eq!(outcome.version, Some(version), "{way}");
                assert_eq!(outcome.is_resumed, round > 0, "{way}, connection {round}");
            }
        }
        assert_eq!((client_loops.len(), server_loops.len()), (2, 2), "{way}");
        listener.close().join().unwrap();
    }
}
