//! The poll(2) selector and its driver: available on every Unix, and the reference for the other selectors.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use waterwheel_channel::driver::{Driver, Interest, OpenDriver};
use waterwheel_channel::{Token, TokenMap};

use crate::drivers::readiness::ReadinessDriver;
use crate::drivers::selector::{ReadyFlags, Selector, SelectorEvent, WatchedEvents};
use crate::drivers::waker::Waker;
use crate::sys;

/// Opens poll(2) drivers. The kernel scans every registration in every wait, so poll(2) is for few
/// registrations, or for systems without epoll.
#[derive(Clone, Copy, Debug, Default)]
pub struct Poll;

impl OpenDriver for Poll {
    fn open(&self) -> io::Result<Box<dyn Driver>> {
        let waker = Arc::new(Waker::open()?);
        let selector = PollSelector::new(&waker);
        Ok(Box::new(ReadinessDriver::new("poll", selector, waker)))
    }
}

/// The descriptors for poll(2). The first entry is the waker: level-triggered like every entry, so the
/// eventfd must be drained.
pub(crate) struct PollSelector {
    waker: Arc<Waker>,
    pollfds: Vec<libc::pollfd>,
    /// The token of each entry in `pollfds`; `None` for the waker.
    tokens: Vec<Option<Token>>,
    /// The position of each token's entry in `pollfds`.
    positions: TokenMap<usize>,
    /// The events of the last wait.
    events: Vec<SelectorEvent>,
}

impl PollSelector {
    pub(crate) fn new(waker: &Arc<Waker>) -> Self {
        Self {
            waker: waker.clone(),
            pollfds: vec![pollfd(waker.as_fd(), Interest::READABLE.into())],
            tokens: vec![None],
            positions: TokenMap::new(),
            events: Vec::new(),
        }
    }
}

impl Selector for PollSelector {
    const FORGETS_CLOSED: bool = false;
    const SUPPORTS_EDGES: bool = false;

    fn reopen(&self, waker: &Arc<Waker>) -> io::Result<Self> {
        Ok(Self::new(waker))
    }

    fn add(&mut self, fd: BorrowedFd<'_>, token: Token, watch: WatchedEvents) -> io::Result<()> {
        self.positions.insert(token, self.pollfds.len());
        self.pollfds.push(pollfd(fd, watch));
        self.tokens.push(Some(token));
        Ok(())
    }

    fn modify(&mut self, fd: BorrowedFd<'_>, token: Token, watch: WatchedEvents) -> io::Result<()> {
        let position = self.positions.get(token).ok_or(io::ErrorKind::NotFound)?;
        self.pollfds[*position] = pollfd(fd, watch);
        Ok(())
    }

    fn remove(&mut self, _fd: BorrowedFd<'_>, token: Token) {
        let Some(position) = self.positions.remove(token) else { return };
        self.pollfds.swap_remove(position);
        self.tokens.swap_remove(position);
        if let Some(moved) = self.tokens.get(position).copied().flatten() {
            self.positions.insert(moved, position);
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        self.events.clear();
        let n = sys::poll(&mut self.pollfds, timeout)?;
        let ready = self.pollfds.iter().zip(&self.tokens).filter(|(entry, _)| entry.revents != 0);
        for (entry, token) in ready.take(n) {
            let has = |flag| entry.revents & flag != 0;
            self.events.push(match token {
                Some(token) => {
                    SelectorEvent::Ready(*token, ReadyFlags::from_table(&POLL_FLAGS, has))
                }
                None => {
                    self.waker.drain();
                    SelectorEvent::Woken
                }
            });
        }
        Ok(self.events.len())
    }

    fn event_at(&self, at: usize) -> SelectorEvent {
        self.events[at]
    }

    fn events(&self, n: usize) -> impl Iterator<Item = SelectorEvent> {
        self.events[..n].iter().copied()
    }
}

const POLL_FLAGS: [(i16, ReadyFlags); 7] = [
    (libc::POLLIN, ReadyFlags::READ),
    (libc::POLLOUT, ReadyFlags::WRITE),
    (libc::POLLPRI, ReadyFlags::PRIORITY),
    (libc::POLLERR, ReadyFlags::ERROR),
    (libc::POLLHUP, ReadyFlags::HANG_UP),
    (libc::POLLRDHUP, ReadyFlags::READ_END),
    (libc::POLLNVAL, ReadyFlags::INVALID),
];

fn pollfd(fd: BorrowedFd<'_>, watch: WatchedEvents) -> libc::pollfd {
    let mut events = if watch.includes_read_end() { libc::POLLRDHUP } else { 0 };
    for (wanted, flags) in [
        (Interest::READABLE, libc::POLLIN),
        (Interest::WRITABLE, libc::POLLOUT),
        (Interest::PRIORITY, libc::POLLPRI),
    ] {
        if watch.interest.contains(wanted) {
            events |= flags;
        }
    }
    libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(selector: &mut PollSelector) -> Vec<SelectorEvent> {
        let n = selector.wait(Some(Duration::ZERO)).unwrap();
        (0..n).map(|at| selector.event_at(at)).collect()
    }

    #[test]
    fn l07_the_remaining_entries_keep_their_tokens_when_one_in_the_middle_is_removed() {
        let mut selector = PollSelector::new(&Arc::new(Waker::open().unwrap()));
        let fds: Vec<_> = (0..4).map(|_| Waker::open().unwrap()).collect();
        let tokens: Vec<_> = (0..4).map(Token::from_bits).collect();
        for (fd, token) in fds.iter().zip(&tokens) {
            selector.add(fd.as_fd(), *token, Interest::WRITABLE.into()).unwrap();
        }
        selector.remove(fds[1].as_fd(), tokens[1]);
        selector.remove(fds[1].as_fd(), tokens[1]);
        selector.modify(fds[3].as_fd(), tokens[3], Interest::NONE.into()).unwrap();
        let expected = [0, 2].map(|i| SelectorEvent::Ready(tokens[i], ReadyFlags::WRITE));
        let mut found = events(&mut selector);
        found.sort_by_key(|signal| format!("{signal:?}"));
        assert_eq!(found, expected);
        assert!(selector.modify(fds[1].as_fd(), tokens[1], Interest::NONE.into()).is_err());
    }

    #[test]
    fn l08_a_descriptor_closed_elsewhere_is_reported_as_invalid() {
        let mut selector = PollSelector::new(&Arc::new(Waker::open().unwrap()));
        // A high number that no concurrent test of this process receives.
        let fd = rustix::io::fcntl_dupfd_cloexec(Waker::open().unwrap(), 900).unwrap();
        let token = Token::from_bits(1);
        selector.add(fd.as_fd(), token, Interest::READABLE.into()).unwrap();
        drop(fd);
        assert_eq!(events(&mut selector), [SelectorEvent::Ready(token, ReadyFlags::INVALID)]);
    }
}
