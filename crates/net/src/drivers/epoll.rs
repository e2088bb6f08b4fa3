//! The epoll(7) selector and its drivers. TCP and datagram sockets are edge-triggered (EPOLLET), because a
//! short read shows that the kernel's buffer is empty; all other descriptors are level-triggered.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use waterwheel_channel::Token;
use waterwheel_channel::driver::{Driver, Interest, OpenDriver};

use crate::drivers::readiness::ReadinessDriver;
use crate::drivers::selector::{ReadyFlags, Selector, SelectorEvent, WatchedEvents};
use crate::drivers::waker::Waker;
use crate::error_context::context;
use crate::sys::{self, EpollEvent};

/// The `epoll_data` of the waker. No token has these bits: no token has the index u32::MAX.
const WAKER_DATA: u64 = u64::MAX;

/// Initial capacity of the event buffer: 256 × 12 bytes. A wait that fills the buffer doubles it.
const INITIAL_CAPACITY: usize = 256;

/// Opens epoll drivers. Waits have the resolution of the kernel's high resolution timers where the kernel has
/// `epoll_pwait2` (Linux 5.11); otherwise they are rounded up to whole milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Epoll;

impl OpenDriver for Epoll {
    fn open(&self) -> io::Result<Box<dyn Driver>> {
        open_driver(probe_resolution)
    }
}

/// Opens epoll drivers that wait in whole milliseconds, as [`Epoll`] does on a kernel without `epoll_pwait2`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoarseEpoll;

impl OpenDriver for CoarseEpoll {
    fn open(&self) -> io::Result<Box<dyn Driver>> {
        open_driver(|_| Ok(WaitResolution::Milliseconds))
    }
}

fn open_driver(
    resolution: impl FnOnce(&OwnedFd) -> io::Result<WaitResolution>,
) -> io::Result<Box<dyn Driver>> {
    let waker = Arc::new(Waker::open()?);
    let selector = EpollSelector::open(&waker, resolution)?;
    Ok(Box::new(ReadinessDriver::new("epoll", selector, waker)))
}

/// An epoll instance and its event buffer.
pub(crate) struct EpollSelector {
    epoll_fd: OwnedFd,
    /// The event buffer of a wait. The kernel may fill the whole length.
    events: Vec<EpollEvent>,
    resolution: WaitResolution,
}

/// The resolution of a wait's timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitResolution {
    /// `epoll_pwait2`.
    Nanoseconds,
    /// `epoll_pwait`.
    Milliseconds,
}

impl EpollSelector {
    fn open(
        waker: &Waker,
        resolution: impl FnOnce(&OwnedFd) -> io::Result<WaitResolution>,
    ) -> io::Result<Self> {
        let epoll_fd = open_epoll(waker)?;
        let resolution = resolution(&epoll_fd)?;
        Ok(Self { epoll_fd, events: vec![empty_event(); INITIAL_CAPACITY], resolution })
    }
}

impl Selector for EpollSelector {
    const FORGETS_CLOSED: bool = true;
    const SUPPORTS_EDGES: bool = true;

    fn reopen(&self, waker: &Arc<Waker>) -> io::Result<Self> {
        let capacity = self.events.len();
        let epoll_fd = open_epoll(waker)?;
        Ok(Self { epoll_fd, events: vec![empty_event(); capacity], resolution: self.resolution })
    }

    fn add(&mut self, fd: BorrowedFd<'_>, token: Token, watch: WatchedEvents) -> io::Result<()> {
        epoll::add(&self.epoll_fd, fd, event_data(token), flags(watch)).map_err(watch_error)
    }

    fn modify(&mut self, fd: BorrowedFd<'_>, token: Token, watch: WatchedEvents) -> io::Result<()> {
        epoll::modify(&self.epoll_fd, fd, event_data(token), flags(watch)).map_err(watch_error)
    }

    fn remove(&mut self, fd: BorrowedFd<'_>, _token: Token) {
        // ENOENT and EBADF both mean that the descriptor is not watched.
        let _ = epoll::delete(&self.epoll_fd, fd);
    }

