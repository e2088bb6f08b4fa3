//! The lifecycle of a channel as a state machine (C02).
//!
//! ```text
//!         set_registered            set_active
//!   New ───────────────► Open ──────────────────► Active
//!    │                    │                         │
//!    │ begin_close        │ begin_close             │ begin_close
//!    └────────────────────┴────► Closing ◄──────────┘
//!                                  │ set_closed
//!                                  ▼
//!                                Closed
//! ```
//!
//! Registration is a flag beside the phase: an open or active channel may be deregistered and registered again, and
//! its phase does not change.
//!
//! Each method returns the events to announce; the caller announces them later, from the loop (rule 8).

pub(crate) mod closing;
pub(crate) mod connecting;
mod drain;
pub(crate) mod half_closure;
pub(crate) mod hold;
pub(crate) mod hold_count;
mod registration;
pub(crate) mod step_queue;

/// The state of a channel's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChannelLifecycle {
    phase: LifecyclePhase,
    /// True while the channel is registered with its loop. Deregistering does not change the phase.
    registered: bool,
    was_active: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LifecyclePhase {
    New,
    Open,
    Active,
    Closing,
    Closed,
}

/// The end events to announce: `on_inactive` if the channel was ever active, `on_unregistered` if it was registered.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndEvents {
    pub(crate) inactive: bool,
    pub(crate) unregistered: bool,
}

impl ChannelLifecycle {
    pub(crate) const fn new() -> Self {
        Self { phase: LifecyclePhase::New, registered: false, was_active: false }
    }

    pub(crate) fn is_open(self) -> bool {
        self.phase < LifecyclePhase::Closing
    }

    pub(crate) fn is_active(self) -> bool {
        self.phase == LifecyclePhase::Active
    }

    pub(crate) fn is_registered(self) -> bool {
        self.registered
    }

    /// Marks the channel as registered. Returns false if it was already registered, or is closing.
    #[must_use]
    pub(crate) fn set_registered(&mut self) -> bool {
        let possible = self.is_open() && !self.registered;
        if possible {
            self.registered = true;
            self.phase = self.phase.max(LifecyclePhase::Open);
        }
        possible
    }

    /// Marks the channel as deregistered. Returns false if it was not registered, or is closing.
    #[must_use]
    pub(crate) fn set_deregistered(&mut self) -> bool {
        let possible = self.is_open() && self.registered;
        self.registered &= !possible;
        possible
    }

    /// Marks the channel as active: connected or bound. Returns false if it was already active, was never registered,
    /// or is closing.
    #[must_use]
    pub(crate) fn set_active(&mut self) -> bool {
        let possible = self.phase == LifecyclePhase::Open;
        if possible {
            self.phase = LifecyclePhase::Active;
            self.was_active = true;
        }
        possible
    }

    /// Begins the close. Returns false if it had already begun.
    #[must_use]
    pub(crate) fn begin_close(&mut self) -> bool {
        let possible = self.is_open();
        if possible {
            self.phase = LifecyclePhase::Closing;
        }
        possible
    }

    /// Marks the channel as closed. Returns `None` if it was not closing, or was already closed.
    pub(crate) fn set_closed(&mut self) -> Option<EndEvents> {
        if self.phase != LifecyclePhase::Closing {
            return None;
        }
        self.phase = LifecyclePhase::Closed;
        let unregistered = std::mem::take(&mut self.registered);
        Some(EndEvents { inactive: self.was_active, unregistered })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Transition = fn(&mut ChannelLifecycle) -> bool;

    const STEPS: [(&str, Transition); 5] = [
        ("set_registered", |life| life.set_registered()),
        ("set_deregistered", |life| life.set_deregistered()),
        ("set_active", |life| life.set_active()),
        ("begin_close", |life| life.begin_close()),
        ("set_closed", |life| life.set_closed().is_some()),
    ];

    /// Calls `check` for every sequence of eight transitions.
    fn for_every_sequence(mut check: impl FnMut(&[&str], ChannelLifecycle, &[bool])) {
        for mut code in 0..5usize.pow(8) {
            let (mut life, mut names, mut done) = (ChannelLifecycle::new(), Vec::new(), Vec::new());
            for _ in 0..8 {
                let (name, step) = STEPS[code % 5];
                code /= 5;
                done.push(step(&mut life));
                names.push(name);
            }
            check(&names, life, &done);
        }
    }

    fn count(names: &[&str], done: &[bool], name: &str) -> usize {
        names.iter().zip(done).filter(|(it, done)| **it == name && **done).count()
    }

    #[test]
    fn c02_each_step_happens_once_and_in_order() {
        for_every_sequence(|names, life, done| {
            let times = |name| count(names, done, name);
            assert!(times("set_active") <= 1, "{names:?}");
            assert!(times("begin_close") <= 1, "{names:?}");
            assert!(times("set_closed") <= times("begin_close"), "{names:?}");
            let (came, left) = (times("set_registered"), times("set_deregistered"));
            assert!(came == left || came == left + 1, "{names:?}");
            assert_eq!(life.phase == LifecyclePhase::Closed, times("set_closed") == 1, "{names:?}");
        });
    }

    #[test]
    fn c02_nothing_happens_to_a_closed_channel() {
        let mut life = ChannelLifecycle::new();
        assert!(life.set_registered() && life.set_active());
        assert!(life.begin_close() && !life.begin_close());
        assert_eq!(life.set_closed(), Some(EndEvents { inactive: true, unregistered: true }));
        assert!(!life.begin_close());
        assert_eq!(life.set_closed(), None);
        assert!(!life.set_registered() && !life.set_active() && !life.set_deregistered());
        assert!(!life.is_open() && !life.is_active() && !life.is_registered());
    }

    #[test]
    fn c02_an_event_that_was_never_announced_has_no_counterpart() {
        let mut life = ChannelLifecycle::new();
        assert!(life.begin_close());
        assert_eq!(life.set_closed(), Some(EndEvents { inactive: false, unregistered: false }));
        let mut life = ChannelLifecycle::new();
        assert!(life.set_registered());
        assert!(life.begin_close());
        assert_eq!(life.set_closed(), Some(EndEvents { inactive: false, unregistered: true }));
    }

    #[test]
    fn c04_a_channel_may_be_registered_again() {
        let mut life = ChannelLifecycle::new();
        assert!(life.set_registered() && life.set_active() && !life.set_registered());
        assert!(life.set_deregistered() && !life.set_deregistered());
        assert!(life.is_active(), "leaving the loop does not disconnect it");
        assert!(life.set_registered());
        assert!(!life.set_active(), "active once");
    }
}
