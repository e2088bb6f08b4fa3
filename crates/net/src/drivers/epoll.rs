//! epoll: sockets are edge-triggered where a short read says that nothing is left, the rest level-triggered.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use waterwheel_channel::Token;
use waterwheel_channel::driver::{Driver, Interest, OpenDriver};

use crate::drivers::readiness::ReadinessDriver;
use crate::drivers::selector::{Ready, Selector, Signal, Watch};
use crate::drivers::waker::Waker;
use crate::error_context::context;
use crate::sys::{self, EpollEvent};

/// The waker's name in the set. A token never looks like this: its index would be four billion.
const WAKER: u64 = u64::MAX;

/// Room for so many events at first: 256 × 12 bytes. A wait that fills it doubles it.
const FIRST_ROOM: usize = 256;

/// Opens epoll drivers. Waits have the resolution of the kernel's high resolution timers where
/// `epoll_pwait2` is there (Linux 5.11), otherwise they end on the next whole millisecond.
#[derive(Clone, Copy, Debug, Default)]
pub struct Epoll;

impl OpenDriver for Epoll {
    fn open(&self) -> io::Result<Box<dyn Driver>> {
        open_driver(finest_resolution)
    }
}

/// Opens epoll drivers that wait in whole milliseconds, as [`Epoll`] does on a kernel without
/// `epoll_pwait2`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoarseEpoll;

impl OpenDriver for CoarseEpoll {
    fn open(&self) -> io::Result<Box<dyn Driver>> {
        open_driver(|_| Ok(Resolution::Milliseconds))
    }
}

fn open_driver(
    resolution: impl FnOnce(&OwnedFd) -> io::Result<Resolution>,
) -> io::Result<Box<dyn Driver>> {
    let waker = Arc::new(Waker::open()?);
    let selector = EpollSelector::open(&waker, resolution)?;
    Ok(Box::new(ReadinessDriver::new("epoll", selector, waker)))
}

/// An epoll set.
pub(crate) struct EpollSelector {
    set: OwnedFd,
    /// All of it is room for the kernel to write to.
    events: Vec<EpollEvent>,
    resolution: Resolution,
}

/// How finely a wait is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolution {
    /// `epoll_pwait2`
    Nanoseconds,
    /// `epoll_wait`
    Milliseconds,
}

impl EpollSelector {
    fn open(
        waker: &Waker,
        resolution: impl FnOnce(&OwnedFd) -> io::Result<Resolution>,
    ) -> io::Result<Self> {
        let set = open_set(waker)?;
        let resolution = resolution(&set)?;
        Ok(Self { set, events: vec![nothing(); FIRST_ROOM], resolution })
    }
}

impl Selector for EpollSelector {
    const FORGETS_CLOSED: bool = true;
    const EDGES: bool = true;

    fn reopen(&self, waker: &Arc<Waker>) -> io::Result<Self> {
        let room = self.events.len();
        let set = open_set(waker)?;
        Ok(Self { set, events: vec![nothing(); room], resolution: self.resolution })
    }

    fn add(&mut self, fd: BorrowedFd<'_>, token: Token, watch: Watch) -> io::Result<()> {
        epoll::add(&self.set, fd, data(token), flags(watch)).map_err(refusal)
    }

    fn modify(&mut self, fd: BorrowedFd<'_>, token: Token, watch: Watch) -> io::Result<()> {
        epoll::modify(&self.set, fd, data(token), flags(watch)).map_err(refusal)
    }

    fn remove(&mut self, fd: BorrowedFd<'_>, _token: Token) {
        // Not there, or not open: then it is not watched.
        let _ = epoll::delete(&self.set, fd);
    }

    #[inline]
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let n = match self.resolution {
            Resolution::Nanoseconds => {
                sys::epoll_pwait2(self.set.as_fd(), &mut self.events, timespec(timeout).as_ref())?
            }
            Resolution::Milliseconds => {
                sys::epoll_wait(self.set.as_fd(), &mut self.events, millis(timeout))?
            }
        };
        if n == self.events.len() {
            self.events.resize(2 * n, nothing());
        }
        Ok(n)
    }

    #[inline]
    fn signal(&self, at: usize) -> Signal {
        signal(self.events[at])
    }

    #[inline]
    fn signals(&self, n: usize) -> impl Iterator<Item = Signal> {
        self.events[..n].iter().map(|event| signal(*event))
    }
}

/// Opens a set with the waker in it: edge-triggered, so that it need never be read. Every write of a
/// waker is an edge; after a reopening there is one for all writes before it.
fn open_set(waker: &Waker) -> io::Result<OwnedFd> {
    let named = |error: Errno| context("cannot open an epoll set")(error.into());
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(named)?;
    let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&set, waker, epoll::EventData::new_u64(WAKER), edge).map_err(named)?;
    Ok(set)
}

/// Tries `epoll_pwait2`, once in this process. Old kernels do not have it, sandboxes may forbid it.
fn finest_resolution(set: &OwnedFd) -> io::Result<Resolution> {
    static FINEST: OnceLock<Resolution> = OnceLock::new();
    if let Some(known) = FINEST.get() {
        return Ok(*known);
    }
    let found = resolution_told_by(sys::epoll_pwait2(
        set.as_fd(),
        &mut [nothing()],
        timespec(Some(Duration::ZERO)).as_ref(),
    ))?;
    Ok(*FINEST.get_or_init(|| {
        if found == Resolution::Milliseconds {
            tracing::warn!(
                "epoll_pwait2 unavailable (ENOSYS); timers fall back to millisecond waits"
            );
        }
        found
    }))
}

