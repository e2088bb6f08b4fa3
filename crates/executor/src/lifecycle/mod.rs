//! The life of an executor: one word, moving one way (E03).
//!
//! ```text
//!                 Start                  ShutDownGracefully              QuietReached
//!   NotStarted ──────────► Started ────────────────────► ShuttingDown ───────────────► Shutdown
//!       │                     │                               │                            │
//!       │ ShutDownNow         │ ShutDownNow                   │ ShutDownNow                │ TornDown
//!       └──────► Shutdown     └──────────► Shutdown ◄─────────┘                            ▼
//!                                                                                     Terminated
//! ```
//!
//! A graceful shutdown of a loop that has not started either starts it first, so that somebody is
//! there in the quiet period, or, if there is none, shuts it down at once.
//!
//! [`step`] is the whole machine: a value in, a value out, tested as a table. [`Lifecycle`] is the
//! atomic that holds the state, and nothing else touches it. Tasks are accepted up to and including
//! `ShuttingDown`; the admission word is closed before `Shutdown` is published.

pub(crate) mod lease;
pub(crate) mod shutdown;
pub(crate) mod start;

use crate::sync::{AtomicU8, Ordering};

/// Where an executor is in its life. States only ever increase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum State {
    /// Built, no thread yet: it starts with the first submission.
    NotStarted,
    /// Running.
    Started,
    /// Graceful shutdown under way: tasks are still accepted.
    ShuttingDown,
    /// Nothing is accepted any more; what was accepted still runs.
    Shutdown,
    /// Over: every accepted task ran, unless the loop died; the thread is done with it.
    Terminated,
}

/// What happens to an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The thread supplier accepted the loop.
    Start,
    ShutDownGracefully,
    ShutDownNow,
    /// The loop found the quiet period over, or ended for another reason.
    QuietReached,
    /// The last step of the teardown.
    TornDown,
}

/// What the caller of [`Lifecycle::apply`] has to do next.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Nothing,
    /// The loop may be asleep: make it look.
    WakeLoop,
    /// There is no loop yet: somebody has to run the teardown.
    EndWithoutLoop,
}

const ALL: [State; 5] =
    [State::NotStarted, State::Started, State::ShuttingDown, State::Shutdown, State::Terminated];

/// The machine.
pub(crate) fn step(state: State, event: Event) -> (State, Action) {
    use Action::{EndWithoutLoop, Nothing, WakeLoop};
    use State::{NotStarted, Shutdown, ShuttingDown, Started, Terminated};
    match (event, state) {
        (Event::Start, NotStarted) => (Started, Nothing),
        (Event::ShutDownGracefully, Started) => (ShuttingDown, WakeLoop),
        (Event::ShutDownNow, NotStarted) => (Shutdown, EndWithoutLoop),
        (Event::ShutDownNow, Started | ShuttingDown) => (Shutdown, WakeLoop),
        (Event::QuietReached, NotStarted | Started | ShuttingDown) => (Shutdown, Nothing),
        (Event::TornDown, _) => (Terminated, Nothing),
        (_, unchanged) => (unchanged, Nothing),
    }
}

/// The state of one executor. Any thread may read and apply events.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    word: AtomicU8,
}

impl Lifecycle {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU8::new(State::NotStarted as u8) }
    }

    /// Whether it is in this state, or in one behind it.
    #[inline]
    pub(crate) fn has_reached(&self, state: State) -> bool {
        self.word.load(Ordering::Acquire) >= state as u8
    }

    pub(crate) fn state(&self) -> State {
        ALL[usize::from(self.word.load(Ordering::Acquire))]
    }

    /// Moves the state as [`step`] says and returns what is to be done.
    pub(crate) fn apply(&self, event: Event) -> Action {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let (next, action) = step(ALL[usize::from(word)], event);
            match self.word.compare_exchange_weak(
                word,
                next as u8,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return action,
                Err(now) => word = now,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const EVENTS: [Event; 5] = [
        Event::Start,
        Event::ShutDownGracefully,
        Event::ShutDownNow,
        Event::QuietReached,
        Event::TornDown,
    ];

    #[test]
    fn e03_every_transition_is_in_the_table() {
        use Action::{EndWithoutLoop, Nothing, WakeLoop};
        use State::{
            NotStarted as N, Shutdown as D, ShuttingDown as G, Started as S, Terminated as T,
        };
        // One row a state, one column an event, in the order of EVENTS.
        let table = [
            [(S, Nothing), (N, Nothing), (D, EndWithoutLoop), (D, Nothing), (T, Nothing)],
            [(S, Nothing), (G, WakeLoop), (D, WakeLoop), (D, Nothing), (T, Nothing)],
            [(G, Nothing), (G, Nothing), (D, WakeLoop), (D, Nothing), (T, Nothing)],
            [(D, Nothing), (D, Nothing), (D, Nothing), (D, Nothing), (T, Nothing)],
            [(T, Nothing), (T, Nothing), (T, Nothing), (T, Nothing), (T, Nothing)],
        ];
        assert_eq!(ALL, [N, S, G, D, T]);
        for (state, row) in ALL.into_iter().zip(table) {
            for (event, expected) in EVENTS.into_iter().zip(row) {
                assert_eq!(step(state, event), expected, "{state:?} on {event:?}");
            }
        }
    }

    #[test]
    fn e03_no_event_moves_a_state_back() {
        for state in ALL {
            for event in EVENTS {
                assert!(step(state, event).0 >= state, "{state:?} on {event:?}");
            }
        }
    }

    #[test]
    fn e03_the_word_follows_the_table() {
        let life = Lifecycle::new();
        assert_eq!(life.state(), State::NotStarted);
        assert_eq!(life.apply(Event::Start), Action::Nothing);
        assert_eq!(life.apply(Event::ShutDownGracefully), Action::WakeLoop);
        assert_eq!(life.apply(Event::ShutDownGracefully), Action::Nothing);
        assert_eq!(life.state(), State::ShuttingDown);
        assert_eq!(life.apply(Event::TornDown), Action::Nothing);
        assert_eq!(life.state(), State::Terminated);
    }
}
