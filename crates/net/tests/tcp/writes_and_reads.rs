//! Writes and reads of TCP channels (C07, C09).

use std::io::{Read, Write};

use bytes::Bytes;
use waterwheel_channel::WaterMarks;
use waterwheel_channel::driver::SocketOption;
use waterwheel_testkit::faulty::DriverCall;

use crate::loop_rig::{get, on_counting_drivers, on_every_loop};
use crate::probe::{ProbedServer, wait_until};

#[test]
fn c07_many_messages_are_written_sixty_four_per_call_and_in_order() {
    on_counting_drivers(|rig, faults| {
        let server = ProbedServer::open(rig, |server| server);
        let (channel, mut peer, _notes) = server.connect();
        let before = faults.calls(DriverCall::Write);
        let mut expected = Vec::new();
        for n in 0..640_u32 {
            let piece = format!("{n},");
            expected.extend_from_slice(piece.as_bytes());
            drop(channel.write(Bytes::from(piece)));
        }
        channel.flush();
        let mut all = vec![0; expected.len()];
        peer.read_exact(&mut all).unwrap();
        assert!(all == expected);
        assert_eq!(faults.calls(DriverCall::Write) - before, 10);
    });
}

#[test]
fn c07_a_channel_without_room_waits_for_epollout_and_does_not_retry() {
    on_counting_drivers(|rig, faults| {
        let server = ProbedServer::open(rig, |server| {
            server.child_socket_option(SocketOption::SendBuffer(8 * 1024))
        });
        let (channel, mut peer, _notes) = server.connect();
        let body = vec![7; 4_000_000];
        let written = channel.write_and_flush(Bytes::from(body.clone()));
        rig.assert_not_spinning();
        let tried = faults.calls(DriverCall::Write);
        rig.assert_not_spinning();
        channel.flush();
        let more = channel.write_and_flush(Bytes::from("more"));
        rig.assert_not_spinning();
        assert_eq!(faults.calls(DriverCall::Write), tried, "no write without room");
        let mut all = vec![0; body.len() + 4];
        peer.read_exact(&mut all).unwrap();
        assert!(all[..body.len()] == body && &all[body.len()..] == b"more");
        get(written);
        get(more);
        rig.assert_not_spinning();
        let after = faults.calls(DriverCall::Write);
        get(channel.write_and_flush(Bytes::from("one")));
        assert_eq!(faults.calls(DriverCall::Write), after + 1);
        rig.assert_not_spinning();
    });
}

#[test]
fn c07_a_peer_that_never_reads_stops_the_channel_at_its_water_marks() {
    on_every_loop(|rig| {
        let marks =
            WaterMarks::new(32 * 1024, 64 * 1024).unwrap().with_hard_cap(256 * 1024).unwrap();
        let options =
            waterwheel_channel::ChannelOptions { water_marks: marks, ..Default::default() };
        let server = ProbedServer::open(rig, |server| {
            server.child_options(options).child_socket_option(SocketOption::SendBuffer(8 * 1024))
        });
        let (channel, peer, _notes) = server.connect();
        let piece = Bytes::from(vec![7; 16 * 1024]);
        let mut refused = 0;
        for _ in 0..2_000 {
            let write = channel.write_and_flush(piece.clone());
            if write.is_done() && write.join().is_err() {
                refused += 1;
            }
            // One more write of this thread may be queued when the loop counts.
            assert!(channel.pending_bytes() <= 256 * 1024 + piece.len());
        }
        assert!(refused > 0 && !channel.is_writable());
        let mut peer = peer;
        let drain = std::thread::spawn(move || {
            let mut all = [0; 64 * 1024];
            while matches!(peer.read(&mut all), Ok(n) if n > 0) {}
        });
        wait_until("writable again", || channel.is_writable());
        get(channel.close());
        drain.join().unwrap();
    });
}

#[test]
fn c09_bytes_sent_one_at_a_time_are_all_read() {
    on_every_loop(|rig| {
        let (_server, address) = crate::probe::echo(rig);
        let mut peer = std::net::TcpStream::connect(address).unwrap();
        peer.set_nodelay(true).unwrap();
        let text = b"one byte after the other, each in a segment of its own\n";
        for byte in text {
            peer.write_all(&[*byte]).unwrap();
        }
        let mut back = vec![0; text.len()];
        peer.read_exact(&mut back).unwrap();
        assert_eq!(back, text);
    });
}
