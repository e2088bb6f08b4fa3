//! Stream sockets on their way to a driver, and the system calls that a driver makes on them.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::socket_protocol;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, ipproto};
use socket2::{Domain, Protocol, SockRef, Type};
use waterwheel_channel::driver::{FILE_COPY_CHUNK, Io, OutQueue, SocketOption};
use waterwheel_channel::{Address, Credentials, FileRegion};

use crate::address::{from_kernel, is_named, to_kernel};
use crate::sockets::options;
use crate::sockets::socket_file::SocketFile;
use crate::sys;

/// The maximum number of slices in one write: 64 × 16 bytes of stack, well below the kernel's limit IOV_MAX =
/// 1024.
const MAX_IOVECS: usize = 64;

/// The maximum number of bytes of a file in one `sendfile` call: 1 MiB, a few times the largest default send
/// buffer. The caller then lets other channels proceed.
const MAX_SENDFILE_BYTES: usize = 1 << 20;

/// The maximum number of messages that are removed from an error queue at a time.
const MAX_QUEUED_ERRORS: usize = 64;

/// Flags: the ancillary data that reads look for.
const RECEIVE_DESCRIPTORS: u8 = 1;
const RECEIVE_CREDENTIALS: u8 = 1 << 1;

/// A non-blocking stream socket or listener. Options can be set through [`SockRef`], which takes any value with
/// a descriptor.
///
/// ```
/// use std::net::TcpListener;
///
/// use waterwheel_channel::driver::Io;
/// use waterwheel_net::Socket;
///
/// # fn main() -> std::io::Result<()> {
/// let listener = Socket::new(TcpListener::bind("127.0.0.1:0")?)?;
/// let io: Io = listener.into();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Socket {
    /// The file of a Unix socket that was bound here. Declared before the descriptor, so that the file is removed
    /// first: while the socket is open, no other file can have the inode number that identifies this file.
    file: Option<Box<SocketFile>>,
    fd: OwnedFd,
    /// True if no duplicate of the descriptor exists: the descriptor was created here and never exposed.
    is_sole: bool,
    /// True if the protocol is TCP.
    is_tcp: bool,
    /// The ancillary data that reads look for; zero if reads use plain `recv`.
    ancillary_flags: AtomicU8,
    /// True if a close would wait for the peer (SO_LINGER). Stored when the option is set, read when the socket is
    /// dropped.
    lingers: AtomicBool,
}

impl Socket {
    /// Wraps a socket of the standard library, or any other stream socket, and makes it non-blocking.
    ///
    /// # Errors
    /// A system call on the socket failed.
    pub fn new(socket: impl Into<OwnedFd>) -> io::Result<Self> {
        let fd = socket.into();
        let socket = SockRef::from(&fd);
        socket.set_nonblocking(true)?;
        let lingers = is_blocking_linger(socket.linger()?).into();
        let is_tcp = socket_protocol(&fd)? == Some(ipproto::TCP);
        Ok(Self { file: None, fd, is_sole: false, is_tcp, ancillary_flags: 0.into(), lingers })
    }

    /// Opens a TCP socket, to be connected to an address of the same family as `family_of`.
    ///
    /// # Errors
    /// The kernel cannot open a socket (EMFILE, ENFILE, …).
    pub fn unconnected(family_of: SocketAddr) -> io::Result<Self> {
        Self::of_kind(Domain::for_address(family_of), Type::STREAM, Some(Protocol::TCP))
    }

    /// Opens a socket of this kind, neither bound nor connected.
    pub(crate) fn of_kind(
        domain: Domain,
        kind: Type,
        protocol: Option<Protocol>,
    ) -> io::Result<Self> {
        let socket = socket2::Socket::new_raw(domain, kind.nonblocking().cloexec(), protocol)?;
        let (fd, is_tcp) = (socket.into(), protocol == Some(Protocol::TCP));
        Ok(Self {
            file: None,
            fd,
            is_sole: false,
            is_tcp,
            ancillary_flags: 0.into(),
            lingers: false.into(),
        })
    }

    /// Sets options in order: the last one of a kind wins.
    pub(crate) fn set_options(&self, options: &[SocketOption]) -> io::Result<()> {
        options.iter().try_for_each(|option| self.set_option(*option))
    }

