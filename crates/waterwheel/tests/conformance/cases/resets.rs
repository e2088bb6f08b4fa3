//! Connections that are reset (C02, C11).

use std::time::Duration;

use bytes::Bytes;
use waterwheel::channel::ChannelOptions;
use waterwheel::channel::driver::SocketOption;

use crate::cell::Cell;
use crate::test_bed::{ChannelEvent, TestBed, WAIT_LIMIT, get};

/// With and without auto-read: the reset is reported once, and the channel is closed.
pub(crate) fn c02_a_reset_is_reported_once_as_an_error_and_closes_the_channel(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    for auto_read in [true, false] {
        let options = ChannelOptions { auto_read, ..ChannelOptions::default() };
        let (server, mut events) = test_bed.tapped(options);
        let peer = cell.connect_foreign(&server);
        let child = events.channel();
        get(child.write_and_flush(Bytes::from_static(b"unread"))).unwrap();
        peer.reset();
        let seen = events.ending();
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert!(seen[0].contains("reset"), "{seen:?}");
        child.closed().wait_timeout(WAIT_LIMIT).unwrap();
        let late = get(child.write_and_flush(Bytes::from_static(b"late"))).unwrap_err();
        assert!(late.to_string().starts_with("the channel is closed"), "{late}");
        get(server.close()).unwrap();
    }
}

pub(crate) fn c11_a_close_with_linger_zero_resets_the_peer(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let (server, mut events) = test_bed.tapped(ChannelOptions::default());
    let (client, mut client_events) = test_bed.client(&server);
    let child = events.channel();
    get(child.set_option(SocketOption::Linger(Some(Duration::ZERO)))).unwrap();
    get(child.close()).unwrap();
    let outcome = client_events.find(|event| match event {
        ChannelEvent::Failed(error) => Some(error.to_string()),
        ChannelEvent::Inactive => Some("closed without a reset".to_owned()),
        _ => None,
    });
    assert!(outcome.contains("reset"), "{outcome}");
    client.closed().wait_timeout(WAIT_LIMIT).unwrap();
}
