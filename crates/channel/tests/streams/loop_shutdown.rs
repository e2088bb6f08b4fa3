//! Loops that shut down or are dropped while their channels are busy (L10, E16).

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::driver::{Interest, Readiness};
use waterwheel_channel::{
    Ctx, Edit, Foreign, ForeignContext, ForeignHandler, Handler, LocalLoop, NewChannel, Stream,
};
use waterwheel_executor::Error;
use waterwheel_testkit::loop_suite::Bench;
use waterwheel_testkit::manual::{Manual, Peer};

use crate::support::{StreamFixture, over_both_drivers};

const TIMEOUT: Duration = Duration::from_secs(10);
const CLOSING_EVENTS: [&str; 3] = ["inactive", "unregistered", "removed"];

fn shut_down(fixture: &StreamFixture) {
    let event_loop = fixture.bench.event_loop();
    drop(event_loop.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap());
}

#[test]
fn l10_a_shutdown_waits_for_writes_in_flight() {
    let manual = Manual::completion();
    let mut fixture = StreamFixture::new(&manual);
    fixture.run();
    fixture.take_log();
    manual.hold_completions();
    fixture.write(0, "first ", true);
    fixture.write(1, "second", true);
    shut_down(&fixture);
    fixture.bench.turns(5);
    manual.advance(TIMEOUT - Duration::from_nanos(1));
    fixture.bench.turns(5);
    assert!(!fixture.bench.manual.is_terminated() && !fixture.channel.closed().is_done());
    assert!(!fixture.channel.is_open(), "the channel is closed for its users from the start");
    manual.release();
    fixture.bench.turns(6);
    assert!(fixture.bench.manual.is_terminated() && fixture.channel.closed().is_done());
    assert_eq!(fixture.peer.take_received(), "first second");
    assert_eq!(fixture.write_outcomes(), [(0, true), (1, true)]);
    assert_eq!(fixture.take_log(), CLOSING_EVENTS);
}

#[test]
fn l10_the_timeout_bounds_the_wait_for_writes_in_flight() {
    let manual = Manual::completion();
    let mut fixture = StreamFixture::new(&manual);
    fixture.run();
    fixture.take_log();
    manual.hold_completions();
    fixture.write(0, "never", true);
    shut_down(&fixture);
    fixture.bench.turns(5);
    assert!(!fixture.bench.manual.is_terminated());
    manual.advance(TIMEOUT);
    fixture.bench.turns(2);
    assert!(
        fixture.bench.manual.is_terminated()
            && fixture.channel.closed().is_done()
            && fixture.peer.is_closed()
    );
    assert_eq!(fixture.write_outcomes(), [(0, false)]);
    assert_eq!(fixture.take_log(), CLOSING_EVENTS);
    assert_eq!(fixture.channel.pending_bytes(), 0);
}

#[test]
fn l10_a_shutdown_closes_channels_and_unregisters_foreign_sources_at_its_start() {
    struct WriteOutcomes(Arc<AtomicUsize>);
    impl ForeignHandler<()> for WriteOutcomes {
        fn on_ready(&mut self, (): &(), _: Readiness, _: &ForeignContext) -> Result<(), Error> {
            Ok(())
        }

        fn on_unregistered(&mut self, (): &(), cause: Option<Error>) {
            assert!(cause.is_some());
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        let (io, _source) = manual.foreign_source();
        let write_outcomes = Arc::new(AtomicUsize::new(0));
        let (foreign, handler) =
            (Foreign::new(Arc::new(()), io), WriteOutcomes(write_outcomes.clone()));
        fixture
            .bench
            .here(|here| here.register_foreign(foreign, Interest::READABLE, handler))
            .unwrap();
        fixture.run();
        fixture.take_log();
        let event_loop = fixture.bench.event_loop();
        // With a quiet period, the loop continues after its channels are closed.
        drop(event_loop.shutdown_gracefully(TIMEOUT / 2, TIMEOUT).unwrap());
        fixture.bench.turns(4);
        assert!(!fixture.bench.manual.is_terminated());
        assert_eq!(
            (fixture.take_log(), write_outcomes.load(Ordering::Relaxed)),
            (CLOSING_EVENTS.map(Into::into).into(), 1)
        );
        assert!(fixture.channel.closed().is_done() && fixture.peer.is_closed());
        let (io, peer) = manual.pair();
        let late = NewChannel::new(Stream::connected(io, None));
        assert!(fixture.bench.here(|here| here.register_with(late, |_| Ok(()))).is_err());
        assert!(peer.is_closed(), "a late channel is closed");
    });
}

/// Counts live handlers; a handler that is not dropped on its loop stays counted.
struct CountsAlive {
    alive: Rc<Cell<usize>>,
    removed: Rc<Cell<usize>>,
}

impl Handler for CountsAlive {
    fn on_removed(&mut self, _: &Ctx<'_>) {
        self.removed.set(self.removed.get() + 1);
    }
}

impl Drop for CountsAlive {
    fn drop(&mut self) {
        if LocalLoop::current().is_some() {
            self.alive.set(self.alive.get() - 1);
        }
    }
}

#[test]
fn e16_dropping_a_loop_closes_its_channels() {
    over_both_drivers(|manual| {
        let (alive, removed) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let mut bench = Bench::new(&manual);
        let (mut channels, mut peers, mut writes) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..3 {
            let (io, peer) = manual.pair();
            peer.set_limit(3);
            let add = |edit: &mut Edit<'_>| {
                for name in ["one", "two"] {
                    alive.set(alive.get() + 1);
                    let (alive, removed) = (alive.clone(), removed.clone());
                    edit.add_last(name, CountsAlive { alive, removed })?;
                }
                Ok(())
            };
            let new = NewChannel::new(Stream::connected(io, None));
            let channel = bench.here(|here| here.register_with(new, add)).unwrap();
            channels.push(channel);
            peers.push(peer);
        }
        bench.turns(3);
        manual.hold_completions();
        for channel in &channels {
            bench.here(|_| {
                writes.push(channel.write_and_flush(Bytes::from("hello")));
                writes.push(channel.write(Bytes::from("world")));
            });
        }
        writes.extend(channels.iter().map(|channel| channel.write(Bytes::from("from outside"))));
        assert_eq!((alive.get(), removed.get()), (6, 0));
        drop(bench);
        assert_eq!((alive.get(), removed.get()), (0, 6));
        assert_eq!(Rc::strong_count(&alive), 1, "all channels were dropped");
        assert!(channels.iter().all(|channel| channel.closed().is_done() && !channel.is_open()));
        assert!(channels.iter().all(|channel| channel.pending_bytes() == 0));
        assert!(writes.iter().all(|write| write.is_done()));
        assert!(peers.iter().all(Peer::is_closed));
        let late = channels[0].write_and_flush(Bytes::from("too late"));
        assert!(late.join().is_err());
    });
}
