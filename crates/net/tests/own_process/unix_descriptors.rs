//! Ancillary messages for a process without free descriptors (EMFILE, MSG_CTRUNC; C13). Lowers RLIMIT_NOFILE of
//! its process.

#[path = "../support/loop_rig.rs"]
mod loop_rig;

#[path = "../support/ancillary_messages.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod ancillary_messages;

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use waterwheel_channel::NewChannel;
use waterwheel_channel::driver::SocketOption;
use waterwheel_net::existing_stream;

use ancillary_messages::{ForwardsReads, Pipe, send};
use loop_rig::{get, on_every_loop};

#[test]
fn c13_an_ancillary_message_whose_descriptors_exceed_the_limit_is_marked_truncated() {
    on_every_loop(|rig| {
        let (ours, peer) = UnixStream::pair().unwrap();
        let (show, shown) = ForwardsReads::pair();
        let new = NewChannel::new(existing_stream(ours).unwrap()).initialiser(move |edit| {
            edit.add_last("shows", ForwardsReads::to(show))?;
            Ok(())
        });
        let channel = get(rig.event_loop.register(new));
        get(channel.set_option(SocketOption::ReceivePassed(true)));

        let pipe = Pipe::new();
        let three: Vec<BorrowedFd<'_>> = vec![pipe.writer.as_fd(); 3];
        // Finds the descriptor numbers that the kernel assigns next.
        let files: Vec<File> = (0..4).map(|_| File::open("/dev/null").unwrap()).collect();
        let numbers: Vec<u64> = files.iter().map(|file| file.as_raw_fd() as u64).collect();
        drop(files);
        let full = getrlimit(Resource::Nofile);
        for had in [0, 2, 3] {
            let limit = Rlimit { current: Some(numbers[had]), ..full };
            setrlimit(Resource::Nofile, limit).unwrap();
            send(&peer, b"three", &three);
            let message = shown.next();
            setrlimit(Resource::Nofile, full).unwrap();
            assert_eq!((&*message.bytes, message.passed.len()), (&b"three"[..], had));
            assert_eq!(message.truncated, had < 3);
        }
        assert!(channel.is_active());
        pipe.assert_writers_closed();
    });
}