    #[inline]
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let n = match self.resolution {
            WaitResolution::Nanoseconds => sys::epoll_pwait2(
                self.epoll_fd.as_fd(),
                &mut self.events,
                timespec(timeout).as_ref(),
            )?,
            WaitResolution::Milliseconds => {
                sys::epoll_wait(self.epoll_fd.as_fd(), &mut self.events, millis(timeout))?
            }
        };
        if n == self.events.len() {
            self.events.resize(2 * n, empty_event());
        }
        Ok(n)
    }

    #[inline]
    fn event_at(&self, at: usize) -> SelectorEvent {
        selector_event(self.events[at])
    }

    #[inline]
    fn events(&self, n: usize) -> impl Iterator<Item = SelectorEvent> {
        self.events[..n].iter().map(|event| selector_event(*event))
    }
}

/// Opens an epoll instance with the waker in it. The waker is edge-triggered, so that its eventfd is never
/// read: every write is a new edge, and the first wait after a reopening reports one edge for all earlier
/// writes.
fn open_epoll(waker: &Waker) -> io::Result<OwnedFd> {
    let with_context = |error: Errno| context("cannot open an epoll instance")(error.into());
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(with_context)?;
    let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&set, waker, epoll::EventData::new_u64(WAKER_DATA), edge).map_err(with_context)?;
    Ok(set)
}

/// Returns the finest resolution the kernel offers; calls `epoll_pwait2` once per process to find out. Kernels
/// before 5.11 answer ENOSYS, a seccomp filter may answer EPERM.
fn probe_resolution(set: &OwnedFd) -> io::Result<WaitResolution> {
    static PROBED: OnceLock<WaitResolution> = OnceLock::new();
    if let Some(known) = PROBED.get() {
        return Ok(*known);
    }
    let probe = sys::epoll_pwait2(
        set.as_fd(),
        &mut [empty_event()],
        timespec(Some(Duration::ZERO)).as_ref(),
    );
    let found = resolution_from_probe(probe)?;
    Ok(*PROBED.get_or_init(|| {
        if found == WaitResolution::Milliseconds {
            let errno = if probe == Err(Errno::PERM) { "EPERM" } else { "ENOSYS" };
            tracing::warn!(
                "epoll_pwait2 unavailable ({errno}); timers fall back to millisecond waits"
            );
        }
        found
    }))
}

fn resolution_from_probe(probe: rustix::io::Result<usize>) -> io::Result<WaitResolution> {
    match probe {
        Ok(_) | Err(Errno::INTR) => Ok(WaitResolution::Nanoseconds),
        Err(Errno::NOSYS | Errno::PERM) => Ok(WaitResolution::Milliseconds),
        Err(error) => {
            Err(context("cannot call epoll_pwait2 on a new epoll instance")(error.into()))
        }
    }
}

// The bits of `ReadyFlags` are those of epoll.
const _: () = {
    let table = [
        (epoll::EventFlags::IN, ReadyFlags::READ),
        (epoll::EventFlags::OUT, ReadyFlags::WRITE),
        (epoll::EventFlags::PRI, ReadyFlags::PRIORITY),
        (epoll::EventFlags::ERR, ReadyFlags::ERROR),
        (epoll::EventFlags::HUP, ReadyFlags::HANG_UP),
        (epoll::EventFlags::RDHUP, ReadyFlags::READ_END),
    ];
    let mut at = 0;
    while at < table.len() {
        assert!(ReadyFlags::from_epoll(table[at].0.bits()).equals(table[at].1));
        at += 1;
    }
};

#[inline]
fn selector_event(event: EpollEvent) -> SelectorEvent {
    if event.u64 == WAKER_DATA {
        return SelectorEvent::Woken;
    }
    SelectorEvent::Ready(Token::from_bits(event.u64), ReadyFlags::from_epoll(event.events))
}

fn flags(watch: WatchedEvents) -> epoll::EventFlags {
    let interest = watch.interest;
    let mut flags = epoll::EventFlags::empty();
    flags.set(epoll::EventFlags::IN, interest.contains(Interest::READABLE));
    flags.set(epoll::EventFlags::RDHUP, watch.includes_read_end());
    flags.set(epoll::EventFlags::OUT, interest.contains(Interest::WRITABLE));
    flags.set(epoll::EventFlags::PRI, interest.contains(Interest::PRIORITY));
    flags.set(epoll::EventFlags::ET, watch.edge);
    flags
}

