//! Several streams on one loop, whatever happens to them, in any order (O04).
//!
//! What must hold of any world: a peer receives the beginning of what was written, and all of it if
//! nothing broke; every write is told once, in order, and those that fail come after those that went; a
//! channel is closed if and only if somebody closed or broke it; in the end nothing is pending.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use waterwheel_channel::{Channel, Ctx, Edit, Handler, HandlerResult, Msg, NewChannel, Stream};
use waterwheel_executor::Error;
use waterwheel_testkit::faulty::{DriverCall, FailTimes};
use waterwheel_testkit::loop_suite::Bench;
use waterwheel_testkit::manual::{Manual, Peer};
use waterwheel_testkit::shuffled::Shuffled;

#[derive(Clone, Debug)]
struct World {
    completion: bool,
    seed: u64,
    /// Answers everything that comes in.
    echo: bool,
    steps: Vec<(usize, Step)>,
}

/// What happens to one of the channels, or to the loop.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write {
        len: usize,
        flush: bool,
    },
    Flush,
    Close,
    /// The peer takes what has arrived.
    Take,
    /// The peer has so much room.
    Room(usize),
    Send(usize),
    Finish,
    Reset,
    Hold,
    Release,
    FailWait,
    FailWrite,
    Turn,
}

fn world() -> impl Strategy<Value = World> {
    (any::<bool>(), any::<u64>(), any::<bool>(), vec((0..3usize, step()), 1..40))
        .prop_map(|(completion, seed, echo, steps)| World { completion, seed, echo, steps })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..60usize, any::<bool>()).prop_map(|(len, flush)| Step::Write { len, flush }),
        3 => Just(Step::Flush),
        1 => Just(Step::Close),
        4 => Just(Step::Take),
        3 => (0..20usize).prop_map(Step::Room),
        3 => (1..5000usize).prop_map(Step::Send),
        1 => Just(Step::Finish),
        1 => Just(Step::Reset),
        1 => Just(Step::Hold),
        2 => Just(Step::Release),
        1 => Just(Step::FailWait),
        1 => Just(Step::FailWrite),
        6 => Just(Step::Turn),
    ]
}

/// One channel, from both sides.
struct Line {
    channel: Channel,
    peer: Peer,
    got: Rc<RefCell<Vec<u8>>>,
    sent: Vec<u8>,
    written: Vec<u8>,
    received: Vec<u8>,
    writes: usize,
    told: Arc<Mutex<Vec<(usize, bool)>>>,
    /// The first write after it was closed.
    late_from: Option<usize>,
    broken: bool,
}

/// Notes what comes in, and perhaps sends it back.
struct Reads {
    got: Rc<RefCell<Vec<u8>>>,
    echo: bool,
}

impl Handler for Reads {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let bytes = msg.into_bytes().expect("a stream reads bytes");
        self.got.borrow_mut().extend_from_slice(&bytes);
        if self.echo {
            ctx.write(bytes);
        }
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, _: Error) -> HandlerResult {
        Ok(())
    }
}

impl Line {
    fn new(manual: &Manual, bench: &mut Bench, echo: bool) -> Self {
        let (io, peer) = manual.pair();
        let got = Rc::new(RefCell::default());
        let reads = Reads { got: got.clone(), echo };
        let add = |edit: &mut Edit<'_>| Ok(edit.add_last("reads", reads).map(drop)?);
        let new = NewChannel::new(Stream::connected(io, None));
        let channel = bench.here(|here| here.register_with(new, add)).expect("a sound beginning");
        Self {
            channel,
            peer,
            got,
            sent: Vec::new(),
            written: Vec::new(),
            received: Vec::new(),
            writes: 0,
            told: Arc::default(),
            late_from: None,
            broken: false,
        }
    }

    fn write(&mut self, bench: &mut Bench, len: usize, flush: bool) {
        let (number, told) = (self.writes, self.told.clone());
        self.writes += 1;
        let open = self.channel.is_open();
        if !open {
            self.late_from.get_or_insert(number);
        }
        // Every byte says where it stands: no other can take its place.
        let bytes: Vec<u8> =
            (self.written.len()..self.written.len() + len).map(|n| n as u8).collect();
        if open {
            self.written.extend_from_slice(&bytes);
        }
        let note = move |result: Result<(), Error>| {
            told.lock().unwrap().push((number, result.is_ok()));
        };
        bench.here(|_| {
            let bytes = Bytes::from(bytes);
            let written =
                if flush { self.channel.write_and_flush(bytes) } else { self.channel.write(bytes) };
            written.on_complete(note);
        });
    }

