//! Listening sockets as a message between two processes.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Maximum number of sockets: a gateway listens at a few addresses.
const MAX_SOCKETS: usize = 16;

/// The payload of the message; another text is of another program or version.
const GREETING: &[u8] = b"waterwheel take-over 1\n";

/// Sends sockets.
pub(super) fn send_sockets(to: &UnixStream, sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    if sockets.len() > MAX_SOCKETS {
        return Err(io::Error::other(format!("more than {MAX_SOCKETS} sockets")));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_SOCKETS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(sockets)) {
        return Err(io::Error::other("no room for the sockets"));
    }
    let sent = sendmsg(to, &[IoSlice::new(GREETING)], &mut ancillary, SendFlags::NOSIGNAL)?;
    match sent == GREETING.len() {
        true => Ok(()),
        false => Err(io::Error::other("the message was cut off")),
    }
}

/// Receives sockets. Waits for as long as the time limit of `from`.
pub(super) fn receive_sockets(from: &impl AsFd) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_SOCKETS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut text = [0; GREETING.len()];
    let received =
        recvmsg(from, &mut [IoSliceMut::new(&mut text)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut sockets = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            sockets.extend(received);
        }
    }
    if &text[..received.bytes] != GREETING {
        return Err(io::Error::other("the process before this one is of another version"));
    }
    if sockets.is_empty() {
        return Err(io::Error::other("there are no sockets in the message"));
    }
    Ok(sockets)
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};

    use super::*;

    #[test]
    fn g07_sockets_arrive_in_their_order() {
        let (old, new) = UnixStream::pair().unwrap();
        let sockets: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let fds: Vec<_> = sockets.iter().map(|socket| socket.as_fd()).collect();
        send_sockets(&old, &fds).unwrap();
        let received = receive_sockets(&new).unwrap();
        let address = |listener: &TcpListener| listener.local_addr().unwrap();
        let received: Vec<SocketAddr> =
            received.into_iter().map(|fd| address(&TcpListener::from(fd))).collect();
        assert_eq!(received, sockets.iter().map(address).collect::<Vec<_>>());
    }

    #[test]
    fn g07_a_message_of_another_program_or_without_sockets_is_refused() {
        use std::io::Write;

        let (mut old, new) = UnixStream::pair().unwrap();
        old.write_all(GREETING).unwrap();
        assert!(receive_sockets(&new).unwrap_err().to_string().contains("no sockets"));
        old.write_all(b"hello").unwrap();
        assert!(receive_sockets(&new).unwrap_err().to_string().contains("another version"));
        drop(old);
        assert!(receive_sockets(&new).is_err());
    }
}
