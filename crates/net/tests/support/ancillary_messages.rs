//! A handler that forwards its reads to the test, and a peer that passes descriptors with plain system calls.

use std::io::{IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use waterwheel_channel::driver::Io;
use waterwheel_channel::{AncillaryMessage, Ctx, Datagram, Handler, HandlerResult, Msg};
use waterwheel_executor::Error;
use waterwheel_net::unwrap_descriptor;

use crate::loop_rig::TIME_LIMIT;

/// Sends each read to the test; plain bytes and datagrams as a message without descriptors.
pub(crate) struct ForwardsReads(Sender<AncillaryMessage>);

impl ForwardsReads {
    pub(crate) fn pair() -> (Sender<AncillaryMessage>, ReceivedMessages) {
        let (show, shown) = channel();
        (show, ReceivedMessages(shown))
    }

    pub(crate) fn to(show: Sender<AncillaryMessage>) -> Self {
        Self(show)
    }
}

impl Handler for ForwardsReads {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let message = msg.take::<AncillaryMessage>().or_else(|msg| match msg.take::<Datagram>() {
            Ok(datagram) => {
                let peer = datagram.peer().cloned();
                let truncated = datagram.is_truncated();
                let bytes = datagram.into_bytes();
                Ok(AncillaryMessage { bytes, peer, truncated, ..AncillaryMessage::default() })
            }
            Err(msg) => msg.take::<Bytes>().map(|bytes| AncillaryMessage::new(bytes, Vec::new())),
        });
        let _ = self.0.send(message.expect("bytes, a datagram or an ancillary message"));
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, _: Error) -> HandlerResult {
        Ok(())
    }
}

/// The messages that a channel has read.
pub(crate) struct ReceivedMessages(Receiver<AncillaryMessage>);

impl ReceivedMessages {
    #[track_caller]
    pub(crate) fn next(&self) -> AncillaryMessage {
        self.0.recv_timeout(TIME_LIMIT).expect("a message in time")
    }

    /// Reads until this text is complete; returns everything that was passed with it.
    #[track_caller]
    pub(crate) fn until(&self, text: &str) -> Vec<Io> {
        let (mut bytes, mut passed) = (Vec::new(), Vec::new());
        while bytes.len() < text.len() {
            let message = self.next();
            bytes.extend_from_slice(&message.bytes);
            passed.extend(message.passed);
        }
        assert_eq!(String::from_utf8_lossy(&bytes), text);
        passed
    }
}

/// A pipe whose writing end is passed to another process.
pub(crate) struct Pipe {
    reader: std::io::PipeReader,
    pub(crate) writer: OwnedFd,
}

impl Pipe {
    pub(crate) fn new() -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        Self { reader, writer: writer.into() }
    }

    /// Fails unless this descriptor is the last open writing end.
    #[track_caller]
    pub(crate) fn assert_other_end_is(mut self, passed: impl Into<OwnedFd>) {
        drop(self.writer);
        std::io::Write::write_all(&mut std::io::PipeWriter::from(passed.into()), b"here").unwrap();
        let mut said = String::new();
        self.reader.read_to_string(&mut said).unwrap();
        assert_eq!(said, "here");
    }

    /// Fails unless all writing ends are closed.
    #[track_caller]
    pub(crate) fn assert_writers_closed(mut self) {
        drop(self.writer);
        assert_eq!(self.reader.read(&mut [0]).unwrap(), 0);
    }
}

/// Returns the descriptor that was passed.
#[track_caller]
pub(crate) fn descriptor_of(io: Io) -> OwnedFd {
    unwrap_descriptor(io).expect("a descriptor")
}

/// Sends with sendmsg(2).
pub(crate) fn send(peer: impl AsFd, bytes: &[u8], passed: &[BorrowedFd<'_>]) {
    assert_eq!(try_send(peer, bytes, passed).unwrap(), bytes.len());
}

/// Sends with sendmsg(2); returns EAGAIN if there is no room.
pub(crate) fn try_send(
    peer: impl AsFd,
    bytes: &[u8],
    passed: &[BorrowedFd<'_>],
) -> rustix::io::Result<usize> {
    let mut buffer = [MaybeUninit::uninit(); cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut buffer);
    assert!(passed.is_empty() || control.push(SendAncillaryMessage::ScmRights(passed)));
    sendmsg(peer, &[IoSlice::new(bytes)], &mut control, SendFlags::empty())
}

/// Receives with recvmsg(2).
pub(crate) fn receive(peer: impl AsFd) -> (Vec<u8>, Vec<OwnedFd>) {
    let mut buffer = [MaybeUninit::uninit(); cmsg_space!(ScmRights(253))];
    let mut control = RecvAncillaryBuffer::new(&mut buffer);
    let mut bytes = vec![0; 64 * 1024];
    let mut slices = [IoSliceMut::new(&mut bytes)];
    let received = recvmsg(peer, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
    let passed = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(passed) => passed.collect(),
        _ => Vec::new(),
    });
    let passed = passed.collect();
    bytes.truncate(received.bytes);
    (bytes, passed)
}
