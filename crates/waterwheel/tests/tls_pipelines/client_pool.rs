//! Client pools whose connections speak TLS: handshakes and session tickets of idle connections (K12, T01).

use std::sync::mpsc::{Receiver, Sender, channel};

use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Address, Bootstrap, Channel, Ctx, EventLoopGroup, Events, Handler, HandlerResult, Msg,
    ServerBootstrap,
};
use waterwheel::net::{Auto, Tcp};
use waterwheel::pool::{ChannelPool, ChannelPoolBuilder, PoolCloseReason, PoolError};
use waterwheel::tls::rustls::pki_types::ServerName;
use waterwheel::tls::{ClientTls, ServerTls, TlsHandler, TlsHandshake};

use crate::program::WAIT_LIMIT;

const NAME: &str = "wheel.example";

/// Tells the channels whose handshake is over.
struct Established(Sender<Channel>);

impl Handler for Established {
    fn interest(&self) -> Events {
        Events::READ | Events::USER_EVENT
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.is::<TlsHandshake>() {
            let _ = self.0.send(ctx.channel().clone());
        }
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write_and_flush(msg);
        Ok(())
    }
}

/// Tells the messages that were read.
struct Reads(Sender<Bytes>);

impl Handler for Reads {
    fn interest(&self) -> Events {
        Events::READ
    }

    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let _ = self.0.send(msg.into_bytes().expect("plaintext"));
        Ok(())
    }
}

/// An echo server with TLS, and the bootstrap of its clients.
struct TlsService {
    address: Address,
    clients: Bootstrap,
    /// The server's side of connections that have finished their handshake.
    established: Receiver<Channel>,
    /// The messages that clients have read.
    reads: Receiver<Bytes>,
}

impl TlsService {
    fn start() -> Self {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let server = ServerTls::builder().certificate_pem(certificate.as_bytes(), key.as_bytes());
        let client = ClientTls::builder().trust_pem("the certificate", certificate.as_bytes());
        let (server, client) = (server.build().unwrap(), client.build().unwrap());
        let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
        let (established, is_established) = channel();
        let (read, reads) = channel();
        let listener = ServerBootstrap::new(&group, Tcp)
            .child_initialiser(move |edit| {
                edit.add_last("tls", TlsHandler::server(server.clone()))?;
                edit.add_last("established", Established(established.clone()))?;
                Ok(())
            })
            .bind("127.0.0.1:0")
            .join()
            .unwrap();
        let name = ServerName::try_from(NAME).unwrap();
        let clients = Bootstrap::new(&group, Tcp).initialiser(move |edit| {
            edit.add_last("tls", TlsHandler::client(client.clone(), name.clone()))?;
            edit.add_last("reads", Reads(read.clone()))?;
            Ok(())
        });
        let address = listener.local_address().unwrap();
        Self { address, clients, established: is_established, reads }
    }

    fn pool(&self) -> ChannelPoolBuilder {
        ChannelPool::builder(self.clients.clone())
    }
}

#[test]
fn k12_the_handshake_and_the_tickets_of_an_idle_connection_with_tls_do_not_close_it() {
    let service = TlsService::start();
    let pool = service.pool().min_idle(1).watch_after("tls").build().unwrap();
    pool.warm_up(service.address.clone());
    let server = service.established.recv_timeout(WAIT_LIMIT).expect("the handshake, while idle");
    // The echo comes behind the tickets.
    let lease = pool.acquire(service.address.clone()).join().unwrap();
    let leased = Channel::clone(&lease);
    lease.write_and_flush(Bytes::from_static(b"echo")).join().unwrap();
    assert_eq!(service.reads.recv_timeout(WAIT_LIMIT).unwrap(), "echo");
    drop(lease);
    assert_eq!(leased.local_address(), server.peer_address(), "the one that was warmed up");
    assert_eq!(pool.metrics().closed_total(), 0);

    // Data that nobody waits for closes an idle connection as without TLS.
    server.write_and_flush(Bytes::from_static(b"unexpected")).join().unwrap();
    leased.closed().join().unwrap();
    assert!(service.reads.try_recv().is_err(), "no handler got it");
    pool.close().join().unwrap(); // Everything is counted then.
    assert_eq!(pool.metrics().closed(PoolCloseReason::UnexpectedRead), 1);
}

#[test]
fn k12_a_pipeline_without_the_handler_to_watch_after_fails_the_acquire() {
    let service = TlsService::start();
    let pool = service.pool().watch_after("no such").build().unwrap();
    let error = pool.acquire(service.address.clone()).join().unwrap_err();
    assert!(matches!(error.find(), Some(PoolError::Connect { .. })), "{error}");
    assert!(error.to_string().contains("no such"), "{error}");
    pool.close().join().unwrap();
}
