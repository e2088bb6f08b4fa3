//! Writes of all kinds, mixed at random (C07, C13).

use std::ops::Range;
use std::os::unix::net::{UnixDatagram, UnixStream};

use bytes::Bytes;
use waterwheel_channel::driver::Io;
use waterwheel_channel::{
    AncillaryMessage, Bootstrap, Channel, ChannelFuture, Datagram, Msg, NewChannel, UnixAddress,
};
use waterwheel_net::{UnixDatagrams, existing_stream, wrap_descriptor};

use crate::ancillary_messages::{Pipe, receive};
use crate::loop_rig::{TIME_LIMIT, get, on_every_loop};
use crate::support::SocketDirectory;

/// A failure names its seed.
const SEEDS: Range<u64> = 1..10;

/// A pseudo-random number generator (xorshift).
struct XorShift(u64);

impl XorShift {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// One write and its expected outcome.
struct Written {
    future: ChannelFuture,
    /// `None` if the write must fail.
    arrives: Option<Vec<u8>>,
    cancelled: bool,
}

/// Makes random writes and waits for all of them; returns what must arrive, in order.
fn write_at_random(
    channel: &Channel,
    seed: u64,
    mut make: impl FnMut(&mut XorShift, u32) -> (Msg, Option<Vec<u8>>),
) -> Vec<Vec<u8>> {
    let random = &mut XorShift(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let (mut all, mut expected) = (Vec::new(), Vec::new());
    let mut at = 0;
    for _ in 0..random.roll(20) + 1 {
        let mut batch = Vec::new();
        for _ in 0..random.roll(60) {
            let (msg, arrives) = make(random, at);
            at += 1;
            let future = channel.write(msg);
            batch.push(Written { future, arrives, cancelled: false });
        }
        for written in &mut batch {
            if random.roll(4) == 0 {
                written.cancelled = written.future.cancel();
            }
        }
        if random.roll(5) > 0 {
            channel.flush();
        }
        all.append(&mut batch);
    }
    channel.flush();
    for (nth, written) in all.into_iter().enumerate() {
        let expects = written.arrives.is_some() && !written.cancelled;
        written.future.wait_timeout(TIME_LIMIT).expect("done in time");
        let result = written.future.join();
        assert_eq!(result.is_ok(), expects, "seed {seed}, write {nth}: {result:?}");
        if expects {
            expected.extend(written.arrives);
        }
    }
    assert_eq!(channel.pending_bytes(), 0);
    assert!(channel.is_writable());
    expected
}

#[test]
fn c07_writes_to_a_stream_mixed_at_random_arrive_fail_or_are_cancelled_each_by_itself() {
    on_every_loop(|rig| {
        for seed in SEEDS {
            let (ours, peer) = UnixStream::pair().unwrap();
            peer.set_read_timeout(Some(TIME_LIMIT)).unwrap();
            let new = NewChannel::new(existing_stream(ours).unwrap());
            let channel = get(rig.event_loop.register(new));
            let pipe = Pipe::new();
            let reader = std::thread::spawn(move || {
                let (mut all, mut passed) = (Vec::new(), 0);
                loop {
                    let (bytes, more) = receive(&peer);
                    passed += more.len();
                    if bytes.is_empty() {
                        return (all, passed);
                    }
                    all.extend(bytes);
                }
            });
            let mut messages = 0;
            let expected = write_at_random(&channel, seed, |random, at| {
                let text = format!("<{at}>").repeat(1 + random.roll(5) as usize * 100);
                match random.roll(6) {
                    0 => (Bytes::new().into(), Some(Vec::new())),
                    1 => {
                        let strange = AncillaryMessage::new("lost", vec![Io::new(7_u8)]);
                        (strange.into(), None)
                    }
                    2 => {
                        messages += 1;
                        let end = wrap_descriptor(pipe.writer.try_clone().unwrap());
                        let bytes = text.clone().into_bytes();
                        (AncillaryMessage::new(text, vec![end]).into(), Some(bytes))
                    }
                    _ => (Bytes::from(text.clone()).into(), Some(text.into_bytes())),
                }
            });
            get(channel.close());
            let (all, passed) = reader.join().unwrap();
            assert!(all == expected.concat(), "seed {seed}");
            assert!(passed <= messages);
            pipe.assert_writers_closed();
        }
    });
}

#[test]
fn c07_datagrams_mixed_at_random_arrive_fail_or_are_cancelled_each_by_itself() {
    let huge = Bytes::from(vec![0; 10_000_000]);
    on_every_loop(|rig| {
        for seed in SEEDS {
            let directory = SocketDirectory::new();
            let peer = UnixDatagram::bind(directory.path("peer")).unwrap();
            peer.set_read_timeout(Some(TIME_LIMIT)).unwrap();
            let bootstrap = Bootstrap::new(&rig.event_loop.parent().unwrap(), UnixDatagrams);
            let channel = get(bootstrap.connect(UnixAddress::path(directory.path("peer"))));
            let pipe = Pipe::new();
            let reader = std::thread::spawn(move || {
                let mut all = Vec::new();
                loop {
                    let mut room = vec![0; 100_000];
                    let n = peer.recv(&mut room).unwrap();
                    if &room[..n] == b"the end" {
                        return all;
                    }
                    all.push(room[..n].to_vec());
                }
            });
            let expected = write_at_random(&channel, seed, |random, at| {
                let text = format!("<{at}>").repeat(random.roll(5) as usize * 100);
                match random.roll(6) {
                    0 => (Datagram::new(huge.clone()).into(), None),
                    1 => (AncillaryMessage::new("lost", vec![Io::new(7_u8)]).into(), None),
                    2 => {
                        let end = wrap_descriptor(pipe.writer.try_clone().unwrap());
                        let bytes = text.clone().into_bytes();
                        (AncillaryMessage::new(text, vec![end]).into(), Some(bytes))
                    }
                    _ => (Datagram::new(text.clone()).into(), Some(text.into_bytes())),
                }
            });
            get(channel.write_and_flush(Datagram::new("the end")));
            assert!(reader.join().unwrap() == expected, "seed {seed}");
            get(channel.close());
            pipe.assert_writers_closed();
        }
    });
}
