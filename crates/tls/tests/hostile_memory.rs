//! T05, T08: what a peer that does not read, or floods, makes a TLS connection hold, counted to the byte.

use bytes::Bytes;
use waterwheel_channel::{
    ChannelOptions, Ctx, Events, Handler, HandlerResult, Msg, PauseReads, WaterMarks,
};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_tls::rustls::pki_types::ServerName;
use waterwheel_tls::{TlsError, TlsHandler, TlsOptions};

use counting_allocator::bytes;
use support::{Configs, Link, NAME, deliver};

#[path = "../../../support/counting_allocator.rs"]
mod counting_allocator;
#[allow(dead_code, reason = "shared with the other tests of TLS")]
#[path = "tls/support.rs"]
mod support;

/// The ciphertext that is made ahead of a peer that does not read: up to the high-water mark, and a batch that begins
/// below it.
const MAX_CIPHERTEXT: usize = 64 * 1024 + 64 * 1024 + 4 * 1024;

/// A message that waits, with its completion.
const QUEUE_ENTRY: usize = 512;

const MEGABYTE: usize = 1_000_000;

#[test]
fn t05_a_peer_that_stops_in_the_middle_of_a_record_gets_100_mb_later_and_costs_little_meanwhile() {
    let mut link = Link::established(TlsOptions::default());
    let message = Bytes::from((0..MEGABYTE).map(|n| (n % 251) as u8).collect::<Vec<_>>());
    let twice = message.repeat(2);
    link.client.channel.set_room(1_000);
    let before = bytes();
    let writes: Vec<_> =
        (0..100).map(|_| link.client.channel.write_outbound(message.clone())).collect();
    link.client.settle();
    let held = bytes().wrapping_sub(before);
    assert!(held < MAX_CIPHERTEXT + 100 * QUEUE_ENTRY, "{held} bytes for shared plaintext");
    assert!(writes.iter().all(|write| !write.is_done()));
    let channel = link.client.channel.channel().clone();
    assert!(
        !channel.is_writable() && channel.pending_bytes() > 99 * MEGABYTE,
        "the program is told"
    );
    // The peer reads again, 50,000 bytes at a time.
    let (mut received, mut sent) = (0, 0);
    while received < 100 * MEGABYTE {
        link.client.channel.set_room(50_000);
        link.client.settle();
        let wire = link.client.sent();
        assert!(!wire.is_empty(), "stopped after {received} bytes");
        sent += wire.len();
        deliver(&mut link.server.channel, &wire, usize::MAX);
        while let Some(plain) = link.server.channel.read_inbound::<Bytes>() {
            let at = received % MEGABYTE;
            assert!(plain == twice[at..at + plain.len()], "at {received}");
            received += plain.len();
        }
        let done = writes.iter().take_while(|write| write.is_done()).count();
        assert!(writes[done..].iter().all(|write| !write.is_done()), "done in order");
        assert!(done * MEGABYTE < sent, "done before it is written");
        let ahead = bytes().wrapping_sub(before);
        assert!(ahead < 3 * MAX_CIPHERTEXT, "{ahead} bytes with the records under way");
    }
    writes.into_iter().for_each(|write| write.join().unwrap());
    assert_eq!(channel.pending_bytes(), 0);
}

#[test]
fn t05_the_hard_cap_bounds_plaintext_for_a_peer_that_does_not_read() {
    let cap = 512 * 1024;
    let water_marks = WaterMarks::default().with_hard_cap(cap).unwrap();
    let options = ChannelOptions { water_marks, ..ChannelOptions::default() };
    let (mut client, mut server) = pair(options, ChannelOptions::default());
    exchange(&mut client, &mut server);
    client.set_room(100);
    let before = bytes();
    let message = Bytes::from(vec![7; 10_000]);
    let mut refused = 0;
    for _ in 0..1_000 {
        refused += usize::from(client.write_outbound(message.clone()).is_done());
    }
    assert!((940..960).contains(&refused), "{refused} of 1,000 refused");
    assert!(client.channel().is_open() && client.channel().pending_bytes() <= cap);
    let held = bytes().wrapping_sub(before);
    assert!(held < MAX_CIPHERTEXT + 60 * QUEUE_ENTRY, "{held} bytes");
    // What was taken arrives, with no gap in the ciphertext.
    client.clear_faults();
    exchange(&mut client, &mut server);
    let mut received = 0;
    while let Some(plain) = server.read_inbound::<Bytes>() {
        received += plain.len();
    }
    assert_eq!(received, (1_000 - refused) * 10_000);
}

/// Answers everything with the same bytes, whether the channel is writable or not.
struct CarelessEcho;