fn resolution_told_by(probe: rustix::io::Result<usize>) -> io::Result<Resolution> {
    match probe {
        Ok(_) | Err(Errno::INTR) => Ok(Resolution::Nanoseconds),
        Err(Errno::NOSYS | Errno::PERM) => Ok(Resolution::Milliseconds),
        Err(error) => Err(context("cannot wait on an epoll set")(error.into())),
    }
}

// The kernel's bits are ours.
const _: () = {
    let table = [
        (epoll::EventFlags::IN, Ready::READ),
        (epoll::EventFlags::OUT, Ready::WRITE),
        (epoll::EventFlags::PRI, Ready::PRIORITY),
        (epoll::EventFlags::ERR, Ready::ERROR),
        (epoll::EventFlags::HUP, Ready::HANG_UP),
        (epoll::EventFlags::RDHUP, Ready::READ_END),
    ];
    let mut at = 0;
    while at < table.len() {
        assert!(Ready::from_epoll(table[at].0.bits()).is(table[at].1));
        at += 1;
    }
};

#[inline]
fn signal(event: EpollEvent) -> Signal {
    if event.u64 == WAKER {
        return Signal::Woken;
    }
    Signal::Ready(Token::from_bits(event.u64), Ready::from_epoll(event.events))
}

fn flags(watch: Watch) -> epoll::EventFlags {
    let interest = watch.interest;
    let mut flags = epoll::EventFlags::empty();
    flags.set(epoll::EventFlags::IN, interest.contains(Interest::READABLE));
    flags.set(epoll::EventFlags::RDHUP, watch.has_read_end());
    flags.set(epoll::EventFlags::OUT, interest.contains(Interest::WRITABLE));
    flags.set(epoll::EventFlags::PRI, interest.contains(Interest::PRIORITY));
    flags.set(epoll::EventFlags::ET, watch.edge);
    flags
}

fn data(token: Token) -> epoll::EventData {
    epoll::EventData::new_u64(token.to_bits())
}

fn nothing() -> EpollEvent {
    EpollEvent { events: 0, u64: 0 }
}

fn timespec(timeout: Option<Duration>) -> Option<Timespec> {
    // One that does not fit is without limit for all practical purposes.
    timeout.and_then(|timeout| Timespec::try_from(timeout).ok())
}

/// Rounded up, so that no deadline is early; cut off at 24 days, after which the driver waits again.
fn millis(timeout: Option<Duration>) -> i32 {
    let Some(timeout) = timeout else { return -1 };
    i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}

/// What a refusal means: the kernel's words for it are about something else.
fn refusal(error: Errno) -> io::Error {
    let what = match error {
        Errno::PERM => "epoll cannot watch this descriptor: it cannot be polled (a regular file?)",
        Errno::EXIST => "epoll watches this descriptor already",
        Errno::NOENT => "epoll does not watch this descriptor",
        _ => "epoll refuses this descriptor",
    };
    context(what)(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l02_a_coarse_wait_is_rounded_up() {
        assert_eq!(millis(None), -1);
        assert_eq!(millis(Some(Duration::ZERO)), 0);
        assert_eq!(millis(Some(Duration::from_nanos(1))), 1);
        assert_eq!(millis(Some(Duration::from_millis(5))), 5);
        assert_eq!(millis(Some(Duration::from_nanos(5_000_001))), 6);
        assert_eq!(millis(Some(Duration::MAX)), i32::MAX);
    }

    #[test]
    fn l02_the_probe_falls_back_on_what_old_kernels_and_sandboxes_say() {
        assert_eq!(resolution_told_by(Ok(0)).unwrap(), Resolution::Nanoseconds);
        assert_eq!(resolution_told_by(Err(Errno::NOSYS)).unwrap(), Resolution::Milliseconds);
        assert_eq!(resolution_told_by(Err(Errno::PERM)).unwrap(), Resolution::Milliseconds);
        assert!(resolution_told_by(Err(Errno::BADF)).is_err());
    }

    #[test]
    fn l17_the_end_of_reading_is_asked_for_together_with_readability_or_by_itself() {
        assert_eq!(flags(Interest::NONE.into()), epoll::EventFlags::empty());
        assert_eq!(flags(Interest::WRITABLE.into()), epoll::EventFlags::OUT);
        let both = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        assert_eq!(flags(Interest::READABLE.into()), both);
        let alone = Watch { interest: Interest::NONE, read_end: true, edge: false };
        assert_eq!(flags(alone), epoll::EventFlags::RDHUP);
    }

    #[test]
    fn l07_the_room_for_events_doubles_when_a_wait_fills_it() {
        let waker = Arc::new(Waker::open().unwrap());
        let mut selector = EpollSelector::open(&waker, finest_resolution).unwrap();
        let ready: Vec<_> = (0..FIRST_ROOM as u64).map(|_| Waker::open().unwrap()).collect();
        for (i, fd) in ready.iter().enumerate() {
            let token = Token::from_bits(i as u64);
            selector.add(fd.as_fd(), token, Interest::WRITABLE.into()).unwrap();
        }
        assert_eq!(selector.wait(None).unwrap(), FIRST_ROOM);
        assert_eq!(selector.events.len(), 2 * FIRST_ROOM);
        assert_eq!(selector.wait(None).unwrap(), FIRST_ROOM);
        assert_eq!(selector.events.len(), 2 * FIRST_ROOM, "it was not filled");
    }
}
