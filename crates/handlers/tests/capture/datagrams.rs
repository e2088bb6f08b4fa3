//! Datagrams as UDP packets.

use bytes::Bytes;
use waterwheel_channel::{Address, AncillaryMessage, Datagram, UnixAddress};
use waterwheel_handlers::Capture;
use waterwheel_testkit::embedded::Embedded;

use crate::support::{address, connected, lines, packets_of};

#[test]
fn k06_datagrams_are_recorded_in_both_directions() {
    let packets = packets_of(|file| {
        let capture = Capture::datagrams(file);
        let mut channel = connected(Embedded::builder(), capture, "192.0.2.1:5353", "192.0.2.7:53");
        let peer = Address::from(address("192.0.2.9:999"));
        channel.write_inbound(Datagram::received(Some(peer.clone()), "question".into(), 8));
        drop(channel.write_outbound(Datagram::to(peer, "answer")));
        drop(channel.write_outbound(Datagram::new("to the connected peer")));
        drop(channel.write_outbound(Bytes::from_static(b"plain bytes")));
        channel.write_inbound(Datagram::received(None, Bytes::new(), 0));
        channel.close();
    });
    let expected = [
        "192.0.2.9:999 > 192.0.2.1:5353 question",
        "192.0.2.1:5353 > 192.0.2.9:999 answer",
        "192.0.2.1:5353 > 192.0.2.7:53 to the connected peer",
        "192.0.2.1:5353 > 192.0.2.7:53 plain bytes",
        "192.0.2.7:53 > 192.0.2.1:5353 ",
    ];
    assert_eq!(lines(&packets), expected);
}

#[test]
fn k06_a_truncated_datagram_has_its_whole_length() {
    let packets = packets_of(|file| {
        let capture = Capture::datagrams(file);
        let mut channel = connected(Embedded::builder(), capture, "[::1]:5353", "[::1]:53");
        channel.write_inbound(Datagram::received(None, "cut".into(), 100));
        channel.write_inbound(Datagram::received(None, vec![7; 300_000].into(), 300_000));
    });
    assert_eq!((packets[0].payload.len(), packets[0].whole), (3, 100));
    assert_eq!(
        (packets[1].payload.len(), packets[1].whole),
        (65_507, 65_507),
        "as long as UDP allows"
    );
}

#[test]
fn k06_datagrams_of_unix_sockets_have_synthetic_addresses() {
    let packets = packets_of(|file| {
        let mut channel = Embedded::new(|edit| {
            edit.add_first("capture", Capture::datagrams(file))?;
            Ok(())
        })
        .unwrap();
        let peer = Address::from(UnixAddress::path("/run/peer"));
        channel.write_inbound(Datagram::received(Some(peer.clone()), "in".into(), 2));
        drop(channel.write_outbound(AncillaryMessage::to(peer, "out", Vec::new())));
    });
    let [first, second] = &packets[..] else { panic!("{packets:?}") };
    assert_eq!((first.source, first.destination), (second.destination, second.source));
    assert_eq!(first.source.ip().to_string(), "198.19.0.0");
    assert_eq!((&*first.payload, &*second.payload), (&b"in"[..], &b"out"[..]));
}
