//! Sockets on their way to a driver, and the system calls a driver makes on them.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::socket_protocol;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, ipproto};
use socket2::{Domain, Protocol, SockRef, Type};
use waterwheel_channel::driver::{COPIED_AT_ONCE, Io, OutQueue, SocketOption};
use waterwheel_channel::{Address, Credentials, FileRegion};

use crate::address::{from_kernel, is_named, to_kernel};
use crate::sockets::options;
use crate::sockets::socket_file::SocketFile;
use crate::sys;

/// At max so many slices go into one write: 64 × 16 bytes of stack, and well below the kernel's
/// limit of 1024.
const MAX_IOVECS: usize = 64;

/// At max so many bytes of a file go into one call: 1 MiB, a few of the largest buffers a socket has by
/// default. It is the caller's turn to be fair then.
const MAX_SENDFILE_BYTES: usize = 1 << 20;

/// At max so many messages are taken out of an error queue at a time.
const MAX_QUEUED_ERRORS: usize = 64;

/// What a read may look for besides bytes.
const RECEIVE_DESCRIPTORS: u8 = 1;
const RECEIVE_CREDENTIALS: u8 = 1 << 1;

/// A non-blocking socket of the stream kind. Options are set through [`SockRef`], which ancillary_flags
/// anything that shows a descriptor.
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
    /// Of a Unix socket that was bound here. Before the descriptor, so that it goes first: as long as the
    /// socket is open no other file has the number that this one is known by.
    file: Option<Box<SocketFile>>,
    fd: OwnedFd,
    /// Nobody has a duplicate of the descriptor: it was made here, and never shown.
    is_sole: bool,
    /// Its protocol is TCP.
    is_tcp: bool,
    /// Reads look for more than bytes.
    ancillary_flags: AtomicU8,
    /// Its close waits for the peer: told by whoever sets the option, and asked by whoever drops it.
    lingers: AtomicBool,
}

