//! Short reads that do not empty the kernel's buffer: the remaining data is read without another event (L05).

use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use rustix::event::PollFlags;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, send, sendmsg, sockopt};
use waterwheel_channel::driver::{ReadPlan, Role, SocketOption};
use waterwheel_net::Socket;

use crate::driver_rig::{DriverRig, on_every_driver, until};

/// Reads until `len` bytes have arrived; returns the text with `|` after each read.
fn text(rig: &mut DriverRig, len: usize) -> String {
    let mut text = String::new();
    while text.matches(|c| c != '|').count() < len {
        for event in rig.round() {
            if let Some(read) = event.strip_prefix("read ") {
                text.push_str(read);
                text.push('|');
            }
        }
    }
    text
}

#[test]
fn l05_data_behind_urgent_data_is_read_without_another_event() {
    for inline in [false, true] {
        on_every_driver(|rig| {
            let (ours, mut peer) = crate::driver_rig::pair();
            sockopt::set_socket_oobinline(&ours, inline).unwrap();
            let duplicate = crate::driver_rig::dup(&ours);
            let token = rig.attach(Socket::new(ours).unwrap(), Role::Stream);
            rig.read_on(token);
            rig.poll();
            for _ in 0..2 {
                peer.write_all(b"before").unwrap();
                send(&peer, b"!", SendFlags::OOB).unwrap();
                peer.write_all(b"behind").unwrap();
                until(&duplicate, PollFlags::IN | PollFlags::PRI);
                let read = text(rig, if inline { 13 } else { 12 });
                assert_eq!(read.replace(['|', '!'], ""), "beforebehind", "{read}");
            }
        });
    }
}

#[test]
fn l05_data_behind_urgent_data_is_read_when_reads_are_turned_on_again() {
    on_every_driver(|rig| {
        let (token, mut peer) = rig.stream();
        rig.read_on(token);
        rig.poll();
        rig.read_off(token);
        peer.write_all(b"before").unwrap();
        send(&peer, b"!", SendFlags::OOB).unwrap();
        peer.write_all(b"behind").unwrap();
        rig.assert_quiet();
        rig.driver.set_read(token, Some(ReadPlan { max_reads: 1, size: 100 }));
        assert_eq!(text(rig, 12).replace('|', ""), "beforebehind");
    });
}

/// Sends a text with a descriptor.
fn pass(peer: &UnixStream, text: &[u8]) {
    let mut buffer = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut buffer);
    let passed = [peer.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&passed)));
    sendmsg(peer, &[IoSlice::new(text)], &mut control, SendFlags::empty()).unwrap();
}

#[test]
fn l05_data_after_a_discarded_passed_descriptor_is_read_without_another_event() {
    on_every_driver(|rig| {
        let (ours, mut peer) = UnixStream::pair().unwrap();
        let token = rig.attach(Socket::new(ours).unwrap(), Role::Stream);
        rig.read_on(token);
        rig.poll();
        pass(&peer, b"with");
        peer.write_all(b"without").unwrap();
        pass(&peer, b"with");
        peer.write_all(b"without").unwrap();
        let read = text(rig, 22);
        assert_eq!(read.replace('|', ""), "withwithoutwithwithout", "{read}");
        assert!(read.starts_with("with|"), "a read ends at a message with descriptors: {read}");
    });
}

#[test]
fn l05_data_behind_credentials_or_descriptors_is_read_without_another_event() {
    on_every_driver(|rig| {
        let (ours, mut peer) = UnixStream::pair().unwrap();
        let token = rig.attach(Socket::new(ours).unwrap(), Role::Stream);
        rig.driver.set_option(token, SocketOption::ReceiveCredentials(true)).unwrap();
        rig.read_on(token);
        rig.poll();
        pass(&peer, b"one");
        peer.write_all(b"two").unwrap();
        let mut read = String::new();
        while !read.contains("two") {
            read.push_str(&rig.round().concat());
        }
    });
}
