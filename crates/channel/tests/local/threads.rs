//! Local channels across threads (C01, C08), and a million nested messages (rule 7).

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use waterwheel_channel::driver::TaskOnly;
use waterwheel_channel::local::{self as transport, Connection};
use waterwheel_channel::{
    Address, Channel, Completion, Ctx, EventLoop, EventLoopGroup, Handler, HandlerResult, Msg,
    NewChannel,
};

use crate::support::{
    LocalFixture, Log, PATIENCE, RecordingHandler, fresh_name, shut_down, threaded_group,
};

/// Adds a handler to a channel before its registration.
fn with_handler<H: Handler>(
    new: NewChannel,
    made: impl FnOnce() -> H + Send + 'static,
) -> NewChannel {
    new.initialiser(|edit| {
        edit.add_last("handler", made())?;
        Ok(())
    })
}

/// Sends each number back plus one, until `enough` is reached.
struct PingPong {
    enough: u64,
    seen: Rc<Cell<u64>>,
}

impl Handler for PingPong {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let n = msg.take::<u64>().expect("the message is a number");
        self.seen.set(n);
        if n < self.enough {
            ctx.write_and_flush(n + 1);
        }
        Ok(())
    }
}

#[test]
fn c08_a_million_messages_back_and_forth_use_no_stack_and_starve_no_task() {
    const MESSAGES: u64 = 1_000_000;
    const STACK: usize = 128 * 1024;
    let small = thread::Builder::new().stack_size(STACK).spawn(|| {
        let mut hand = EventLoopGroup::builder(TaskOnly).build_manual().unwrap();
        let seen = Rc::new(Cell::new(0));
        let (one, other) = transport::pair();
        let ends = [one, other].map(|new| {
            let handler = PingPong { enough: MESSAGES, seen: seen.clone() };
            let registered = hand.on_loop(|here| {
                here.register_with(new, |edit| {
                    edit.add_last("ping-pong", handler)?;
                    Ok(())
                })
            });
            registered.expect("the loop can be built").expect("the registration succeeds")
        });
        let event_loop = hand.event_loop();
        let ticks = Arc::new(AtomicU64::new(0));
        let ticking = ticks.clone();
        let period = Duration::from_micros(100);
        let timer = event_loop.schedule_at_fixed_rate(period, period, move || {
            ticking.fetch_add(1, Ordering::Relaxed);
        });
        ends[0].send(1_u64);
        let (mut tasks, mut most) = (0, 0);
        while seen.get() < MESSAGES {
            let before = seen.get();
            let ran = event_loop.submit(|| ()).unwrap();
            assert!(hand.turn(None));
            assert!(ran.is_done(), "a task runs in the next turn");
            most = most.max(seen.get() - before);
            tasks += 1;
        }
        drop(timer);
        (tasks, most, ticks.load(Ordering::Relaxed))
    });
    let (tasks, most, ticks) = small.unwrap().join().expect("no overflow");
    assert!(tasks > 1000, "{tasks} tasks");
    assert!(most < 1000, "at most {most} messages in a turn");
    assert!(ticks > 10, "{ticks} ticks");
}

#[test]
fn c08_a_local_channel_queues_one_command_for_a_call_from_another_thread_and_none_on_the_loop() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, _b) =
            fixture.pair(RecordingHandler::new("a", &log), RecordingHandler::new("b", &log));
        let depth = |fixture: &mut LocalFixture, at| fixture.bench(at).metrics().queue_depth;
        let calls: [fn(&Channel); 9] = [
            |a| drop(a.write("1".to_owned())),
            |a| drop(a.write_and_flush("2".to_owned())),
            |a| a.send("3".to_owned()),
            Channel::flush,
            Channel::read,
            |a| a.set_auto_read(true),
            |a| a.fire_user_event(1_u8),
            |a| drop(a.deregister()),
            |a| drop(a.register()),
        ];
        for (at, call) in calls.into_iter().enumerate() {
            // Commands already taken are part of the queue depth until the loop next updates its count.
            let before = depth(fixture, 0);
            call(&a);
            assert_eq!(depth(fixture, 0), before + 1, "call {at}");
            fixture.run();
            let before = depth(fixture, 0);
            fixture.bench(0).here(|_| call(&a));
            assert_eq!(depth(fixture, 0), before, "call {at} on the loop");
            fixture.run();
        }
        assert_eq!(log.count("b: read 1") + log.count("b: read 2") + log.count("b: read 3"), 6);
    });
}

