//! 2,000 handshakes that peers begin and do not finish (T08), over TCP.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use waterwheel::channel::{
    Channel, Ctx, EventLoopGroup, Events, Handler, HandlerResult, Msg, ServerBootstrap,
};
use waterwheel::executor::Error;
use waterwheel::net::{Auto, Tcp};
use waterwheel::tls::rustls::pki_types::ServerName;
use waterwheel::tls::rustls::{ClientConnection, StreamOwned};
use waterwheel::tls::{ClientTls, ServerTls, TlsError, TlsHandler, TlsOptions};

use counting_allocator::process_bytes;
use program::WAIT_LIMIT;

#[path = "../../../../support/counting_allocator.rs"]
mod counting_allocator;
#[path = "../support/program.rs"]
mod program;

const NAME: &str = "wheel.example";

const HALF_OPEN: usize = 2_000;

/// Long enough for everything to be open at once on a slow machine; a shorter time weakens the test, and fails nothing.
const LIMIT: Duration = Duration::from_secs(5);

/// Memory of a connection in its handshake, after the ClientHello as before it: the channel, the session of rustls with
/// its keys and its buffer of 4 KiB, the handler.
const MAX_BYTES_EACH: usize = 12 * 1024;

/// Echoes; tells the test of errors, and counts channels that become active.
struct Watch {
    active: Arc<AtomicUsize>,
    ended: Sender<Option<Error>>,
}

impl Handler for Watch {
    fn interest(&self) -> Events {
        Events::ACTIVE | Events::READ | Events::ERROR | Events::INACTIVE
    }

    fn on_active(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.active.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write_and_flush(msg);
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        let _ = self.ended.send(Some(error));
        Ok(())
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        let _ = self.ended.send(None);
        Ok(())
    }
}

struct Server {
    channel: Channel,
    address: SocketAddr,
    active: Arc<AtomicUsize>,
    ended: Receiver<Option<Error>>,
    client: ClientTls,
}

fn serve(group: &EventLoopGroup) -> Server {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let config = ServerTls::builder().certificate_pem(certificate.as_bytes(), key.as_bytes());
    let config = config.build().unwrap();
    let client = ClientTls::builder().trust_pem("roots", certificate.as_bytes()).build().unwrap();
    let options = TlsOptions::builder().handshake_timeout(LIMIT).build().unwrap();
    let (sender, ended) = channel();
    let (sender, active) = (Mutex::new(sender), Arc::new(AtomicUsize::new(0)));
    let counter = active.clone();
    let channel = ServerBootstrap::new(group, Tcp)
        .child_initialiser(move |edit| {
            edit.add_last("tls", TlsHandler::server(config.clone()).with_options(options))?;
            let ended = sender.lock().unwrap().clone();
            edit.add_last("watch", Watch { active: counter.clone(), ended })?;
            Ok(())
        })
        .bind("127.0.0.1:0")
        .join()
        .unwrap();
    let address = channel.local_address().and_then(|address| address.socket_addr()).unwrap();
    Server { channel, address, active, ended, client }
}

impl Server {
    fn tls(&self) -> ClientConnection {
        let name = ServerName::try_from(NAME).unwrap();
        ClientConnection::new(self.client.config().clone(), name).unwrap()
    }

    fn hello(&self) -> Vec<u8> {
        let (mut tls, mut hello) = (self.tls(), Vec::new());
        tls.write_tls(&mut hello).unwrap();
        hello
    }

    /// Talks to the server as a client that behaves.
    fn assert_serves(&self) {
        let socket = program::connect(self.address);
        let mut stream = StreamOwned::new(self.tls(), socket);
        stream.write_all(b"are you there?").unwrap();
        let mut answer = [0; 14];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"are you there?");
        stream.conn.send_close_notify();
        stream.flush().unwrap();
    }
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn t08_two_thousand_half_open_handshakes_are_bounded_and_closed_while_others_are_served() {
    let group = EventLoopGroup::builder(Auto).threads(2).build().unwrap();
    let server = serve(&group);
    server.assert_serves();
    let (threads_before, before) = (threads(), process_bytes());
    let hello = server.hello();
    let mut peers = Vec::with_capacity(HALF_OPEN);
    for n in 0..HALF_OPEN {
        let mut peer = program::connect(server.address);
        match n % 3 {
            0 => {}
            1 => peer.write_all(&hello[..hello.len() / 2]).unwrap(),
            _ => peer.write_all(&hello).unwrap(),
        }
        peers.push(peer);
    }
    // The answers to whole hellos show that the server has come that far.
    for mut peer in peers.iter().skip(2).step_by(3) {
        peer.read_exact(&mut [0; 100]).unwrap();
    }
    let held = process_bytes().wrapping_sub(before);
    println!("{} bytes for each of {HALF_OPEN} half-open handshakes", held / HALF_OPEN);
    assert!(held < HALF_OPEN * MAX_BYTES_EACH, "{} bytes each", held / HALF_OPEN);
    assert_eq!(threads(), threads_before, "no thread for a connection or its limit");
    server.assert_serves();

    let (mut timeouts, mut ended) = (0, 0);
    while ended < HALF_OPEN + 2 {
        match server.ended.recv_timeout(WAIT_LIMIT).unwrap() {
            Some(error) => {
                let limit = TlsError::HandshakeTimeout { limit: LIMIT };
                assert_eq!(error.find::<TlsError>(), Some(&limit));
                timeouts += 1;
            }
            None => ended += 1,
        }
    }
    assert_eq!(timeouts, HALF_OPEN, "each of them, once");
    assert_eq!(server.active.load(Ordering::SeqCst), HALF_OPEN + 2);
    for mut peer in peers {
        // What the server has sent, if anything, and the end.
        peer.read_to_end(&mut Vec::new()).unwrap();
    }
    server.assert_serves();
    server.channel.close().join().unwrap();
    group.shutdown_gracefully(Duration::ZERO, WAIT_LIMIT).unwrap().join().unwrap();
    let kept = process_bytes().wrapping_sub(before) as isize;
    assert!(kept < 256 * 1024, "{kept} bytes stay");
}
