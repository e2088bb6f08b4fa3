//! Several streams on one loop under random operations and faults (O04).
//!
//! Invariants of every scenario: a peer receives a prefix of the bytes written, and all of them if nothing
//! broke; every write completes once, in order, and failures come after successes; a channel is closed if and
//! only if it was closed or broken; at the end nothing is pending.

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
struct Scenario {
    completion: bool,
    seed: u64,
    /// True if the channels echo what they read.
    echo: bool,
    steps: Vec<(usize, FaultStep)>,
}

/// An operation on one of the channels, or on the loop.
#[derive(Clone, Copy, Debug)]
enum FaultStep {
    Write {
        len: usize,
        flush: bool,
    },
    Flush,
    Close,
    /// The peer reads what has arrived.
    Take,
    /// The peer's receive buffer has this much room.
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

fn scenario() -> impl Strategy<Value = Scenario> {
    (any::<bool>(), any::<u64>(), any::<bool>(), vec((0..3usize, step()), 1..40))
        .prop_map(|(completion, seed, echo, steps)| Scenario { completion, seed, echo, steps })
}

fn step() -> impl Strategy<Value = FaultStep> {
    prop_oneof![
        8 => (0..60usize, any::<bool>()).prop_map(|(len, flush)| FaultStep::Write { len, flush }),
        3 => Just(FaultStep::Flush),
        1 => Just(FaultStep::Close),
        4 => Just(FaultStep::Take),
        3 => (0..20usize).prop_map(FaultStep::Room),
        3 => (1..5000usize).prop_map(FaultStep::Send),
        1 => Just(FaultStep::Finish),
        1 => Just(FaultStep::Reset),
        1 => Just(FaultStep::Hold),
        2 => Just(FaultStep::Release),
        1 => Just(FaultStep::FailWait),
        1 => Just(FaultStep::FailWrite),
        6 => Just(FaultStep::Turn),
    ]
}

/// One channel and its peer, with the bytes of both directions.
struct FaultyStream {
    channel: Channel,
    peer: Peer,
    got: Rc<RefCell<Vec<u8>>>,
    sent: Vec<u8>,
    written: Vec<u8>,
    received: Vec<u8>,
    writes: usize,
    told: Arc<Mutex<Vec<(usize, bool)>>>,
    /// Number of the first write after the close.
    late_from: Option<usize>,
    broken: bool,
}

/// Records the bytes read and, if asked to, echoes them.
struct EchoingReader {
    got: Rc<RefCell<Vec<u8>>>,
    echo: bool,
}

impl Handler for EchoingReader {
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

impl FaultyStream {
    fn new(manual: &Manual, bench: &mut Bench, echo: bool) -> Self {
        let (io, peer) = manual.pair();
        let got = Rc::new(RefCell::default());
        let reads = EchoingReader { got: got.clone(), echo };
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
        // Every byte encodes its position, so that a reordered byte is noticed.
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
        self.received.extend_from_slice(&self.peer.take_received());
    }
}

fn run(scenario: &Scenario) -> Result<(), TestCaseError> {
    let manual = if scenario.completion { Manual::completion() } else { Manual::readiness() };
    let mut bench = Bench::new(&Shuffled::new(manual.clone(), scenario.seed));
    let mut streams: Vec<FaultyStream> =
        (0..3).map(|_| FaultyStream::new(&manual, &mut bench, scenario.echo)).collect();
    for (which, step) in &scenario.steps {
        perform_step(*step, &manual, &mut bench, &mut streams, *which);
    }

    manual.release();
    bench.faults.clear();
    for stream in &mut streams {
        stream.peer.set_limit(usize::MAX);
        bench.here(|_| stream.channel.flush());
    }
    // A loop whose waits failed pauses for up to a second of virtual time.
    for _ in 0..40 {
        manual.advance(Duration::from_secs(1));
        bench.turn();
        streams.iter_mut().for_each(FaultyStream::take);
    }
    for stream in &streams {
        prop_assert_eq!(
            stream.channel.is_open(),
            !stream.broken,
            "the channel was closed without a cause"
        );
        prop_assert_eq!(stream.channel.pending_bytes(), 0);
        if !stream.broken {
            prop_assert_eq!(&*stream.got.borrow(), &stream.sent);
        }
        bench.here(|_| drop(stream.channel.close()));
    }
    bench.turns(10);
    for stream in &mut streams {
        stream.take();
        check_stream(scenario, stream)?;
    }
    prop_assert!(bench.here(|here| here.registered_channels()).is_empty());
    prop_assert_eq!(bench.metrics().registrations, 0);
    Ok(())
}

fn perform_step(
    step: FaultStep,
    manual: &Manual,
    bench: &mut Bench,
    streams: &mut [FaultyStream],
    which: usize,
) {
    let stream = &mut streams[which];
    match step {
        FaultStep::Write { len, flush } => stream.write(bench, len, flush),
        FaultStep::Flush => bench.here(|_| stream.channel.flush()),
        FaultStep::Close => {
            stream.broken = true;
            bench.here(|_| drop(stream.channel.close()));
        }
        FaultStep::Take => stream.take(),
        FaultStep::Room(room) => stream.peer.set_limit(room),
        FaultStep::Send(len) => {
            let bytes: Vec<u8> =
                (stream.sent.len()..stream.sent.len() + len).map(|n| n as u8).collect();
            stream.sent.extend_from_slice(&bytes);
            stream.peer.send(bytes);
        }
        FaultStep::Finish => {
            stream.broken = true;
            stream.peer.finish();
        }
        FaultStep::Reset => {
            stream.broken = true;
            stream.peer.reset();
        }
        FaultStep::Hold => manual.hold_completions(),
        FaultStep::Release => manual.release(),
        FaultStep::FailWait => {
            bench.faults.fail(DriverCall::Wait, FailTimes::Next(2), ErrorKind::InvalidInput)
        }
        FaultStep::FailWrite => {
            // The fault applies to whichever channel writes next, so this channel writes now.
            bench.faults.fail(DriverCall::Write, FailTimes::Next(1), ErrorKind::BrokenPipe);
            let calls = bench.faults.calls(DriverCall::Write);
            stream.write(bench, 1, true);
            stream.broken |= bench.faults.calls(DriverCall::Write) > calls;
            bench.faults.fail(DriverCall::Write, FailTimes::Never, ErrorKind::BrokenPipe);
        }
        FaultStep::Turn => drop(bench.turn()),
    }
}

fn check_stream(scenario: &Scenario, stream: &FaultyStream) -> Result<(), TestCaseError> {
    prop_assert!(stream.channel.closed().is_done() && stream.peer.is_closed());
    prop_assert_eq!(stream.channel.pending_bytes(), 0);
    if !scenario.echo {
        prop_assert!(
            stream.written.starts_with(&stream.received),
            "the received bytes are not a prefix of the written ones"
        );
    }
    let told = stream.told.lock().unwrap().clone();
    prop_assert_eq!(told.len(), stream.writes, "every write completes once: {:?}", told);
    let late_from = stream.late_from.unwrap_or(stream.writes);
    let (in_time, late): (Vec<_>, Vec<_>) =
        told.iter().partition(|(number, _)| *number < late_from);
    prop_assert!(late.iter().all(|(_, fine)| !fine), "written to a closed channel: {:?}", told);
    prop_assert!(
        in_time.iter().map(|(number, _)| *number).eq(0..late_from),
        "in order: {:?}",
        told
    );
    let went = in_time.iter().take_while(|(_, fine)| *fine).count();
    prop_assert!(
        in_time[went..].iter().all(|(_, fine)| !fine),
        "a write succeeded after a failed one: {:?}",
        told
    );
    if !stream.broken {
        prop_assert_eq!(went, stream.writes);
        prop_assert_eq!(
            stream.received.len(),
            stream.written.len() + usize::from(scenario.echo) * stream.sent.len()
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn o04_streams_keep_their_promises_under_random_faults(scenario in scenario()) {
        run(&scenario)?;
    }
}