#[test]
fn c08_many_messages_wake_the_other_loop_once() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, _b) =
            fixture.pair(RecordingHandler::new("a", &log), RecordingHandler::new("b", &log));
        for burst in 1..=3 {
            let before = fixture.bench(1).metrics().queue_depth;
            fixture.bench(0).here(|_| (0..100).for_each(|n| a.send(format!("{n}"))));
            let apart = usize::from(fixture.has_two_loops());
            let after = fixture.bench(1).metrics().queue_depth;
            assert_eq!(after, before + apart, "one command, or none");
            fixture.run();
            assert_eq!(log.count("b: read 99"), burst, "all of them");
        }
    });
}

#[test]
fn c08_a_peer_that_does_not_read_is_not_woken() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, b) =
            fixture.pair(RecordingHandler::new("a", &log), RecordingHandler::new("b", &log));
        fixture.on(1, |_| b.set_auto_read(false));
        // Only the first message finds the wake-up request that the peer left at its last read.
        fixture.on(0, |_| a.send("1".to_owned()));
        fixture.bench(0).here(|_| a.send("2".to_owned()));
        assert!(fixture.bench(1).manual.is_idle());
        assert_eq!(log.of("b")[3..], [""; 0]);
    });
}

/// Records the thread of each call.
struct RecordsThreads(Arc<Mutex<Vec<ThreadId>>>);

impl RecordsThreads {
    fn note(&self) {
        self.0.lock().unwrap().push(thread::current().id());
    }
}

impl Handler for RecordsThreads {
    fn on_added(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note();
        Ok(())
    }

    fn on_active(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note();
        Ok(())
    }

    fn on_read(&mut self, _: &Ctx<'_>, _: Msg) -> HandlerResult {
        self.note();
        Ok(())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        self.note();
        ctx.write_with(msg, done.take());
        Ok(())
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note();
        Ok(())
    }
}

impl Drop for RecordsThreads {
    fn drop(&mut self) {
        self.note();
    }
}

#[test]
fn c01_the_events_of_a_channel_run_on_the_thread_of_its_loop() {
    let group = threaded_group(2);
    let (one, other) = transport::pair();
    let notes = [one, other].map(|new| {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let handler = notes.clone();
        let channel = group.register(with_handler(new, || RecordsThreads(handler))).join().unwrap();
        let id = channel.event_loop().submit(|| thread::current().id()).unwrap().join().unwrap();
        (channel, id, notes)
    });
    assert_ne!(notes[0].1, notes[1].1);
    let [(a, ..), (b, ..)] = &notes;
    thread::scope(|scope| {
        for channel in [a, b] {
            scope.spawn(|| channel.write_and_flush(1_u8).join().unwrap());
        }
    });
    b.close().join().unwrap();
    a.closed().wait_timeout(PATIENCE).unwrap();
    shut_down(&group);
    for (_, id, notes) in &notes {
        let notes = notes.lock().unwrap();
        assert!(notes.len() >= 5, "{notes:?}");
        assert!(notes.iter().all(|noted| noted == id), "{notes:?} on {id:?}");
    }
}

/// Writes numbers while the channel is writable and checks the order of the numbers it reads.
struct FloodWriter {
    next: u64,
    last: u64,
    expected: u64,
    done: mpsc::Sender<u64>,
}

impl FloodWriter {
    fn write_while_writable(&mut self, ctx: &Ctx<'_>) {
        while ctx.is_writable() && self.next < self.last {
            ctx.write(self.next);
            self.next += 1;
        }
        ctx.flush();
    }
}

impl Handler for FloodWriter {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.write_while_writable(ctx);
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.write_while_writable(ctx);
        Ok(())
    }

    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let n = msg.take::<u64>().expect("the message is a number");
        assert_eq!(n, self.expected, "in order, none lost, none doubled");
        self.expected += 1;
        if self.expected == self.last {
            let _ = self.done.send(n);
        }
        Ok(())
    }
}

#[test]
fn c13_two_threads_that_flood_each_other_lose_and_reorder_nothing() {
    const MESSAGES: u64 = 100_000;
    let group = threaded_group(2);
    let (done, finished) = mpsc::channel();
    let mut ends = Vec::new();
    for _ in 0..2 {
        let (one, other) = transport::pair();
        for new in [one, other] {
            let done = done.clone();
            let flood = || FloodWriter { next: 0, last: MESSAGES, expected: 0, done };
            ends.push(group.register(with_handler(new, flood)).join().unwrap());
        }
    }
    for _ in &ends {
        assert_eq!(finished.recv_timeout(PATIENCE), Ok(MESSAGES - 1));
    }
    assert!(ends.iter().all(Channel::is_active));
    shut_down(&group);
}

