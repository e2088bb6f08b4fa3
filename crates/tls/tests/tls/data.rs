//! T01, T02, T05: data, its order, and when a write is done.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use waterwheel_channel::{
    Channel, ChannelOptions, Ctx, Handler, HandlerResult, HeldBytes, Msg, WaterMarks,
};
use waterwheel_executor::PromiseFuture;
use waterwheel_tls::rustls::pki_types::ServerName;
use waterwheel_tls::{TlsError, TlsHandler, TlsOptions};

use crate::support::{Configs, End, Link, NAME};

#[test]
fn t01_data_passes_in_both_directions_in_any_cut() {
    let configs = Configs::new();
    let data: Vec<u8> = (0..50_000u32).map(|n| (n % 251) as u8).collect();
    for cut in [1, 2, 3, 5, 6, 7, 100, 1_000, 4_097, 16_406, 30_000, usize::MAX] {
        let mut link = Link::with(&configs, TlsOptions::default());
        link.cut = cut;
        link.exchange();
        drop(link.client.channel.write_outbound(Bytes::from(data.clone())));
        drop(link.server.channel.write_outbound(Bytes::from(data[..1_000].to_vec())));
        link.exchange();
        assert!(link.server.received() == data, "cut {cut}");
        assert!(link.client.received() == data[..1_000], "cut {cut}");
    }
}

#[test]
fn t02_writes_before_the_end_of_the_handshake_wait_in_order() {
    let mut link = Link::new();
    let first = link.client.channel.write_outbound(Bytes::from_static(b"one "));
    drop(link.client.channel.write(BytesMut::from(&b"two "[..])));
    let last = link.client.channel.write_outbound(b"three".to_vec());
    assert!(!first.is_done() && link.client.channel.channel().pending_bytes() >= 13);
    link.exchange();
    assert_eq!(link.server.received(), b"one two three");
    assert!(first.is_done() && last.is_done());
}

#[test]
fn t05_what_is_not_flushed_is_not_sent() {
    let mut link = Link::established(TlsOptions::default());
    drop(link.client.channel.write(Bytes::from_static(b"later")));
    assert_eq!(link.client.sent(), b"");
    link.client.channel.flush();
    link.exchange();
    assert_eq!(link.server.received(), b"later");
}

#[test]
fn t05_a_write_is_done_when_the_ciphertext_of_its_last_byte_is_written() {
    let mut link = Link::established(TlsOptions::default());
    link.client.channel.set_room(0);
    let data = vec![7; 100_000];
    let write = link.client.channel.write_outbound(Bytes::from(data.clone()));
    let (mut sent, mut rounds) = (Vec::new(), 0);
    while !write.is_done() {
        rounds += 1;
        assert!(rounds < 1_000, "never done");
        link.client.channel.set_room(1_000);
        link.client.settle();
        sent.extend(link.client.sent());
    }
    assert!(sent.len() > 100_000 && sent.len() <= 101_000, "done after {}", sent.len());
    crate::support::deliver(&mut link.server.channel, &sent, 5_000);
    assert!(link.server.received() == data);
}

#[test]
fn t05_plaintext_waits_while_the_ciphertext_below_has_no_room() {
    let mut link = Link::established(TlsOptions::default());
    link.client.channel.set_room(0);
    // Plaintext may be shared by many connections, as in a broadcast: its ciphertext would be a copy for each.
    for last in [4 << 20, 1_000] {
        let flag = DropFlag(vec![1; last], Arc::new(AtomicBool::new(false)));
        let is_dropped = flag.1.clone();
        drop(link.client.channel.write_outbound(Bytes::from_owner(flag)));
        link.client.settle();
        assert!(
            !is_dropped.load(Relaxed),
            "the last byte of {last} is encrypted without room for it"
        );
    }
    link.client.channel.clear_faults();
    link.exchange();
    assert_eq!(link.server.received().len(), (4 << 20) + 1_000);
    assert_eq!(link.client.channel.channel().pending_bytes(), 0);
}

