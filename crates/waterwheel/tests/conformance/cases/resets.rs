//! Connections that are torn.

use std::time::Duration;

use bytes::Bytes;
use waterwheel::channel::ChannelOptions;
use waterwheel::channel::driver::SocketOption;

use crate::cell::Cell;
use crate::test_bed::{ChannelEvent, TestBed, WAIT_LIMIT, get};

/// Whether it reads at that moment or not: it is told once, and closed.
pub(crate) fn c02_a_reset_is_an_error_and_the_end(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    for auto_read in [true, false] {
        let options = ChannelOptions { auto_read, ..ChannelOptions::default() };
        let (server, mut ear) = test_bed.tapped(options);
        let peer = cell.foreign(&server);
        let child = ear.channel();
        get(child.write_and_flush(Bytes::from_static(b"unread"))).unwrap();
        peer.reset();
        let told = ear.ending();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("reset"), "{told:?}");
        child.closed().wait_timeout(WAIT_LIMIT).unwrap();
        let late = get(child.write_and_flush(Bytes::from_static(b"late"))).unwrap_err();
        assert!(late.to_string().starts_with("the channel is closed"), "{late}");
        get(server.close()).unwrap();
    }
}

pub(crate) fn c11_a_close_that_lingers_for_nothing_resets_the_peer(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let (server, mut ear) = test_bed.tapped(ChannelOptions::default());
    let (client, mut heard) = test_bed.client(&server);
    let child = ear.channel();
    get(child.set_option(SocketOption::Linger(Some(Duration::ZERO)))).unwrap();
    get(child.close()).unwrap();
    let told = heard.find(|told| match told {
        ChannelEvent::Failed(error) => Some(error.to_string()),
        ChannelEvent::Inactive => Some("closed without a reset".to_owned()),
        _ => None,
    });
    assert!(told.contains("reset"), "{told}");
    client.closed().wait_timeout(WAIT_LIMIT).unwrap();
}
