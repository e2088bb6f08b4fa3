//! The text of the lines.

use bytes::{Bytes, BytesMut};
use tracing::Level;
use waterwheel_channel::{
    Address, AncillaryMessage, ConnectTarget, Datagram, FileRegion, HalfClosed, Message,
    PeerFinished,
};
use waterwheel_executor::Error;
use waterwheel_handlers::{IdleEvent, IdleKind, WireLog};
use waterwheel_testkit::embedded::Embedded;

use crate::support::{LineCollector, address, builder, messages_of, wire_log};

/// Returns the line of the first event with this name.
fn first<'a>(messages: &'a [String], name: &str) -> &'a str {
    messages.iter().find(|message| message.starts_with(name)).unwrap()
}

#[test]
fn k06_a_line_has_level_target_channel_and_addresses() {
    let collector = LineCollector::new(Level::TRACE, "a target");
    let wire_log = WireLog::builder().level(Level::TRACE).target("a target").build();
    let lines = collector.lines_of(|| {
        let build = Embedded::builder().unconnected().build(|edit| {
            edit.add_last("log", wire_log)?;
            Ok(())
        });
        let mut channel = build.unwrap();
        let target = ConnectTarget::from(address("[2001:db8::7]:80"))
            .or(address("192.0.2.7:80"))
            .from_local(address("192.0.2.1:4000"));
        channel.on_loop(|channel| drop(channel.connect(target)));
        channel.run();
    });
    let registered = "TRACE a target: channel=N REGISTERED";
    let connect =
        "TRACE a target: channel=N CONNECT [2001:db8::7]:80 or 192.0.2.7:80 from 192.0.2.1:4000";
    let active = "TRACE a target: channel=N local=192.0.2.1:4000 peer=[2001:db8::7]:80 ACTIVE";
    assert_eq!(lines[..3], [registered, connect, active]);
}

#[test]
fn k06_bytes_and_texts_are_shown() {
    let messages = messages_of(wire_log(), |channel| {
        channel.write_inbound(Bytes::from_static(b"GET /\r\n"));
        channel.write_inbound(BytesMut::from("in"));
        channel.write_inbound(vec![0u8, 255]);
        channel.write_inbound(String::from("text"));
        channel.write_inbound("static");
        channel.write_inbound(Bytes::new());
    });
    let reads: Vec<_> = messages.iter().filter(|line| line.starts_with("READ ")).collect();
    let expected = [
        r#"READ 7 bytes "GET /\r\n""#,
        r#"READ 2 bytes "in""#,
        r#"READ 2 bytes "\x00\xff""#,
        r#"READ 4 bytes "text""#,
        r#"READ 6 bytes "static""#,
        "READ 0 bytes",
    ];
    assert_eq!(reads, expected);
}

#[test]
fn k06_datagrams_files_and_ancillary_messages_are_shown() {
    let peer = Address::from(address("192.0.2.7:53"));
    let messages = messages_of(wire_log(), |channel| {
        channel.write_inbound(Datagram::received(Some(peer.clone()), "abc".into(), 9));
        channel.write_inbound(AncillaryMessage::new("abc", Vec::new()));
        drop(channel.write_outbound(Datagram::to(peer.clone(), "answer")));
        let file = std::fs::File::open("Cargo.toml").unwrap();
        drop(channel.write_outbound(FileRegion::new(file, 3..13).unwrap()));
    });
    let shown = |message: &&String| message.starts_with("READ ") || message.starts_with("WRITE ");
    let expected = [
        r#"READ datagram from 192.0.2.7:53 3 of 9 bytes "abc""#,
        r#"READ ancillary message with 0 descriptors, 3 bytes "abc""#,
        r#"WRITE datagram to 192.0.2.7:53 6 bytes "answer""#,
        "WRITE 10 bytes of a file from offset 3",
    ];
    assert_eq!(messages.iter().filter(shown).collect::<Vec<_>>(), expected);
}

#[test]
fn k06_user_events_and_errors_are_shown() {
    let messages = messages_of(wire_log(), |channel| {
        channel.fire_user_event(HalfClosed::Input);
        channel.fire_user_event(PeerFinished);
        channel.fire_user_event(IdleEvent { kind: IdleKind::Reader, first: true });
        channel.fire_user_event(7u64);
        channel.with_pipeline(|pipeline| pipeline.fire_error(Error::new("out of luck")));
    });
    let expected = [
        "USER_EVENT HalfClosed::Input",
        "USER_EVENT PeerFinished",
        "USER_EVENT idle: reader, first",
        "USER_EVENT u64",
        "ERROR out of luck",
    ];
    assert_eq!(messages[..5], expected);
}

/// A message that has `Debug`.
#[derive(Debug)]
struct Request {
    #[allow(dead_code, reason = "shown by `Debug`")]
    path: &'static str,
}

impl Message for Request {}

#[test]
fn k06_other_messages_are_shown_by_type_or_as_asked_by_debug() {
    let read = |wire_log| {
        let messages = messages_of(wire_log, |channel| {
            channel.write_inbound(Request { path: "/a\nb" });
        });
        first(&messages, "READ ").to_owned()
    };
    assert_eq!(read(wire_log()), "READ wire_log::lines::Request");
    let shown = builder().show::<u8>().show::<Request>();
    assert_eq!(read(shown.clone().build()), r#"READ Request { path: "/a\nb" }"#);
    assert_eq!(read(shown.max_bytes(9).build()), "READ Request {...");
}

#[test]
fn k06_a_hex_dump_follows_its_line() {
    let wire_log = builder().hex_dump().build();
    let messages = messages_of(wire_log, |channel| {
        channel.write_inbound(Bytes::from_static(b"hello\x00\x1b"));
    });
    let expected = "READ 7 bytes\n\
        00000000  68 65 6c 6c 6f 00 1b                              |hello..|";
    assert_eq!(first(&messages, "READ "), expected);
}