#[test]
fn t05_a_flushed_message_that_waits_for_the_handshake_counts_as_pending() {
    let mut link = Link::new();
    let write = link.client.channel.write(Bytes::from(vec![1; 1_000]));
    link.client.channel.flush();
    let hello = link.client.sent();
    assert_eq!(link.client.channel.channel().pending_bytes(), 1_000);
    crate::support::deliver(&mut link.server.channel, &hello, usize::MAX);
    link.exchange();
    write.join().unwrap();
    assert_eq!(link.client.channel.channel().pending_bytes(), 0);
}

/// Plaintext may fill the channel up to its hard cap, and its ciphertext is a little longer.
#[test]
fn t05_a_channel_that_is_full_before_the_handshake_sends_everything_it_accepted() {
    for size in [1, 10, 300, 16_384, 70_000] {
        let marks = WaterMarks::new(10_000, 20_000).unwrap().with_hard_cap(100_000).unwrap();
        let configs = Configs::new();
        let mut link = Link::with(&configs, TlsOptions::default());
        let name = ServerName::try_from(NAME).unwrap();
        let client = TlsHandler::client(configs.client.clone(), name);
        let options = ChannelOptions { water_marks: marks, ..ChannelOptions::default() };
        link.client = End::new(client, options);
        let writes: Vec<_> = (0..100_001 / size + 2)
            .map(|_| link.client.channel.write_outbound(Bytes::from(vec![7; size])))
            .collect();
        link.exchange();
        assert!(link.client.channel.channel().is_open(), "{size}: closed");
        let (mut accepted, mut refused) = (0, 0);
        for write in writes {
            match write.join() {
                Ok(()) => accepted += 1,
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 0, "{size}: not full");
        assert_eq!(link.server.received().len(), accepted * size, "{size}");
    }
}

#[test]
fn t05_a_cancelled_write_leaves_no_gap() {
    let mut link = Link::new();
    let cancel = |write: &PromiseFuture<()>| write.cancel();
    // Alone and in the queue, before the handshake and after it, flushed or not.
    let mut first = link.client.channel.write(Bytes::from_static(b"-"));
    assert!(cancel(&first));
    link.client.channel.flush();
    for flushes in [false, true] {
        let writes =
            [b"a", b"-", b"b"].map(|bytes| link.client.channel.write(Bytes::from_static(bytes)));
        if flushes {
            link.client.channel.flush();
        }
        assert!(cancel(&writes[1]));
    }
    link.exchange();
    first = link.client.channel.write(Bytes::from_static(b"-"));
    assert!(cancel(&first));
    link.client.channel.flush();
    // Encrypted, and not written: the record is part of the stream.
    link.client.channel.set_room(0);
    let encrypted = link.client.channel.write_outbound(Bytes::from_static(b"c"));
    let large = link.client.channel.write_outbound(Bytes::from(vec![b'd'; 100_000]));
    assert!(!cancel(&encrypted) && !cancel(&large));
    link.client.channel.clear_faults();
    link.exchange();
    assert!(link.server.received() == [b"ababc", &[b'd'; 100_000][..]].concat());
    assert_eq!(link.client.channel.channel().pending_bytes(), 0);
}

/// Holds bytes of its own when it is told to.
#[derive(Default)]
struct Holder(Option<HeldBytes>);

impl Handler for Holder {
    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        match event.get::<usize>() {
            Some(bytes) => self.0 = Some(ctx.count_held_bytes(*bytes)),
            None => ctx.fire_user_event(event),
        }
        Ok(())
    }
}

#[test]
fn t05_a_part_of_a_message_that_has_no_room_any_more_ends_the_connection() {
    let water_marks = WaterMarks::new(10_000, 20_000).unwrap().with_hard_cap(100_000).unwrap();
    let options = ChannelOptions { water_marks, ..ChannelOptions::default() };
    let configs = Configs::new();
    let mut link = Link::with(&configs, TlsOptions::default());
    let client = TlsHandler::client(configs.client.clone(), ServerName::try_from(NAME).unwrap());
    link.client = End::new(client, options);
    link.client.insert_first(Holder::default());
    link.exchange();
    link.client.channel.set_room(0);
    let write = link.client.channel.write_outbound(Bytes::from(vec![7; 90_000]));
    link.client.channel.fire_user_event(75_530_usize);
    link.client.channel.clear_faults();
    link.exchange();
    let error = write.join().unwrap_err();
    assert!(error.to_string().contains("100000") || error.is_closed(), "{error}");
    assert!(!link.client.channel.channel().is_open());
    assert!(link.server.received().len() <= 65_536);
}

