//! Finds the first matching probe, however the bytes are cut.

use super::probe::{Detection, Probe};

/// Searches a list of probes for the first that matches the beginning of a byte stream. A plain value: the caller keeps
/// the bytes.
///
/// A probe is asked when all before it have answered `NoMatch`, and not again after its own. So every probe sees each
/// prefix at most once, and [`Probe::probe`] says how many bytes are new.
///
/// ```
/// use waterwheel_handlers::{ProbeSearch, SearchOutcome, StockProbe};
///
/// let probes = [StockProbe::Tls, StockProbe::Resp];
/// let mut search = ProbeSearch::new(1024);
/// assert_eq!(search.advance(&probes, b"*1"), SearchOutcome::NeedMore);
/// assert_eq!(search.advance(&probes, b"*1\r\n$4\r\nPING\r\n"), SearchOutcome::Match(1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSearch {
    max_bytes: usize,
    /// The index of the probe that is asked next.
    next: usize,
    /// Length of the prefix for which that probe has answered `NeedMore`.
    seen: usize,
}

/// The result of a [`ProbeSearch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SearchOutcome {
    /// More bytes are needed.
    NeedMore,
    /// More bytes are needed than the limit allows.
    LimitReached,
    /// The probe with this index matches, and none before it does.
    Match(usize),
    /// No probe matches.
    NoMatch,
}

impl ProbeSearch {
    /// Begins a search. No probe gets more than `max_bytes`: bytes beyond them do not change the outcome.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes, next: 0, seen: 0 }
    }

    /// Continues the search. `bytes` is the whole stream so far.
    #[must_use]
    pub fn advance<P: Probe>(&mut self, probes: &[P], bytes: &[u8]) -> SearchOutcome {
        let bytes = &bytes[..bytes.len().min(self.max_bytes)];
        if bytes.is_empty() {
            return SearchOutcome::NeedMore;
        }
        while let Some(probe) = probes.get(self.next) {
            match probe.probe(bytes, self.seen) {
                Detection::Match => return SearchOutcome::Match(self.next),
                Detection::NoMatch => (self.next, self.seen) = (self.next + 1, 0),
                Detection::NeedMore => {
                    self.seen = bytes.len();
                    let is_at_limit = self.seen == self.max_bytes;
                    return if is_at_limit {
                        SearchOutcome::LimitReached
                    } else {
                        SearchOutcome::NeedMore
                    };
                }
            }
        }
        SearchOutcome::NoMatch
    }

    /// Ends the search, with `bytes` as all there is: a probe that needs more does not match. Returns a match or
    /// `NoMatch`.
    #[must_use]
    pub fn finish<P: Probe>(&mut self, probes: &[P], bytes: &[u8]) -> SearchOutcome {
        loop {
            match self.advance(probes, bytes) {
                SearchOutcome::NeedMore | SearchOutcome::LimitReached if bytes.is_empty() => {
                    return SearchOutcome::NoMatch;
                }
                SearchOutcome::NeedMore | SearchOutcome::LimitReached => {
                    (self.next, self.seen) = (self.next + 1, 0);
                }
                decided => return decided,
            }
        }
    }
}
