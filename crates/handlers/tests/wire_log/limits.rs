//! Limits of what a peer can put into a log, and the cost of a log that is off.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tracing::Level;
use waterwheel_channel::{Address, ConnectTarget, Datagram, Message, UnixAddress};
use waterwheel_executor::Error;
use waterwheel_handlers::DEFAULT_SHOWN_BYTES;
use waterwheel_testkit::embedded::Embedded;

use crate::support::{LineCollector, TARGET, builder, messages_of, wire_log};

#[test]
fn k06_the_bytes_of_a_message_are_shown_up_to_a_limit() {
    let flood = Bytes::from(vec![b'\n'; 10_000_000]);
    for (max, hex) in
        [(DEFAULT_SHOWN_BYTES, false), (DEFAULT_SHOWN_BYTES, true), (16, false), (0, false)]
    {
        let mut builder = builder().max_bytes(max);
        if hex {
            builder = builder.hex_dump();
        }
        let messages = messages_of(builder.build(), |channel| {
            channel.write_inbound(flood.clone());
        });
        // A row of a hex dump is at most 79 characters for 16 bytes.
        let longest = 64 + max * if hex { 5 } else { 4 };
        let length = messages[0].len();
        assert!(length <= longest, "{length} characters for {max} bytes: {:.99}", messages[0]);
        assert!(messages[0].starts_with("READ 10000000 bytes"), "{:.99}", messages[0]);
    }
    let default = messages_of(wire_log(), |channel| channel.write_inbound(flood.clone()));
    assert!(default[0].ends_with(&format!("\" and {} more", flood.len() - 512)), "the default");
}

#[test]
fn k06_errors_and_addresses_are_shown_up_to_a_limit() {
    let messages = messages_of(builder().max_bytes(0).build(), |channel| {
        let text = "x".repeat(1_000_000);
        channel.with_pipeline(|pipeline| pipeline.fire_error(Error::new(text.clone())));
        channel.write_inbound(Datagram::received(Some(Address::local(text)), Bytes::new(), 0));
    });
    let cut = "x".repeat(256) + "...";
    assert_eq!(messages[0], format!("ERROR {cut}"));
    assert!(messages[1].len() < 400, "{}", messages[1].len());
}

#[test]
fn k06_control_characters_of_a_peer_are_escaped() {
    let collector = LineCollector::new(Level::DEBUG, TARGET);
    let evil = "a\n2026 INFO forged\r\x1b[2J\u{202e}\u{9b}";
    let lines = collector.lines_of(|| {
        let build = Embedded::builder().unconnected().build(|edit| {
            edit.add_last("log", builder().show::<Evil>().build())?;
            Ok(())
        });
        let mut channel = build.unwrap();
        // A peer chooses the path of its Unix socket.
        let target = ConnectTarget::from(Address::from(UnixAddress::path(evil)));
        channel.on_loop(|channel| drop(channel.connect(target)));
        channel.run();
        channel.write_inbound(Bytes::from(evil));
        channel.write_inbound(String::from(evil));
        channel.write_inbound(Evil(evil));
        channel.fire_user_event(Evil(evil));
        channel.write_inbound(Datagram::received(Some(Address::local(evil)), evil.into(), 99));
        channel.with_pipeline(|pipeline| pipeline.fire_error(Error::new(evil)));
    });
    assert!(lines.iter().filter(|line| line.contains("forged")).count() > 7, "{lines:#?}");
    for line in lines {
        assert!(line.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{line:?}");
    }
}

/// A message whose `Debug` writes text as it is.
struct Evil(&'static str);

impl Message for Evil {}

impl std::fmt::Debug for Evil {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// A message that counts how often it is formatted.
struct CountsFormats(Arc<AtomicUsize>);

impl Message for CountsFormats {}

impl std::fmt::Debug for CountsFormats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fetch_add(1, Ordering::Relaxed);
        f.write_str("counted")
    }
}

#[test]
fn k06_nothing_is_formatted_unless_it_is_enabled() {
    let formats = Arc::new(AtomicUsize::new(0));
    let send_one = |level| {
        let wire_log = builder().level(level).show::<CountsFormats>();
        let mut channel = Embedded::new(|edit| {
            edit.add_last("log", wire_log.build())?;
            Ok(())
        })
        .unwrap();
        channel.write_inbound(CountsFormats(formats.clone()));
        assert!(channel.read_inbound_any().is_some());
    };
    send_one(Level::ERROR); // No subscriber.
    for other in
        [LineCollector::new(Level::TRACE, "other"), LineCollector::new(Level::INFO, TARGET)]
    {
        let lines = other.lines_of(|| send_one(Level::DEBUG)); // Another target, another level.
        assert_eq!((lines, formats.load(Ordering::Relaxed)), (vec![], 0));
    }
    let lines = LineCollector::new(Level::DEBUG, TARGET).lines_of(|| send_one(Level::DEBUG));
    assert_eq!(formats.load(Ordering::Relaxed), 1);
    assert!(lines.iter().any(|line| line.ends_with("READ counted")), "{lines:?}");
}

#[test]
fn k06_a_level_may_be_enabled_while_a_channel_runs() {
    let mut channel = Embedded::new(|edit| {
        edit.add_last("log", wire_log())?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound(1u32);
    let collector = LineCollector::new(Level::DEBUG, TARGET);
    let lines = collector.lines_of(|| channel.write_inbound(2u32));
    assert_eq!(lines.iter().filter(|line| line.contains("READ u32")).count(), 1, "{lines:?}");
    channel.write_inbound(3u32);
    assert_eq!(collector.take(), [] as [&str; 0]);
}