    /// Binds the socket and listens with this backlog.
    pub(crate) fn listen(&self, at: &Address, backlog: u32) -> io::Result<()> {
        self.bind(at)?;
        self.listen_bound(backlog)
    }

    /// Listens with this backlog at the bound address.
    pub(crate) fn listen_bound(&self, backlog: u32) -> io::Result<()> {
        rustix::net::listen(self, i32::try_from(backlog).unwrap_or(i32::MAX))?;
        Ok(())
    }

    pub(crate) fn bind(&self, at: &Address) -> io::Result<()> {
        Ok(rustix::net::bind(self, &to_kernel(at)?)?)
    }

    /// Binds a Unix socket. The file that the bind creates is removed with the socket; a stale file at the
    /// path, to which no socket is bound, is replaced.
    pub(crate) fn bind_unix(&mut self, at: &Address) -> io::Result<()> {
        self.file = SocketFile::bind(at, || self.bind(at))?.map(Box::new);
        Ok(())
    }

    pub(crate) fn local_address(&self) -> Option<Address> {
        from_kernel(rustix::net::getsockname(self).ok()?).filter(is_named)
    }

    pub(crate) fn set_option(&self, option: SocketOption) -> io::Result<()> {
        options::set(self.as_fd(), option)?;
        match option {
            SocketOption::Linger(time) => {
                self.lingers.store(is_blocking_linger(time), Ordering::Relaxed)
            }
            SocketOption::ReceivePassed(on) => self.set_ancillary_flag(RECEIVE_DESCRIPTORS, on),
            SocketOption::ReceiveCredentials(on) => {
                self.set_ancillary_flag(RECEIVE_CREDENTIALS, on)
            }
            _ => {}
        }
        Ok(())
    }

    /// Records that no duplicate of the descriptor can exist before the driver has the socket.
    pub(crate) fn without_duplicates(mut self) -> Self {
        self.is_sole = true;
        self
    }

    /// True if closing the descriptor closes the socket, so that epoll removes the entry by itself.
    pub(crate) fn is_sole(&self) -> bool {
        self.is_sole
    }

    /// True if a short read shows that the kernel's buffer is empty, unless urgent data stopped the read. Reads of
    /// other streams also end at the boundaries of messages with credentials or passed descriptors.
    pub(crate) fn is_tcp(&self) -> bool {
        self.is_tcp
    }

    fn set_ancillary_flag(&self, flag: u8, on: bool) {
        let others = self.ancillary_flags() & !flag;
        self.ancillary_flags.store(if on { others | flag } else { others }, Ordering::Relaxed);
    }

    fn ancillary_flags(&self) -> u8 {
        self.ancillary_flags.load(Ordering::Relaxed)
    }

    /// True if reads must use `recvmsg`, because they may carry ancillary data.
    pub(crate) fn receives_ancillary(&self) -> bool {
        self.ancillary_flags() != 0
    }

    /// True if passed descriptors (SCM_RIGHTS) are wanted; otherwise they are closed.
    pub(crate) fn receives_descriptors(&self) -> bool {
        self.ancillary_flags() & RECEIVE_DESCRIPTORS != 0
    }