impl Socket {
    /// Takes a socket of the standard library, or any other, and makes it non-blocking.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn new(socket: impl Into<OwnedFd>) -> io::Result<Self> {
        let fd = socket.into();
        let socket = SockRef::from(&fd);
        socket.set_nonblocking(true)?;
        let lingers = is_blocking_linger(socket.linger()?).into();
        let is_tcp = socket_protocol(&fd)? == Some(ipproto::TCP);
        Ok(Self { file: None, fd, is_sole: false, is_tcp, ancillary_flags: 0.into(), lingers })
    }

    /// A TCP socket that is to be connected to an address of this one's family.
    ///
    /// # Errors
    /// The kernel has none to give.
    pub fn unconnected(family_of: SocketAddr) -> io::Result<Self> {
        Self::of_kind(Domain::for_address(family_of), Type::STREAM, Some(Protocol::TCP))
    }

    /// A socket of this kind, neither bound nor connected.
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

    /// Sets options, one after the other: the last word counts.
    pub(crate) fn set_options(&self, options: &[SocketOption]) -> io::Result<()> {
        options.iter().try_for_each(|option| self.set_option(*option))
    }

    /// Binds it, and listens with this backlog.
    pub(crate) fn listen(&self, at: &Address, backlog: u32) -> io::Result<()> {
        self.bind(at)?;
        self.listen_bound(backlog)
    }

    /// Listens where it is bound.
    pub(crate) fn listen_bound(&self, backlog: u32) -> io::Result<()> {
        rustix::net::listen(self, i32::try_from(backlog).unwrap_or(i32::MAX))?;
        Ok(())
    }

    pub(crate) fn bind(&self, at: &Address) -> io::Result<()> {
        Ok(rustix::net::bind(self, &to_kernel(at)?)?)
    }

    /// Binds a Unix socket. The file that comes of it goes with the socket; one that is there already is
    /// replaced if nobody is behind it.
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

    /// Nobody is shown its descriptor before the driver has it.
    pub(crate) fn without_duplicates(mut self) -> Self {
        self.is_sole = true;
        self
    }

    /// Whether its close is the end of it, and the kernel's set forgets it.
    pub(crate) fn is_sole(&self) -> bool {
        self.is_sole
    }

    /// True if a read that fills less than its buffer has taken all there was, unless urgent data stopped it.
    /// Reads of other streams also end at boundaries of messages, credentials or passed descriptors.
    pub(crate) fn is_tcp(&self) -> bool {
        self.is_tcp
    }

    fn set_ancillary_flag(&self, what: u8, on: bool) {
        let others = self.ancillary_flags() & !what;
        self.ancillary_flags.store(if on { others | what } else { others }, Ordering::Relaxed);
    }

    fn ancillary_flags(&self) -> u8 {
        self.ancillary_flags.load(Ordering::Relaxed)
    }

    /// Whether its reads may be ancillary messages.
    pub(crate) fn receives_ancillary(&self) -> bool {
        self.ancillary_flags() != 0
    }

    /// Whether it wants what is passed.
    pub(crate) fn receives_descriptors(&self) -> bool {
        self.ancillary_flags() & RECEIVE_DESCRIPTORS != 0
    }

    /// Who its peer is.
    pub(crate) fn peer_credentials(&self) -> io::Result<Credentials> {
        if SockRef::from(self).domain()? != Domain::UNIX {
            let what = "only the peers of Unix sockets are known by more than an address";
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
        sys::ancillary::peer_credentials(self.as_fd())
    }

    fn lingers(&self) -> bool {
        self.lingers.load(Ordering::Relaxed)
    }

    /// Begins to connect; whether that is done already.
    pub(crate) fn connect(&self, to: &Address) -> io::Result<bool> {
        match rustix::net::connect(self, &to_kernel(to)?) {
            Ok(()) => Ok(true),
            // After an interruption it goes on by itself, as if it had been asked not to block.
            Err(Errno::INPROGRESS | Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether it has a peer, as opposed to never having had one or having lost it.
    pub(crate) fn has_peer(&self) -> bool {
        rustix::net::getpeername(self).is_ok_and(|peer| peer.is_some())
    }

    /// Accepts a connection.
    pub(crate) fn accept(&self) -> io::Result<(Socket, Address)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (fd, peer) = retry_on_intr(|| rustix::net::acceptfrom_with(self, flags))?;
        let peer = peer.and_then(from_kernel).ok_or_else(|| {
            let what = "a connection was refused: its peer has an address of an unknown kind";
            io::Error::new(io::ErrorKind::Unsupported, what)
        })?;
        // What the listener has, it has too.
        let (ancillary_flags, lingers) = (self.ancillary_flags().into(), self.lingers().into());
        Ok((
            Self { file: None, fd, is_sole: true, is_tcp: self.is_tcp, ancillary_flags, lingers },
            peer,
        ))
    }

    /// Writes the front of a queue, in one system call. Without a signal: the error tells the same, and
    /// does not end the process.
    #[inline]
    pub(crate) fn send(&self, queue: &OutQueue) -> rustix::io::Result<usize> {
        let Some(one) = queue.only_chunk() else { return self.send_many(queue) };
        retry_on_intr(|| rustix::net::send(self, one, SendFlags::NOSIGNAL))
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

    /// Sends the front of a file, in one system call.
    ///
    /// Unlike a write it cannot be asked to leave a signal out: a program in which SIGPIPE is not ignored,
    /// as it is in any that begins with a Rust `main`, ends if the peer is gone.
    pub(crate) fn send_file(&self, file: &FileRegion) -> io::Result<usize> {
        let max = usize::try_from(file.len()).unwrap_or(usize::MAX).min(MAX_SENDFILE_BYTES);
        let sent = retry_on_intr(|| {
            let mut offset = file.offset();
            rustix::fs::sendfile(self.as_fd(), file.file(), Some(&mut offset), max)
        });
        match sent {
            Ok(0) => Err(file.truncated_error()),
            Ok(n) => Ok(n),
            // Not every file system can do it.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                let copy = file.read(COPIED_AT_ONCE)?;
                let send = || rustix::net::send(self.as_fd(), &copy, SendFlags::NOSIGNAL);
                Ok(retry_on_intr(send)?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the error that the kernel keeps for it.
    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        SockRef::from(self).take_error()
    }

    /// Throws its error queue away: nobody here reads it, and while there is something in it the
    /// kernel reports an error that [`take_error`](Self::take_error) does not find.
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
    /// A close that lingers blocks until the peer has taken everything, non-blocking or not. Nobody here
    /// waits for that; and when its time is up, Linux goes on sending in the background as if it had not
    /// been asked to wait. So it is not asked.
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

/// Whether a close waits: none at all, or a reset, does not.
fn is_blocking_linger(linger: Option<Duration>) -> bool {
    linger.is_some_and(|time| !time.is_zero())
}
