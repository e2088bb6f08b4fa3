//! A lingering close (SO_LINGER) does not block the loop (C11).

use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::driver::SocketOption;
use waterwheel_executor::{Clock, GlobalExecutor};

use crate::loop_rig::{get, on_every_loop};
use crate::probe::{ProbedServer, read_to_end};

/// Longer than the test may take.
const LINGER: Duration = Duration::from_secs(20);

#[test]
fn c11_a_lingering_close_does_not_block_the_loop() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, |server| {
            server
                .child_socket_option(SocketOption::Linger(Some(LINGER)))
                .child_socket_option(SocketOption::SendBuffer(64 * 1024))
        });
        let (channel, mut peer, _notes) = server.connect();
        let begun = Clock::Monotonic.now();
        let _written = channel.write_and_flush(Bytes::from(vec![7; 8_000_000]));
        get(channel.close());
        rig.assert_not_spinning();
        assert!(Clock::Monotonic.now().since(begun) < LINGER / 2, "the close waited for the peer");
        let got = read_to_end(&mut peer).len();
        assert!(got > 0, "bytes that the kernel had taken are delivered");
    });
}

#[test]
fn c11_many_lingering_closes_delay_no_other_channel() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, |server| {
            server.child_socket_option(SocketOption::Linger(Some(LINGER)))
        });
        let begun = Clock::Monotonic.now();
        let connections: Vec<_> = (0..8).map(|_| server.connect()).collect();
        for (channel, ..) in &connections {
            drop(channel.write_and_flush(Bytes::from(vec![7; 8_000_000])));
            get(channel.close());
        }
        let idle = GlobalExecutor::get().submit(|| ()).unwrap();
        idle.wait_timeout(LINGER / 2).expect("the global executor is not blocked either");
        assert!(Clock::Monotonic.now().since(begun) < LINGER / 2);
    });
}

#[test]
fn c11_a_linger_of_less_than_a_second_does_not_reset_the_connection() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, |server| {
            server.child_socket_option(SocketOption::Linger(Some(Duration::from_millis(500))))
        });
        let (channel, mut peer, _notes) = server.connect();
        get(channel.write_and_flush(Bytes::from("last words")));
        get(channel.close());
        let mut all = Vec::new();
        std::io::Read::read_to_end(&mut peer, &mut all).expect("an end, not a reset");
        assert_eq!(all, b"last words");
    });
}
