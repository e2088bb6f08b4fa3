//! A close that waits for the peer does not keep the loop (C11).

use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::driver::SocketOption;
use waterwheel_executor::{Clock, GlobalExecutor};

use crate::loop_rig::{get, on_every_loop};
use crate::probe::{Door, read_to_end};

/// Longer than the test may take.
const LINGER: Duration = Duration::from_secs(20);

#[test]
fn c11_a_lingering_close_does_not_block_the_loop() {
    on_every_loop(|rig| {
        let door = Door::open(rig, |server| {
            server
                .child_socket_option(SocketOption::Linger(Some(LINGER)))
                .child_socket_option(SocketOption::SendBuffer(64 * 1024))
        });
        let (channel, mut peer, _notes) = door.connect();
        let begun = Clock::Monotonic.now();
        let _written = channel.write_and_flush(Bytes::from(vec![7; 8_000_000]));
        get(channel.close());
        rig.assert_calm();
        assert!(Clock::Monotonic.now().since(begun) < LINGER / 2, "it waited for the peer");
        let got = read_to_end(&mut peer).len();
        assert!(got > 0, "what the kernel had taken is delivered");
    });
}

#[test]
fn c11_lingering_closes_keep_nobody_waiting() {
    on_every_loop(|rig| {
        let door = Door::open(rig, |server| {
            server.child_socket_option(SocketOption::Linger(Some(LINGER)))
        });
        let begun = Clock::Monotonic.now();
        let visits: Vec<_> = (0..8).map(|_| door.connect()).collect();
        for (channel, ..) in &visits {
            drop(channel.write_and_flush(Bytes::from(vec![7; 8_000_000])));
            get(channel.close());
        }
        let idle = GlobalExecutor::get().submit(|| ()).unwrap();
        idle.wait_timeout(LINGER / 2).expect("what all share is not kept either");
        assert!(Clock::Monotonic.now().since(begun) < LINGER / 2);
    });
}

#[test]
fn c11_a_linger_of_less_than_a_second_is_no_reset() {
    on_every_loop(|rig| {
        let door = Door::open(rig, |server| {
            server.child_socket_option(SocketOption::Linger(Some(Duration::from_millis(500))))
        });
        let (channel, mut peer, _notes) = door.connect();
        get(channel.write_and_flush(Bytes::from("last words")));
        get(channel.close());
        let mut all = Vec::new();
        std::io::Read::read_to_end(&mut peer, &mut all).expect("an end, not a reset");
        assert_eq!(all, b"last words");
    });
}
