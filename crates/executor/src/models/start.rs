//! A loop is started once, whatever its thread supplier does.

use std::io;
use std::sync::Arc;

use super::{AtomicUsize, Ordering, model, thread};
use crate::lifecycle::start::{StartError, Starter};
use crate::lifecycle::{ExecutorState, Lifecycle};
use crate::sync::{Mutex, lock};

/// A loop that waits for its thread, and counts of what happened to it.
struct Model {
    starter: Starter<()>,
    life: Lifecycle,
    attempts: AtomicUsize,
    run: AtomicUsize,
    ended: AtomicUsize,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

/// The supplier's thread runs the loop, or drops it.
#[derive(Clone, Copy)]
enum Body {
    Run,
    LetGo,
}

impl Model {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            starter: Starter::new(()),
            life: Lifecycle::new(),
            attempts: AtomicUsize::new(0),
            run: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            threads: Mutex::new(Vec::new()),
        })
    }

    /// Submits as an executor does; the supplier refuses the first `refusals` attempts.
    fn submit(self: &Arc<Self>, refusals: usize, body: Body) -> bool {
        let started = self.starter.ensure_started(&self.life, |()| {
            if self.attempts.fetch_add(1, Ordering::SeqCst) < refusals {
                assert!(self.starter.give_back(&self.life, ()).is_none());
                return Err(io::Error::other("refused"));
            }
            let model = self.clone();
            let thread = thread::spawn(move || model.body(body));
            lock(&self.threads).push(thread);
            Ok(())
        });
        match started {
            Ok(()) => assert_ne!(self.life.state(), ExecutorState::NotStarted),
            Err(StartError::Abandoned(())) => {
                self.ended.fetch_add(1, Ordering::SeqCst);
                return false;
            }
            Err(StartError::Refused(_)) => return false,
        }
        true
    }

    fn body(&self, body: Body) {
        if matches!(body, Body::Run) && self.starter.may_run() {
            self.run.fetch_add(1, Ordering::SeqCst);
        } else if self.starter.give_back(&self.life, ()).is_some() {
            self.ended.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn join(&self) {
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            thread.join().unwrap();
        }
    }
}

fn race(refusals: usize, body: Body, check: fn(&Model, started: usize)) {
    model(move || {
        let model = Model::new();
        let other = {
            let model = model.clone();
            thread::spawn(move || model.submit(refusals, body))
        };
        let mine = model.submit(refusals, body);
        let started = usize::from(mine) + usize::from(other.join().unwrap());
        model.join();
        check(&model, started);
    });
}

#[test]
fn e04_two_submitters_start_one_thread() {
    race(0, Body::Run, |model, started| {
        assert_eq!(started, 2);
        assert_eq!(model.attempts.load(Ordering::SeqCst), 1);
        assert_eq!(model.run.load(Ordering::SeqCst), 1, "accepted, so it runs");
    });
}

#[test]
fn e04_after_a_refusal_the_other_submitter_starts_the_loop() {
    race(1, Body::Run, |model, started| {
        assert_eq!(started, 1, "one is refused, the other tries again");
        assert_eq!(model.run.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn e04_a_dropped_loop_is_ended_once_or_can_be_started_again() {
    model(|| {
        let model = Model::new();
        let started = model.submit(0, Body::LetGo);
        model.join();
        let ended = model.ended.load(Ordering::SeqCst);
        match model.life.state() {
            ExecutorState::NotStarted => assert!(!started && ended == 0, "refused: try again"),
            _ => assert_eq!(ended, 1, "published as started, so it must be ended"),
        }
    });
}
