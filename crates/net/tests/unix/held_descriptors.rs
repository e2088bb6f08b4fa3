//! The number of passed descriptors that the process holds (K14).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};

use waterwheel_channel::driver::SocketOption;
use waterwheel_channel::{
    AncillaryMessage, Channel, ChannelOptions, Ctx, Handler, HandlerResult, Msg, NewChannel,
    PauseReads,
};
use waterwheel_executor::Error;
use waterwheel_net::existing_stream;

use crate::ancillary_messages::{receive, send};
use crate::loop_rig::{LoopRig, TIME_LIMIT, get, on_every_loop};
use crate::probe::Echo;

/// The number of descriptors in each ancillary message.
const EACH: usize = 16;

/// The bytes of each message: so few that thousands of descriptors would stay below the high-water mark if they
/// were not counted.
const TEXT: [u8; 256] = [b'x'; 256];

fn connection(rig: &LoopRig, handler: impl Handler + Send) -> (Channel, UnixStream) {
    let (ours, peer) = UnixStream::pair().unwrap();
    peer.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    peer.set_nonblocking(true).unwrap();
    let options = ChannelOptions {
        pause_reads_while_unwritable: PauseReads::Always,
        ..ChannelOptions::default()
    };
    let new = NewChannel::new(existing_stream(ours).unwrap()).options(options);
    let channel = get(rig.event_loop.register(new.initialiser(move |edit| {
        edit.add_last("handler", handler)?;
        Ok(())
    })));
    get(channel.set_option(SocketOption::ReceivePassed(true)));
    (channel, peer)
}

fn descriptors(of: &OwnedFd) -> Vec<BorrowedFd<'_>> {
    (0..EACH).map(|_| of.as_fd()).collect()
}

#[test]
fn k14_an_echo_holds_few_descriptors_of_a_peer_that_does_not_read() {
    on_every_loop(|rig| {
        let (channel, peer) = connection(rig, Echo);
        let pipe: OwnedFd = std::io::pipe().unwrap().1.into();
        let mut sent = 0;
        // Sends until the channel is unwritable and the kernel accepts no more.
        for _ in 0..10_000_000 {
            let full = !send_if_room(&peer, &descriptors(&pipe));
            sent += usize::from(!full);
            if full && !channel.is_writable() {
                break;
            }
            std::thread::yield_now();
        }
        assert!(!channel.is_writable(), "{sent} ancillary messages are not enough");
        let pending = channel.pending_bytes();
        let most = ChannelOptions::default().water_marks.high()
            + TEXT.len()
            + EACH * AncillaryMessage::PASSED_PENDING_BYTES;
        assert!(pending <= most, "{pending} of {most} pending");
        // Each message comes back, and pending descriptors are no longer counted.
        peer.set_nonblocking(false).unwrap();
        let (mut bytes, mut back) = (0, 0);
        while bytes < sent * TEXT.len() {
            let (read, passed) = receive(&peer);
            (bytes, back) = (bytes + read.len(), back + passed.len());
        }
        assert_eq!((bytes, back), (sent * TEXT.len(), sent * EACH));
        get(channel.with_pipeline(|_| ()));
        assert_eq!(channel.pending_bytes(), 0);
        let metrics = rig.event_loop.metrics();
        assert_eq!(
            metrics.bytes_read, metrics.bytes_written,
            "a descriptor does not count as bytes"
        );
        assert_eq!(metrics.bytes_written, bytes as u64);
    });
}

fn send_if_room(peer: &UnixStream, passed: &[BorrowedFd<'_>]) -> bool {
    match crate::ancillary_messages::try_send(peer, &TEXT, passed) {
        Ok(sent) => {
            assert_eq!(sent, TEXT.len(), "all or nothing is sent");
            true
        }
        // ETOOMANYREFS (too many descriptors in flight) is treated like EAGAIN.
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::TOOMANYREFS) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Reports the number of descriptors of each round of reads.
struct Rounds(Sender<usize>, usize);

impl Handler for Rounds {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.1 += msg.get::<AncillaryMessage>().map_or(0, |message| message.passed.len());
        Ok(())
    }

    fn on_read_complete(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.0.send(std::mem::take(&mut self.1)).map_err(Error::new)
    }
}

#[test]
fn k14_one_round_of_reads_brings_few_descriptors() {
    const MESSAGES: usize = 20;
    on_every_loop(|rig| {
        let (events, rounds) = channel();
        let (channel, peer) = connection(rig, Rounds(events, 0));
        channel.set_auto_read(false);
        get(channel.with_pipeline(|_| ()));
        let pipe: OwnedFd = std::io::pipe().unwrap().1.into();
        for _ in 0..MESSAGES {
            send(&peer, b"x", &descriptors(&pipe));
        }
        channel.set_auto_read(true);
        let mut all = 0;
        while all < MESSAGES * EACH {
            let round = rounds.recv_timeout(TIME_LIMIT).expect("another round");
            assert!(round <= EACH + 15, "{round} descriptors in one round");
            all += round;
        }
    });
}