impl Handler for CarelessEcho {
    fn interest(&self) -> Events {
        Events::READ
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write_and_flush(msg);
        Ok(())
    }
}

#[test]
fn t05_a_peer_that_sends_and_never_reads_is_not_read_beyond_the_high_water_mark() {
    let options = ChannelOptions {
        pause_reads_while_unwritable: PauseReads::Always,
        ..ChannelOptions::default()
    };
    let (mut client, mut server) = pair(ChannelOptions::default(), options);
    server.with_pipeline(|pipeline| pipeline.add_last("echo", CarelessEcho)).unwrap().unwrap();
    exchange(&mut client, &mut server);
    server.set_room(0);
    let before = bytes();
    let message = Bytes::from(vec![7; 10_000]);
    let mut taken = 0;
    while server.unread() == 0 {
        assert!(taken < MEGABYTE, "still reading after {taken} bytes");
        drop(client.write_outbound(message.clone()));
        let wire = outbound(&mut client);
        deliver(&mut server, &wire, usize::MAX);
        taken += message.len();
    }
    assert!(server.channel().pending_bytes() <= 128 * 1024);
    let held = bytes().wrapping_sub(before);
    assert!(held < 3 * MAX_CIPHERTEXT, "{held} bytes, with the one that waits to be read");
    // The peer reads at last, and gets every byte.
    server.clear_faults();
    let mut echoed = 0;
    while echoed < taken {
        exchange(&mut client, &mut server);
        while let Some(plain) = client.read_inbound::<Bytes>() {
            assert!(plain.iter().all(|byte| *byte == 7));
            echoed += plain.len();
        }
    }
    assert_eq!((echoed, server.channel().pending_bytes()), (taken, 0));
}

#[test]
fn t08_a_failure_frees_what_was_held() {
    let mut link = Link::established(TlsOptions::default());
    link.server.channel.set_room(0);
    let before = bytes();
    let writes: Vec<_> =
        (0..50).map(|_| link.server.channel.write_outbound(vec![1; 100_000])).collect();
    assert!(bytes().wrapping_sub(before) > 4 * MEGABYTE);
    deliver(&mut link.server.channel, b"\x17\x03\x03\x00\x14garbage instead of AEAD", usize::MAX);
    let error = link.server.channel.read_error().unwrap();
    assert!(matches!(error.find(), Some(TlsError::Protocol(_))), "{error}");
    for write in writes {
        let failed = write.join().unwrap_err();
        assert!(failed.find::<TlsError>().is_some() || failed.is_closed(), "{failed}");
    }
    let held = bytes().wrapping_sub(before) as isize;
    assert!(held < 64 * 1024, "{held} bytes of a channel that is closed");
}

#[test]
fn t08_handshake_fragments_hold_100_kb_at_most() {
    let (_, mut server) = pair(ChannelOptions::default(), ChannelOptions::default());
    let before = bytes();
    // The longest ClientHello there may be, but for its last bytes.
    deliver(&mut server, b"\x16\x03\x01\x00\x04\x01\x00\xff\xf0", usize::MAX);
    let fragment = [&b"\x16\x03\x01\x10\x00"[..], &[0; 4096]].concat();
    let mut most = 0;
    for _ in 0..15 {
        deliver(&mut server, &fragment, 100);
        assert!(server.channel().is_open());
        most = most.max(bytes().wrapping_sub(before));
    }
    assert!((60_000..100_000).contains(&most), "{most} bytes");
    deliver(&mut server, &fragment, 100);
    assert!(!server.channel().is_open());
}

/// A client and a server with these options; nothing is exchanged yet.
fn pair(client: ChannelOptions, server: ChannelOptions) -> (Embedded, Embedded) {
    let configs = Configs::new();
    let name = ServerName::try_from(NAME).unwrap();
    let with = |options, tls| {
        Embedded::builder().stream().options(options).build(|edit| {
            edit.add_last("tls", tls)?;
            Ok(())
        })
    };
    let client = with(client, TlsHandler::client(configs.client, name)).unwrap();
    (client, with(server, TlsHandler::server(configs.server)).unwrap())
}

fn outbound(channel: &mut Embedded) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(bytes) = channel.read_outbound::<Bytes>() {
        all.extend_from_slice(&bytes);
    }
    all
}

/// Moves bytes both ways until both ends are silent.
fn exchange(client: &mut Embedded, server: &mut Embedded) {
    loop {
        (0..4).for_each(|_| client.run());
        (0..4).for_each(|_| server.run());
        let (to_server, to_client) = (outbound(client), outbound(server));
        if to_server.is_empty() && to_client.is_empty() {
            return;
        }
        deliver(server, &to_server, usize::MAX);
        deliver(client, &to_client, usize::MAX);
    }
}