fn event_data(token: Token) -> epoll::EventData {
    epoll::EventData::new_u64(token.to_bits())
}

fn empty_event() -> EpollEvent {
    EpollEvent { events: 0, u64: 0 }
}

fn timespec(timeout: Option<Duration>) -> Option<Timespec> {
    // A timeout beyond the range of `Timespec` becomes no timeout: the difference is never observed.
    timeout.and_then(|timeout| Timespec::try_from(timeout).ok())
}

/// Returns the timeout in milliseconds, rounded up so that no deadline is early, and capped at i32::MAX (24
/// days): the driver then waits again. -1 means no timeout.
fn millis(timeout: Option<Duration>) -> i32 {
    let Some(timeout) = timeout else { return -1 };
    // In parts, which fit into words: a division of their sum would be one of 128 bits.
    let millis = timeout.as_secs().saturating_mul(1000);
    let rest = u64::from(timeout.subsec_nanos().div_ceil(1_000_000));
    i32::try_from(millis.saturating_add(rest)).unwrap_or(i32::MAX)
}

/// Adds an explanation to an error of `epoll_ctl`: the text of the errno alone misleads.
fn watch_error(error: Errno) -> io::Error {
    let what = match error {
        Errno::PERM => {
            "epoll cannot watch this descriptor (EPERM): it does not support polling, like a regular file"
        }
        Errno::EXIST => "epoll already watches this descriptor (EEXIST)",
        Errno::NOENT => "epoll does not watch this descriptor (ENOENT)",
        _ => "epoll_ctl failed for this descriptor",
    };
    context(what)(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l02_a_timeout_in_milliseconds_is_rounded_up() {
        assert_eq!(millis(None), -1);
        assert_eq!(millis(Some(Duration::ZERO)), 0);
        assert_eq!(millis(Some(Duration::from_nanos(1))), 1);
        assert_eq!(millis(Some(Duration::from_millis(5))), 5);
        assert_eq!(millis(Some(Duration::from_nanos(5_000_001))), 6);
        assert_eq!(millis(Some(Duration::MAX)), i32::MAX);
    }

    #[test]
    fn l02_the_probe_falls_back_on_enosys_and_eperm() {
        assert_eq!(resolution_from_probe(Ok(0)).unwrap(), WaitResolution::Nanoseconds);
        assert_eq!(resolution_from_probe(Err(Errno::NOSYS)).unwrap(), WaitResolution::Milliseconds);
        assert_eq!(resolution_from_probe(Err(Errno::PERM)).unwrap(), WaitResolution::Milliseconds);
        assert!(resolution_from_probe(Err(Errno::BADF)).is_err());
    }

    #[test]
    fn l17_epollrdhup_is_requested_together_with_epollin_or_alone() {
        assert_eq!(flags(Interest::NONE.into()), epoll::EventFlags::empty());
        assert_eq!(flags(Interest::WRITABLE.into()), epoll::EventFlags::OUT);
        let both = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        assert_eq!(flags(Interest::READABLE.into()), both);
        let alone = WatchedEvents { interest: Interest::NONE, read_end: true, edge: false };
        assert_eq!(flags(alone), epoll::EventFlags::RDHUP);
    }

    #[test]
    fn l07_the_event_buffer_doubles_when_a_wait_fills_it() {
        let waker = Arc::new(Waker::open().unwrap());
        let mut selector = EpollSelector::open(&waker, probe_resolution).unwrap();
        let ready: Vec<_> = (0..INITIAL_CAPACITY as u64).map(|_| Waker::open().unwrap()).collect();
        for (i, fd) in ready.iter().enumerate() {
            let token = Token::from_bits(i as u64);
            selector.add(fd.as_fd(), token, Interest::WRITABLE.into()).unwrap();
        }
        assert_eq!(selector.wait(None).unwrap(), INITIAL_CAPACITY);
        assert_eq!(selector.events.len(), 2 * INITIAL_CAPACITY);
        assert_eq!(selector.wait(None).unwrap(), INITIAL_CAPACITY);
        assert_eq!(selector.events.len(), 2 * INITIAL_CAPACITY, "the larger buffer was not filled");
    }
}