/// Checks the order of the numbered messages of each of two writers.
struct PerWriter {
    expected: [u64; 2],
    left: u64,
    done: mpsc::Sender<()>,
}

impl Handler for PerWriter {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let n = msg.take::<u64>().expect("the message is a number");
        let (writer, n) = ((n >> 32) as usize, n & u64::from(u32::MAX));
        assert_eq!(n, self.expected[writer], "in order");
        self.expected[writer] += 1;
        self.left -= 1;
        if self.left == 0 {
            let _ = self.done.send(());
        }
        Ok(())
    }
}

#[test]
fn c13_two_threads_that_write_to_one_channel_keep_their_order() {
    const MESSAGES: u64 = 50_000;
    let group = threaded_group(2);
    let (one, other) = transport::pair();
    let (done, finished) = mpsc::channel();
    let a = group.register(one).join().unwrap();
    let reader = || PerWriter { expected: [0; 2], left: 2 * MESSAGES, done };
    let _b = group.register(with_handler(other, reader)).join().unwrap();
    thread::scope(|scope| {
        for writer in 0..2_u64 {
            let a = &a;
            scope.spawn(move || {
                for n in 0..MESSAGES {
                    a.send(writer << 32 | n);
                }
            });
        }
    });
    finished.recv_timeout(PATIENCE).unwrap();
    shut_down(&group);
}

/// Registers each accepted channel with the next loop of the group, with an echo handler.
struct RegistersAccepted {
    group: EventLoopGroup,
}

impl Handler for RegistersAccepted {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let accepted = msg.take::<NewChannel>().expect("the message is a channel");
        drop(self.group.register(with_handler(accepted, || Echo)));
        Ok(())
    }
}

struct Echo;

impl Handler for Echo {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write_and_flush(msg);
        Ok(())
    }
}

/// Reports each number it reads, and `None` when the channel becomes inactive.
struct ReportsReads(mpsc::Sender<Option<u64>>);

impl Handler for ReportsReads {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let _ = self.0.send(msg.take::<u64>().ok());
        Ok(())
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        let _ = self.0.send(None);
        Ok(())
    }
}

#[test]
fn c13_clients_of_several_threads_connect_and_disconnect() {
    const CLIENTS: u64 = 500;
    let group = threaded_group(2);
    let name = fresh_name("busy");
    let accept = RegistersAccepted { group: group.clone() };
    let server = with_handler(transport::listen(name.as_str()).unwrap(), || accept);
    let server = group.register(server).join().unwrap();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for n in 0..CLIENTS {
                    let (tell, told) = mpsc::channel();
                    let client =
                        with_handler(NewChannel::new(Connection::new()), || ReportsReads(tell));
                    let client = group.register(client).join().unwrap();
                    client.connect(Address::local(name.as_str())).join().unwrap();
                    client.write_and_flush(n).join().unwrap();
                    assert_eq!(told.recv_timeout(PATIENCE), Ok(Some(n)));
                    client.close().join().unwrap();
                    assert_eq!(told.recv_timeout(PATIENCE), Ok(None));
                }
            });
        }
    });
    server.close().join().unwrap();
    // Every accepted channel has seen the end of its client.
    let registered = |child: EventLoop| child.registered_channels().join().unwrap().len();
    while group.children().map(registered).sum::<usize>() > 0 {}
    shut_down(&group);
}

#[test]
fn l10_a_shutdown_in_the_middle_of_traffic_ends() {
    for _ in 0..20 {
        let group = threaded_group(2);
        let (done, finished) = mpsc::channel();
        let mut ends = Vec::new();
        for _ in 0..4 {
            let (one, other) = transport::pair();
            for new in [one, other] {
                let done = done.clone();
                let flood = || FloodWriter { next: 0, last: u64::MAX, expected: 0, done };
                ends.push(group.register(with_handler(new, flood)).join().unwrap());
            }
        }
        shut_down(&group);
        assert!(ends.iter().all(|channel| channel.closed().is_done() && !channel.is_open()));
        drop((done, finished));
    }
}
