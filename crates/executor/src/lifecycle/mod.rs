//! The states of an executor: one atomic word that only ever increases (E03).
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
//! `start` starts a loop once, `shutdown` computes quiet period and timeout, `lease` notices the last handle.
//!
//! A graceful shutdown of a loop that has not started starts it first, so that tasks can run in the quiet
//! period. Without a quiet period it shuts the loop down at once.
//!
//! [`transition`] is the whole state machine as a function of values, tested as a table. [`Lifecycle`] is the atomic
//! that holds the state, and nothing else writes it. Tasks are accepted up to and including `ShuttingDown`; the
//! admission word is closed before `Shutdown` is published.

pub(crate) mod lease;
pub(crate) mod shutdown;
pub(crate) mod start;

use crate::sync::{AtomicU8, Ordering};

/// The state of an executor. States only ever increase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ExecutorState {
    /// The executor is built and has no thread: the first submission starts it.
    NotStarted,
    /// The loop runs.
    Started,
    /// A graceful shutdown is under way: tasks are still accepted.
    ShuttingDown,
    /// New tasks are refused; accepted tasks still run.
    Shutdown,
    /// Terminated: every accepted task ran, unless the loop died. The loop has left its thread.
    Terminated,
}

/// An event in the life of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LifecycleEvent {
    /// The thread supplier accepted the loop.
    Start,
    ShutDownGracefully,
    ShutDownNow,
    /// The loop found the quiet period over, or ended for another reason.
    QuietReached,
    /// The last step of the teardown is done.
    TornDown,
}

/// The next step of the caller of [`Lifecycle::apply`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LifecycleAction {
    Nothing,
    /// The loop may be asleep: wake it, so that it sees the new state.
    WakeLoop,
    /// There is no loop yet: the caller runs the teardown.
    EndWithoutLoop,
}

const ALL: [ExecutorState; 5] = [
    ExecutorState::NotStarted,
    ExecutorState::Started,
    ExecutorState::ShuttingDown,
    ExecutorState::Shutdown,
    ExecutorState::Terminated,
];

/// Returns the next state and the caller's action for an event: the whole state machine.
pub(crate) fn transition(
    state: ExecutorState,
    event: LifecycleEvent,
) -> (ExecutorState, LifecycleAction) {
    use ExecutorState::{NotStarted, Shutdown, ShuttingDown, Started, Terminated};
    use LifecycleAction::{EndWithoutLoop, Nothing, WakeLoop};
    match (event, state) {
        (LifecycleEvent::Start, NotStarted) => (Started, Nothing),
        (LifecycleEvent::ShutDownGracefully, Started) => (ShuttingDown, WakeLoop),
        (LifecycleEvent::ShutDownNow, NotStarted) => (Shutdown, EndWithoutLoop),
        (LifecycleEvent::ShutDownNow, Started | ShuttingDown) => (Shutdown, WakeLoop),
        (LifecycleEvent::QuietReached, NotStarted | Started | ShuttingDown) => (Shutdown, Nothing),
        (LifecycleEvent::TornDown, _) => (Terminated, Nothing),
        (_, unchanged) => (unchanged, Nothing),
    }
}

/// The state of one executor. Any thread may read it and apply events.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    word: AtomicU8,
}

impl Lifecycle {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU8::new(ExecutorState::NotStarted as u8) }
    }

    /// True once this state or a later one is reached.
    #[inline]
    pub(crate) fn has_reached(&self, state: ExecutorState) -> bool {
        self.word.load(Ordering::Acquire) >= state as u8
    }

    pub(crate) fn state(&self) -> ExecutorState {
        ALL[usize::from(self.word.load(Ordering::Acquire))]
    }

    /// Moves the state by [`transition`] and returns the caller's action.
    pub(crate) fn apply(&self, event: LifecycleEvent) -> LifecycleAction {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let (next, action) = transition(ALL[usize::from(word)], event);
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

    const EVENTS: [LifecycleEvent; 5] = [
        LifecycleEvent::Start,
        LifecycleEvent::ShutDownGracefully,
        LifecycleEvent::ShutDownNow,
        LifecycleEvent::QuietReached,
        LifecycleEvent::TornDown,
    ];

    #[test]
    fn e03_every_transition_is_in_the_table() {
        use ExecutorState::{
            NotStarted as N, Shutdown as D, ShuttingDown as G, Started as S, Terminated as T,
        };
        use LifecycleAction::{EndWithoutLoop, Nothing, WakeLoop};
        // One row per state, one column per event, in the order of EVENTS.
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
                assert_eq!(transition(state, event), expected, "{state:?} on {event:?}");
            }
        }
    }

    #[test]
    fn e03_no_event_moves_a_state_back() {
        for state in ALL {
            for event in EVENTS {
                assert!(transition(state, event).0 >= state, "{state:?} on {event:?}");
            }
        }
    }

    #[test]
    fn e03_the_word_follows_the_table() {
        let life = Lifecycle::new();
        assert_eq!(life.state(), ExecutorState::NotStarted);
        assert_eq!(life.apply(LifecycleEvent::Start), LifecycleAction::Nothing);
        assert_eq!(life.apply(LifecycleEvent::ShutDownGracefully), LifecycleAction::WakeLoop);
        assert_eq!(life.apply(LifecycleEvent::ShutDownGracefully), LifecycleAction::Nothing);
        assert_eq!(life.state(), ExecutorState::ShuttingDown);
        assert_eq!(life.apply(LifecycleEvent::TornDown), LifecycleAction::Nothing);
        assert_eq!(life.state(), ExecutorState::Terminated);
    }
}
