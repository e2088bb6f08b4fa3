//! Behaviour that changes while a loop drains, and behaviour that stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use waterwheel_channel::local::{self, Connection, LocalListener};
use waterwheel_channel::{
    Ctx, Drained, Handler, HandlerResult, LoopDraining, LoopShutDown, NewChannel,
};
use waterwheel_executor::ExecutorState;

use crate::support::{
    DrainFixture, Log, RecordsDrain, SECOND, drain, embedded_without_room, is, outcome_of,
};

struct NoOpHandler;

impl Handler for NoOpHandler {}

#[test]
fn l11_a_drain_stops_accepting_and_closes_listeners() {
    let (mut fixture, log) = (DrainFixture::new(), Log::default());
    let name = "l11-listening";
    let server =
        fixture.register(NewChannel::new(LocalListener::new().listen(name).unwrap()), NoOpHandler);
    let unbound = fixture.register(NewChannel::new(LocalListener::new()), NoOpHandler);
    let other = fixture.connected(RecordsDrain::new(&log));
    let hold = other.hold();
    let drained = fixture.drain();
    fixture.run();
    assert!(!server.is_open() && !unbound.is_open(), "neither accepts, nor ever will");
    assert!(server.closed().is_done());
    assert!(other.is_open(), "other channels stay open");
    assert_eq!(log.take(), ["draining, 10s left"]);
    LocalListener::new().listen(name).expect("the name is free again");
    assert_eq!(outcome_of(&drained), None);
    drop(hold);
    fixture.run();
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
}

#[test]
fn l11_a_draining_loop_refuses_channels_and_says_why() {
    let mut fixture = DrainFixture::new();
    let told = fixture.connected(NoOpHandler);
    let hold = told.hold();
    let _drained = fixture.drain();
    let refused = fixture.event_loop().register(local::pair().0);
    let error = fixture.outcome(refused).unwrap_err();
    assert!(is::<LoopDraining>(&error), "{error}");
    let (new, peer) = local::pair();
    let here = fixture.on(|here| here.register_with(new, |_| Ok(())));
    let error = here.unwrap_err();
    assert!(is::<LoopDraining>(&error) && !is::<LoopShutDown>(&error), "{error}");
    drop(peer);
    drop(hold);
    fixture.run();
    assert!(fixture.is_terminated());
    let refused = fixture.event_loop().register(local::pair().0);
    assert!(!is::<LoopDraining>(&fixture.outcome(refused).unwrap_err()), "it is shut down");
}

#[test]
fn l11_a_deregistered_channel_may_register_again_to_be_drained() {
    let (mut fixture, log) = (DrainFixture::new(), Log::default());
    let (one, other) = local::pair();
    let (one, _other) =
        (fixture.register(one, NoOpHandler), fixture.register(other, RecordsDrain::new(&log)));
    let left = one.deregister();
    fixture.outcome(left).unwrap();
    let hold = one.hold();
    let drained = fixture.drain();
    fixture.run();
    let back = one.register();
    fixture.outcome(back).unwrap();
    let sent = one.write_and_flush("late".to_owned());
    drop(hold);
    fixture.outcome(sent).unwrap();
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
    assert!(log.take().contains(&"read late".to_owned()));
}

#[test]
fn l11_every_channel_receives_one_drain_event() {
    let (mut fixture, log) = (DrainFixture::new(), Log::default());
    let channels: Vec<_> = (0..3).map(|_| fixture.connected(RecordsDrain::new(&log))).collect();
    let unconnected = fixture.register(NewChannel::new(Connection::new()), RecordsDrain::new(&log));
    let hold = unconnected.hold();
    let [first, second] = [fixture.drain(), fixture.drain()];
    fixture.run();
    let draining = "draining, 10s left".to_owned();
    assert_eq!(log.take(), vec![draining; channels.len() + 1]);
    drop(hold);
    fixture.run();
    assert_eq!([outcome_of(&first), outcome_of(&second)], [Some(Drained::Complete); 2]);
}

