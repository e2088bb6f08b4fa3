//! Streams attached to a loop: events, and no events after a detach (L05, L07).

use std::cell::RefCell;
use std::rc::Rc;

use waterwheel_channel::driver::{IoEvent, OutQueue, ReadPlan, Role, Submit};
use waterwheel_channel::{LocalLoop, Registrant, Token};
use waterwheel_executor::Error;

use super::probe::bench;
use crate::driver_suite::{Fixture, supports_sockets};

/// The streams of a test, and their calls.
#[derive(Default)]
struct Crowd {
    tokens: Vec<Token>,
    /// Indices of streams that got an event.
    called: Vec<usize>,
    /// Indices of streams that got `on_detached`, with true if there was a cause.
    ended: Vec<(usize, bool)>,
}

/// A registrant that detaches all others when it gets an event.
struct DetachesOthers {
    index: usize,
    crowd: Rc<RefCell<Crowd>>,
}

impl Registrant for DetachesOthers {
    fn on_event(&mut self, here: &LocalLoop, _: IoEvent) -> Result<(), Error> {
        let others: Vec<Token> = {
            let mut crowd = self.crowd.borrow_mut();
            crowd.called.push(self.index);
            let own = crowd.tokens[self.index];
            crowd.tokens.iter().copied().filter(|token| *token != own).collect()
        };
        for token in others {
            here.detach(token);
            assert!(!here.detach(token), "the second detach has no effect");
        }
        Ok(())
    }

    fn on_detached(&mut self, _: &LocalLoop, cause: Option<Error>) {
        self.crowd.borrow_mut().ended.push((self.index, cause.is_some()));
    }
}

/// Checks that ready streams are not called after the first called stream has detached them.
pub fn l07_detached_registrants_are_not_called(fixture: &dyn Fixture) {
    if !supports_sockets(fixture, fixture.crowd_size()) {
        return;
    }
    let (mut bench, crowd) = (bench(fixture), Rc::new(RefCell::new(Crowd::default())));
    let mut remotes = Vec::new();
    for index in 0..fixture.crowd_size() {
        let (io, mut remote) = fixture.pair();
        let registrant = DetachesOthers { index, crowd: crowd.clone() };
        let token = bench.here(|here| here.attach(io, Role::Stream, registrant)).unwrap();
        bench.here(|here| here.set_read(token, Some(ReadPlan::default())));
        crowd.borrow_mut().tokens.push(token);
        assert!(remote.send(b"x") == 1);
        remotes.push(remote);
    }
    let seen = crowd.clone();
    bench.until("ends", || seen.borrow().ended.len() + 1 >= fixture.crowd_size());
    bench.turns(3);
    let crowd = crowd.borrow();
    let first = crowd.called[0];
    assert!(crowd.called.iter().all(|called| *called == first), "a detached registrant was called");
    let mut ended = crowd.ended.clone();
    ended.sort_unstable();
    let others = (0..fixture.crowd_size()).filter(|index| *index != first);
    assert_eq!(ended, others.map(|index| (index, false)).collect::<Vec<_>>(), "each once");
    assert_eq!(bench.metrics().registrations, 1);
}

/// A registrant that echoes what it reads, and detaches at end of file.
struct Echo {
    queue: OutQueue,
    pending: bool,
    ended: Rc<RefCell<Option<Option<String>>>>,
}

impl Echo {
    fn write(&mut self, here: &LocalLoop, token: Token) -> Result<(), Error> {
        while !self.queue.is_empty() && !self.pending {
            match here.write(token, &self.queue).map_err(Error::new)? {
                Submit::Done(n) => self.queue.advance(n),
                Submit::Full | Submit::Pending => self.pending = true,
            }
        }
        Ok(())
    }
}

impl Registrant for Echo {
    fn on_event(&mut self, here: &LocalLoop, event: IoEvent) -> Result<(), Error> {
        let token = event.token();
        match event {
            IoEvent::Read(_, bytes) => self.queue.push(bytes),
            IoEvent::Wrote(_, n) => {
                self.pending = false;
                self.queue.advance(n);
            }
            IoEvent::Eof(_) => drop(here.detach(token)),
            IoEvent::Failed(_, error) => return Err(Error::new(error)),
            _ => {}
        }
        self.write(here, token)
    }

    fn on_detached(&mut self, _: &LocalLoop, cause: Option<Error>) {
        let told = self.ended.borrow_mut().replace(cause.map(|cause| cause.to_string()));
        assert!(told.is_none(), "told twice");
    }
}

/// Checks that a registrant can write inside its read events.
pub fn l05_a_registrant_reads_and_writes_on_the_loop(fixture: &dyn Fixture) {
    let mut bench = bench(fixture);
    let (io, mut remote) = fixture.pair();
    let ended: Rc<RefCell<Option<Option<String>>>> = Rc::default();
    let echo = Echo { queue: OutQueue::new(), pending: false, ended: ended.clone() };
    let token = bench.here(|here| here.attach(io, Role::Stream, echo)).unwrap();
    bench.here(|here| here.set_read(token, Some(ReadPlan::default())));
    let mut back = Vec::new();
    for n in 0..20_u8 {
        assert_eq!(remote.send(&[n; 50]), 50);
        bench.until("echo", || {
            back.extend(remote.drain());
            back.len() >= 50
        });
        assert_eq!(back, [n; 50]);
        back.clear();
    }
    remote.finish();
    let over = ended.clone();
    bench.until("end", || over.borrow().is_some());
    assert_eq!(*ended.borrow(), Some(None), "asked for, so without a cause");
    bench.here(|here| {
        assert!(here.write(token, &OutQueue::new()).is_err());
        assert!(here.shutdown(token, std::net::Shutdown::Both).is_err());
        here.set_read(token, None);
        assert!(!here.detach(token));
    });
}
