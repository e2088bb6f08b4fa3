//! T05, T10: the allocations of a record, and the memory of a connection at rest.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{ChannelOptions, Ctx, Handler, HandlerResult};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_tls::rustls::pki_types::ServerName;
use waterwheel_tls::rustls::{ClientConnection, Connection, ServerConfig, ServerConnection};
use waterwheel_tls::{TlsHandler, TlsOptions};

use counting_allocator::{allocations_in, bytes};
use support::{Configs, Link, NAME};

#[path = "../../../support/counting_allocator.rs"]
mod counting_allocator;
#[allow(dead_code, reason = "shared with the other tests of TLS")]
#[path = "tls/support.rs"]
mod support;

const ROUNDS: u64 = 200;

/// Bytes of a connection at rest, so that growth is noticed: 3,244 with aws-lc-rs, which keeps its keys in memory of C
/// that is not counted here, and 4,278 with ring, which keeps them in the connection.
const AT_REST: usize = if cfg!(feature = "aws-lc-rs") { 4_096 } else { 5_120 };

/// The embedded transport clones what is sent, and the first clone of new bytes allocates.
const OF_THE_TRANSPORT: u64 = 1;

/// Writes and flushes a message, and returns what is sent.
fn send(client: &mut Embedded, message: &Bytes) -> Bytes {
    client.with_pipeline(|pipeline| {
        pipeline.write(message.clone());
        pipeline.flush();
    });
    client.read_outbound().unwrap()
}

#[test]
fn t10_a_record_costs_two_allocations_to_encrypt_and_two_to_decrypt() {
    let Link { mut client, mut server, .. } = Link::established(TlsOptions::default());
    for size in [1, 64, 1_000, 16_384] {
        let message = Bytes::from(vec![7; size]);
        let (mut encrypting, mut decrypting) = (0, 0);
        for round in 0..ROUNDS + 10 {
            let (encrypted, record) = allocations_in(|| send(&mut client.channel, &message));
            let (decrypted, plaintext) = allocations_in(|| {
                server.channel.with_pipeline(|pipeline| {
                    pipeline.fire_read(record);
                    pipeline.fire_read_complete();
                });
                server.channel.read_inbound::<Bytes>().unwrap()
            });
            assert_eq!(plaintext, message);
            if round >= 10 {
                encrypting += encrypted - OF_THE_TRANSPORT;
                decrypting += decrypted;
            }
        }
        // One of rustls, and one for what is written or fired.
        assert_eq!((encrypting, decrypting), (2 * ROUNDS, 2 * ROUNDS), "records of {size} bytes");
    }
}

#[test]
fn t10_small_messages_that_are_flushed_together_share_a_record() {
    let Link { mut client, mut server, .. } = Link::established(TlsOptions::default());
    client.channel.with_pipeline(|pipeline| {
        for n in 0..10_u8 {
            pipeline.write(Bytes::from(vec![n; 100]));
        }
        pipeline.flush();
    });
    let record = client.channel.read_outbound::<Bytes>().unwrap();
    assert_eq!(record.len(), 1_000 + 22, "one record");
    server.channel.write_inbound(record);
    assert_eq!(server.received().len(), 1_000);
}

#[test]
fn t05_a_connection_at_rest_takes_less_than_twice_the_memory_of_rustls_itself() {
    let configs = Configs::new();
    let name = ServerName::try_from(NAME).unwrap();
    // The first connection also fills caches and buffers of the thread.
    for _ in 0..2 {
        drop(serve_one(&configs, true));
        drop(rustls_pair(&configs, name.clone()));
    }
    let (with_tls, server) = serve_one(&configs, true);
    let (without_tls, plain) = serve_one(&configs, false);
    let (rustls, pair) = rustls_pair(&configs, name);
    drop((server, plain, pair));
    let ours = with_tls - without_tls;
    println!("a TLS server connection at rest: {ours} bytes, of rustls with its buffers: {rustls}");
    assert!(ours <= 2 * rustls, "{ours} bytes, and {rustls} of rustls");
    assert!(ours <= AT_REST, "{ours} bytes");
}

/// Sets a timer, as the limit of a handshake does: the first one of a loop allocates its wheel.
struct OneTimer;

impl Handler for OneTimer {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.schedule(Duration::from_secs(10), 0);
        ctx.fire_active();
        Ok(())
    }
}

/// Returns the bytes that a server's channel takes after an echo, with TLS or without, and the channel.
fn serve_one(configs: &Configs, has_tls: bool) -> (usize, Embedded) {
    let name = ServerName::try_from(NAME).unwrap();
    let mut client = support::End::new(
        TlsHandler::client(configs.client.clone(), name),
        ChannelOptions::default(),
    );
    let before = bytes();
    let mut server = Embedded::builder()
        .stream()
        .build(|edit| {
            if has_tls {
                edit.add_last("tls", TlsHandler::server(configs.server.clone()))?;
            } else {
                edit.add_last("timer", OneTimer)?;
            }
            Ok(())
        })
        .unwrap();
    let mut used = bytes().wrapping_sub(before);
    if has_tls {
        drop(client.channel.write_outbound(Bytes::from_static(b"hello")));
    } else {
        server.write_inbound(Bytes::from_static(b"hello"));
    }
    for _ in 0..8 {
        for _ in 0..4 {
            client.channel.run();
        }
        let to_server = client.sent();
        let before = bytes();
        if has_tls && !to_server.is_empty() {
            server.write_inbound(Bytes::from(to_server));
        }
        for _ in 0..4 {
            server.run();
        }
        while let Some(read) = server.read_inbound::<Bytes>() {
            drop(server.write_outbound(read));
        }
        let mut to_client = Vec::new();
        while let Some(sent) = server.read_outbound::<Bytes>() {
            to_client.extend_from_slice(&sent);
        }
        let from_server = to_client.len();
        let capacity = to_client.capacity();
        used = used.wrapping_add(bytes().wrapping_sub(before).wrapping_sub(capacity));
        if has_tls && from_server > 0 {
            client.channel.write_inbound(Bytes::from(to_client));
        }
    }
    if has_tls {
        assert_eq!(client.received(), b"hello");
    }
    (used, server)
}

/// Returns the bytes that a server connection of rustls takes after an echo, with the connections.
fn rustls_pair(
    configs: &Configs,
    name: ServerName<'static>,
) -> (usize, (ClientConnection, Connection)) {
    let config: Arc<ServerConfig> = configs.server.config().unwrap().clone();
    let mut client = ClientConnection::new(configs.client.config().clone(), name).unwrap();
    let before = bytes();
    let mut server = Connection::Server(ServerConnection::new(config).unwrap());
    let mut used = bytes().wrapping_sub(before);
    client.writer().write_all(b"hello").unwrap();
    for _ in 0..8 {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        let before = bytes();
        let mut rest = &wire[..];
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            server.process_new_packets().unwrap();
        }
        let mut plain = [0; 16];
        if let Ok(len) = server.reader().read(&mut plain) {
            server.writer().write_all(&plain[..len]).unwrap();
        }
        let mut answer = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut answer).unwrap();
        }
        let capacity = answer.capacity();
        used = used.wrapping_add(bytes().wrapping_sub(before).wrapping_sub(capacity));
        let mut rest = &answer[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets().unwrap();
        }
    }
    (used, (client, server))
}