#[test]
fn l11_the_state_stays_started_and_every_handle_shows_that_the_loop_drains() {
    let mut fixture = DrainFixture::new();
    let event_loop = fixture.event_loop();
    let channel = fixture.connected(NoOpHandler);
    let hold = channel.hold();
    assert!(!event_loop.is_draining() && !fixture.on(|here| here.is_draining()));
    let drained = fixture.drain();
    assert!(event_loop.is_draining(), "from the call on");
    fixture.run();
    assert!(event_loop.is_draining() && fixture.on(|here| here.is_draining()));
    assert_eq!(event_loop.state(), ExecutorState::Started);
    let ran = event_loop.submit(|| 6 * 7).unwrap();
    assert_eq!(fixture.outcome(ran).unwrap(), 42);
    let seen = event_loop.clone();
    drained.add_listener(move |_| assert!(!seen.is_draining(), "it is over when that is told"));
    drop(hold);
    fixture.run();
    assert!(!event_loop.is_draining() && event_loop.is_terminated());
}

#[test]
fn l11_timers_fire_while_the_loop_drains() {
    struct Ticking(Log, usize);
    impl Handler for Ticking {
        fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
            ctx.schedule(SECOND, 0);
            Ok(())
        }

        fn on_timer(&mut self, ctx: &Ctx<'_>, _: u32) -> HandlerResult {
            self.1 += 1;
            self.0.add(format!("tick {}", self.1));
            ctx.schedule(SECOND, 0);
            Ok(())
        }
    }
    let (mut fixture, log) = (DrainFixture::new(), Log::default());
    let channel = fixture.connected(Ticking(log.clone(), 0));
    let hold = channel.hold();
    let ticks = Arc::new(AtomicUsize::new(0));
    let counted = ticks.clone();
    let count = move || _ = counted.fetch_add(1, Ordering::Relaxed);
    let _timer = fixture.event_loop().schedule_at_fixed_rate(SECOND, SECOND, count);
    let drained = fixture.drain();
    for _ in 0..3 {
        fixture.advance(SECOND);
    }
    assert_eq!(log.take(), ["tick 1", "tick 2", "tick 3"]);
    assert_eq!(ticks.load(Ordering::Relaxed), 3);
    drop(hold);
    fixture.run();
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
}

#[test]
fn l11_channels_read_and_write_while_the_loop_drains() {
    let (mut fixture, log) = (DrainFixture::new(), Log::default());
    let (one, other) = local::pair();
    let one = fixture.register(one, NoOpHandler);
    let _other = fixture.register(other, RecordsDrain::new(&log));
    let hold = one.hold();
    let drained = fixture.drain();
    fixture.run();
    for word in ["one", "two"] {
        let sent = one.write_and_flush(word.to_owned());
        fixture.outcome(sent).unwrap();
    }
    assert_eq!(log.take(), ["draining, 10s left", "read one", "read two"]);
    drop(hold);
    fixture.run();
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
}

#[test]
fn l11_a_handler_can_finish_and_close_at_the_drain_event() {
    let log = Log::default();
    let mut channel = embedded_without_room(RecordsDrain::with_action(&log, |ctx| {
        ctx.write_and_flush(Bytes::from_static(b"goodbye"));
        ctx.close();
    }));
    channel.clear_faults();
    let drained = drain(&mut channel);
    assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "goodbye");
    assert_eq!(log.take(), ["draining, 10s left", "inactive"]);
    assert!(!channel.channel().is_open());
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
}

#[test]
fn l11_a_loop_that_drains_sleeps_until_something_changes() {
    let mut fixture = DrainFixture::new();
    let channel = fixture.connected(NoOpHandler);
    let hold = channel.hold();
    let drained = fixture.drain();
    fixture.run();
    let before = fixture.turns();
    fixture.advance(9 * SECOND);
    assert_eq!(fixture.turns(), before + 2, "only the two turns of the test: the loop is idle");
    drop(hold);
    fixture.run();
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
}