    fn take(&mut self) {
        self.received.extend_from_slice(&self.peer.received());
    }
}

fn run(world: &World) -> Result<(), TestCaseError> {
    let manual = if world.completion { Manual::completion() } else { Manual::readiness() };
    let mut bench = Bench::new(&Shuffled::new(manual.clone(), world.seed));
    let mut lines: Vec<Line> = (0..3).map(|_| Line::new(&manual, &mut bench, world.echo)).collect();
    for (which, step) in &world.steps {
        perform(*step, &manual, &mut bench, &mut lines, *which);
    }

    manual.release();
    bench.faults.clear();
    for line in &mut lines {
        line.peer.set_limit(usize::MAX);
        bench.here(|_| line.channel.flush());
    }
    // A loop whose waits failed pauses for up to a second of its clock.
    for _ in 0..40 {
        manual.advance(Duration::from_secs(1));
        bench.turn();
        lines.iter_mut().for_each(Line::take);
    }
    for line in &lines {
        prop_assert_eq!(line.channel.is_open(), !line.broken, "closed, and who closed it?");
        prop_assert_eq!(line.channel.pending_bytes(), 0);
        if !line.broken {
            prop_assert_eq!(&*line.got.borrow(), &line.sent);
        }
        bench.here(|_| drop(line.channel.close()));
    }
    bench.turns(10);
    for line in &mut lines {
        line.take();
        check(world, line)?;
    }
    prop_assert!(bench.here(|here| here.registered_channels()).is_empty());
    prop_assert_eq!(bench.metrics().registrations, 0);
    Ok(())
}

fn perform(step: Step, manual: &Manual, bench: &mut Bench, lines: &mut [Line], which: usize) {
    let line = &mut lines[which];
    match step {
        Step::Write { len, flush } => line.write(bench, len, flush),
        Step::Flush => bench.here(|_| line.channel.flush()),
        Step::Close => {
            line.broken = true;
            bench.here(|_| drop(line.channel.close()));
        }
        Step::Take => line.take(),
        Step::Room(room) => line.peer.set_limit(room),
        Step::Send(len) => {
            let bytes: Vec<u8> =
                (line.sent.len()..line.sent.len() + len).map(|n| n as u8).collect();
            line.sent.extend_from_slice(&bytes);
            line.peer.send(bytes);
        }
        Step::Finish => {
            line.broken = true;
            line.peer.finish();
        }
        Step::Reset => {
            line.broken = true;
            line.peer.reset();
        }
        Step::Hold => manual.hold_completions(),
        Step::Release => manual.release(),
        Step::FailWait => {
            bench.faults.fail(DriverCall::Wait, FailTimes::Next(2), ErrorKind::InvalidInput)
        }
        Step::FailWrite => {
            // Whose write that will be is anybody's guess: it is made now.
            bench.faults.fail(DriverCall::Write, FailTimes::Next(1), ErrorKind::BrokenPipe);
            let calls = bench.faults.calls(DriverCall::Write);
            line.write(bench, 1, true);
            line.broken |= bench.faults.calls(DriverCall::Write) > calls;
            bench.faults.fail(DriverCall::Write, FailTimes::Never, ErrorKind::BrokenPipe);
        }
        Step::Turn => drop(bench.turn()),
    }
}

fn check(world: &World, line: &Line) -> Result<(), TestCaseError> {
    prop_assert!(line.channel.closed().is_done() && line.peer.is_closed());
    prop_assert_eq!(line.channel.pending_bytes(), 0);
    if !world.echo {
        prop_assert!(line.written.starts_with(&line.received), "not what was written");
    }
    let told = line.told.lock().unwrap().clone();
    prop_assert_eq!(told.len(), line.writes, "each once: {:?}", told);
    let late_from = line.late_from.unwrap_or(line.writes);
    let (in_time, late): (Vec<_>, Vec<_>) =
        told.iter().partition(|(number, _)| *number < late_from);
    prop_assert!(late.iter().all(|(_, fine)| !fine), "written to a closed channel: {:?}", told);
    prop_assert!(
        in_time.iter().map(|(number, _)| *number).eq(0..late_from),
        "in order: {:?}",
        told
    );
    let went = in_time.iter().take_while(|(_, fine)| *fine).count();
    prop_assert!(in_time[went..].iter().all(|(_, fine)| !fine), "failed, then went: {:?}", told);
    if !line.broken {
        prop_assert_eq!(went, line.writes);
        prop_assert_eq!(
            line.received.len(),
            line.written.len() + usize::from(world.echo) * line.sent.len()
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn o04_streams_keep_their_promises_under_random_faults(world in world()) {
        run(&world)?;
    }
}