#[test]
fn t05_a_channel_that_is_registered_again_goes_on_where_it_was() {
    let mut link = Link::new();
    drop(link.client.channel.write_outbound(Bytes::from_static(b"early, ")));
    let hello = link.client.sent();
    let again = |link: &mut Link| {
        for request in [Channel::deregister, Channel::register] {
            let done = link.client.channel.on_loop(request);
            link.client.channel.run();
            done.join().unwrap();
        }
    };
    again(&mut link);
    crate::support::deliver(&mut link.server.channel, &hello, usize::MAX);
    link.exchange();
    link.client.channel.set_room(10);
    drop(link.client.channel.write_outbound(Bytes::from(vec![b'l'; 200_000])));
    again(&mut link);
    link.client.channel.clear_faults();
    link.exchange();
    assert_eq!(link.server.received().len(), 7 + 200_000);
    link.client.channel.close();
    link.exchange();
    assert_eq!(link.server.events.take(), ["handshake", "peer closed"]);
}

/// Plaintext that tells when it is dropped: when its last byte was encrypted.
struct DropFlag(Vec<u8>, Arc<AtomicBool>);

impl AsRef<[u8]> for DropFlag {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for DropFlag {
    fn drop(&mut self) {
        self.1.store(true, Relaxed);
    }
}

#[test]
fn t05_small_messages_of_one_flush_share_a_record() {
    let mut link = Link::established(TlsOptions::default());
    for _ in 0..10 {
        let ten = Bytes::from_static(b"0123456789");
        link.client.channel.with_pipeline(|pipeline| pipeline.write(ten));
    }
    link.client.channel.flush();
    let sent = link.client.sent();
    assert!(sent.len() < 10 * (10 + 22), "{} bytes", sent.len());
    crate::support::deliver(&mut link.server.channel, &sent, usize::MAX);
    assert_eq!(link.server.received(), b"0123456789".repeat(10));
}

#[test]
fn t05_an_empty_message_is_done_in_its_turn() {
    let mut link = Link::established(TlsOptions::default());
    let write = link.client.channel.write_outbound(Bytes::new());
    assert!(write.is_done());
    write.join().unwrap();
    link.exchange();
    assert_eq!(link.server.received(), b"");
}

#[test]
fn t01_a_message_that_cannot_be_encrypted_is_refused_by_its_type() {
    let mut link = Link::established(TlsOptions::default());
    let error = link.client.channel.write_outbound(7u32).join().unwrap_err();
    assert_eq!(error.find::<TlsError>(), Some(&TlsError::UnsupportedMessage { message: "u32" }));
    assert_eq!(link.client.sent(), b"");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// The reference is the concatenation of everything written.
    #[test]
    fn t05_any_writes_with_any_room_and_any_cut_arrive_in_order(
        writes in proptest::collection::vec((0usize..40_000, any::<bool>(), 1usize..60_000), 1..12),
        cut in 1usize..20_000,
    ) {
        let mut link = Link::established(TlsOptions::default());
        link.cut = cut;
        let (mut expected, mut done) = (Vec::new(), Vec::new());
        for (n, (len, flushes, room)) in writes.into_iter().enumerate() {
            let bytes = vec![n as u8; len];
            expected.extend_from_slice(&bytes);
            link.client.channel.set_room(room);
            done.push(match flushes {
                true => link.client.channel.write_outbound(bytes),
                false => link.client.channel.write(bytes),
            });
            link.exchange();
        }
        link.client.channel.clear_faults();
        link.client.channel.flush();
        link.exchange();
        prop_assert!(link.server.received() == expected);
        prop_assert!(done.iter().all(|write| write.is_done()));
        prop_assert_eq!(link.client.channel.channel().pending_bytes(), 0);
    }
}