    /// Returns the credentials of the peer (SO_PEERCRED).
    pub(crate) fn peer_credentials(&self) -> io::Result<Credentials> {
        if SockRef::from(self).domain()? != Domain::UNIX {
            let what = "peer credentials (SO_PEERCRED) are available for Unix sockets only";
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
        sys::ancillary::peer_credentials(self.as_fd())
    }

    fn lingers(&self) -> bool {
        self.lingers.load(Ordering::Relaxed)
    }

    /// Begins to connect; returns true if the connection is established already.
    pub(crate) fn connect(&self, to: &Address) -> io::Result<bool> {
        match rustix::net::connect(self, &to_kernel(to)?) {
            Ok(()) => Ok(true),
            // After EINTR the connect continues in the background, as after EINPROGRESS.
            Err(Errno::INPROGRESS | Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// True if the socket is connected: false before the connect and after the loss of the peer.
    pub(crate) fn has_peer(&self) -> bool {
        rustix::net::getpeername(self).is_ok_and(|peer| peer.is_some())
    }

    /// Accepts a connection (`accept4`).
    pub(crate) fn accept(&self) -> io::Result<(Socket, Address)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (fd, peer) = retry_on_intr(|| rustix::net::acceptfrom_with(self, flags))?;
        let peer = peer.and_then(from_kernel).ok_or_else(|| {
            let what =
                "an accepted connection was closed: its peer's address family is not supported";
            io::Error::new(io::ErrorKind::Unsupported, what)
        })?;
        // The kernel copies SO_LINGER and SO_PASSCRED from the listener; the accepted socket gets the same flags.
        let (ancillary_flags, lingers) = (self.ancillary_flags().into(), self.lingers().into());
        Ok((
            Self { file: None, fd, is_sole: true, is_tcp: self.is_tcp, ancillary_flags, lingers },
            peer,
        ))
    }

    /// Writes the front of a queue in one system call, with MSG_NOSIGNAL: EPIPE is returned, and SIGPIPE is not
    /// raised.
    #[inline]
    pub(crate) fn send(&self, queue: &OutQueue) -> rustix::io::Result<usize> {
        let Some(one) = queue.only_chunk() else { return self.send_many(queue) };
        self.send_slice(one)
    }

    /// Writes bytes in one system call, as [`send`](Self::send) does.
    #[inline]
    pub(crate) fn send_slice(&self, bytes: &[u8]) -> rustix::io::Result<usize> {
        retry_on_intr(|| rustix::net::send(self, bytes, SendFlags::NOSIGNAL))
    }

    #[inline(never)]
    fn send_many(&self, queue: &OutQueue) -> rustix::io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); MAX_IOVECS];
        let filled = queue.fill(&mut slices);
        retry_on_intr(|| {
            let mut nothing = SendAncillaryBuffer::default();
            rustix::net::sendmsg(self, &slices[..filled], &mut nothing, SendFlags::NOSIGNAL)
        })
    }

    /// Sends the front of a file region in one `sendfile` call.
    ///
    /// `sendfile` has no MSG_NOSIGNAL: if the peer is gone, SIGPIPE ends a program that does not ignore it.
    /// Every program that begins with a Rust `main` ignores SIGPIPE.
    pub(crate) fn send_file(&self, file: &FileRegion) -> io::Result<usize> {
        let max = usize::try_from(file.len()).unwrap_or(usize::MAX).min(MAX_SENDFILE_BYTES);
        let sent = retry_on_intr(|| {
            let mut offset = file.offset();
            rustix::fs::sendfile(self.as_fd(), file.file(), Some(&mut offset), max)
        });
        match sent {
            Ok(0) => Err(file.truncated_error()),
            Ok(n) => Ok(n),
            // Not every file system supports `sendfile`: copy a piece instead.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                let copy = file.read(FILE_COPY_CHUNK)?;
                let send = || rustix::net::send(self.as_fd(), &copy, SendFlags::NOSIGNAL);
                Ok(retry_on_intr(send)?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the pending error of the socket (SO_ERROR).
    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        SockRef::from(self).take_error()
    }

    /// Discards the error queue (MSG_ERRQUEUE). This crate does not use the entries, and while there are any the kernel
    /// reports EPOLLERR although [`take_error`](Self::take_error) finds no error.
    pub(crate) fn drain_error_queue(&self) {
        let flags = RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT;
        for _ in 0..MAX_QUEUED_ERRORS {
            if rustix::net::recv(self, &mut [0u8; 1], flags).is_err() {
                return;
            }
        }
    }
}

impl Drop for Socket {
    /// Turns SO_LINGER off before the close. A lingering close blocks until the peer has acknowledged
    /// everything, even on a non-blocking socket. After the linger time Linux continues sending in the background
    /// anyway, as it does without the option.
    fn drop(&mut self) {
        if self.lingers() {
            let _ = SockRef::from(&*self).set_linger(None);
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<Socket> for Io {
    fn from(socket: Socket) -> Io {
        Io::new(socket)
    }
}

/// True if a close with this SO_LINGER blocks. False without linger, and for zero seconds, which resets the
/// connection.
fn is_blocking_linger(linger: Option<Duration>) -> bool {
    linger.is_some_and(|time| !time.is_zero())
}
