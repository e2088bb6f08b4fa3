//! Requests whose answers are awaited, by the subject of the answer; and batches of publications, each of which is a request.

use std::collections::{BTreeMap, HashMap};

use waterwheel::executor::Nanos;

use super::NAME;
use super::events::{BatchResults, CallPromise};
use crate::engine::EngineError;
use crate::engine::position::Position;

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    /// The state of the stream, before it is read.
    StreamState,
    /// The stream, created or changed.
    StreamSet,
    /// The consumer of this generation.
    Consumer(u64),
    /// The state of the stream, for calls that wait until it is read up to there.
    Barrier,
    /// The acknowledgement of a publication.
    Publish {
        batch: u64,
        index: usize,
        /// The bytes that count as in flight.
        bytes: usize,
    },
}

/// The requests of a link.
#[derive(Debug)]
pub(super) struct Requests {
    /// The beginning of the subjects of answers, with a dot at its end.
    inbox: String,
    next: u64,
    /// By number; the times ascend with the numbers, because all requests have the same limit.
    awaited: BTreeMap<u64, (Awaited, Nanos)>,
    bytes: usize,
}

impl Requests {
    pub(super) fn new(inbox: String) -> Self {
        Self { inbox, next: 1, awaited: BTreeMap::new(), bytes: 0 }
    }

    /// Returns the filter of the subjects of answers.
    pub(super) fn filter(&self) -> String {
        format!("{}*", self.inbox)
    }

    /// Begins a request, and returns the subject of its answer.
    pub(super) fn begin(&mut self, awaited: Awaited, until: Nanos) -> String {
        let number = self.next;
        self.next += 1;
        self.bytes += bytes_of(awaited);
        self.awaited.insert(number, (awaited, until));
        format!("{}{number}", self.inbox)
    }

    /// Ends the request that has this subject for its answer.
    pub(super) fn take(&mut self, subject: &[u8]) -> Option<Awaited> {
        let number = str::from_utf8(subject).ok()?.strip_prefix(&self.inbox)?.parse().ok()?;
        let (awaited, _) = self.awaited.remove(&number)?;
        self.bytes -= bytes_of(awaited);
        Some(awaited)
    }

    /// Ends a request whose time is over.
    pub(super) fn take_expired(&mut self, now: Nanos) -> Option<Awaited> {
        let (_, (_, until)) = self.awaited.first_key_value()?;
        if *until > now {
            return None;
        }
        self.take_first()
    }

    /// Ends the oldest request.
    pub(super) fn take_first(&mut self) -> Option<Awaited> {
        let (_, (awaited, _)) = self.awaited.pop_first()?;
        self.bytes -= bytes_of(awaited);
        Some(awaited)
    }

    /// Returns the time limit of the oldest request.
    pub(super) fn oldest_limit(&self) -> Option<Nanos> {
        self.awaited.first_key_value().map(|(_, (_, until))| *until)
    }

    /// Returns the number of requests, and the bytes of the publications among them.
    pub(super) fn load(&self) -> (usize, usize) {
        (self.awaited.len(), self.bytes)
    }
}

fn bytes_of(awaited: Awaited) -> usize {
    match awaited {
        Awaited::Publish { bytes, .. } => bytes,
        _ => 0,
    }
}

/// The batches of publications that are not complete.
#[derive(Default)]
pub(super) struct PublishBatches {
    next: u64,
    open: HashMap<u64, PublishBatch>,
}

struct PublishBatch {
    results: Vec<Option<Result<Position, EngineError>>>,
    missing: usize,
    promise: CallPromise<BatchResults>,
}

impl PublishBatches {
    /// Begins a batch of this many publications, and returns its number.
    pub(super) fn open(&mut self, len: usize, promise: CallPromise<BatchResults>) -> u64 {
        self.next += 1;
        let batch = PublishBatch { results: vec![None; len], missing: len, promise };
        self.open.insert(self.next, batch);
        self.next
    }

    /// Sets a result. The last one completes the batch.
    pub(super) fn set(&mut self, batch: u64, index: usize, result: Result<Position, EngineError>) {
        let Some(open) = self.open.get_mut(&batch) else { return };
        if open.results[index].replace(result).is_none() {
            open.missing -= 1;
        }
        if open.missing == 0
            && let Some(complete) = self.open.remove(&batch)
        {
            let results = complete.results.into_iter().flatten().collect();
            complete.promise.set_success(Ok(results));
        }
    }

    /// True if all batches are complete.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

/// Makes the error of a call that the engine cannot answer.
pub(super) fn unavailable(reason: impl Into<String>) -> EngineError {
    EngineError::Unavailable { engine: NAME, reason: reason.into() }
}

/// Makes the error of a call that the server refuses.
pub(super) fn refused(reason: impl Into<String>) -> EngineError {
    EngineError::Refused { engine: NAME, reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g08_requests_end_with_their_answer_or_their_time() {
        let mut requests = Requests::new("inbox.".to_owned());
        let publish = |index| Awaited::Publish { batch: 1, index, bytes: 10 };
        let first = requests.begin(publish(0), Nanos(5));
        let second = requests.begin(publish(1), Nanos(6));
        assert_eq!((requests.load(), first.as_str()), ((2, 20), "inbox.1"));
        assert_eq!(requests.oldest_limit(), Some(Nanos(5)));
        assert_eq!(requests.take(second.as_bytes()), Some(publish(1)));
        assert_eq!(requests.take(second.as_bytes()), None, "answered before");
        for subject in ["other.1", "inbox.", "inbox.x", "inbox.9"] {
            assert_eq!(requests.take(subject.as_bytes()), None);
        }
        assert_eq!(requests.take_expired(Nanos(4)), None);
        assert_eq!(requests.take_expired(Nanos(5)), Some(publish(0)));
        assert_eq!((requests.load(), requests.take_first()), ((0, 0), None));
        assert_eq!(requests.oldest_limit(), None);
    }
}
