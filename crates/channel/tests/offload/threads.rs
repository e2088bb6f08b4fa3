//! Offloaded handlers on real threads: where they run, and races that must lose or reorder nothing.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread::{self, ThreadId};
use std::time::Duration;

use waterwheel_channel::driver::TaskOnly;
use waterwheel_channel::{
    Channel, Edit, EventLoop, EventLoopGroup, HandlerResult, Msg, NewChannel, Offloaded,
    RemoteCompletion, RemoteCtx, RemoteHandler,
};
use waterwheel_executor::{Clock, Error, EventExecutorGroup};

use crate::support::number;
use crate::wire_transport::Wire;

/// A real-time limit: a test that hangs fails instead.
const PATIENCE: Duration = Duration::from_secs(60);

fn loops(threads: usize) -> EventLoopGroup {
    EventLoopGroup::builder(TaskOnly).threads(threads).name("io").build().unwrap()
}

fn workers(threads: usize) -> EventExecutorGroup {
    EventExecutorGroup::builder().threads(threads).name("worker").build().unwrap()
}

fn register_channel(
    event_loop: &EventLoop,
    make: impl FnOnce(&mut Edit<'_>) -> Result<(), Error> + Send + 'static,
) -> (Channel, Wire, Receiver<u32>) {
    let (wire, (sender, out)) = (Wire::default(), channel());
    let new = NewChannel::new(wire.transport(sender)).initialiser(make);
    (event_loop.register(new).join().unwrap(), wire, out)
}

fn shut_down(loops: &EventLoopGroup, workers: &EventExecutorGroup) {
    loops.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap().wait_timeout(PATIENCE).unwrap();
    workers.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap().wait_timeout(PATIENCE).unwrap();
}

/// Reports the threads on which it was built, called and dropped.
struct ReportsThread(Sender<ThreadId>);

impl ReportsThread {
    fn at(group: &EventExecutorGroup, ids: &Sender<ThreadId>) -> Offloaded<Self> {
        let ids = ids.clone();
        Offloaded::new(group, move || {
            ids.send(thread::current().id()).unwrap();
            ReportsThread(ids)
        })
    }

    fn report_thread(&self) {
        self.0.send(thread::current().id()).unwrap();
    }
}

impl RemoteHandler for ReportsThread {
    fn on_read(&mut self, ctx: &RemoteCtx, msg: Msg) -> HandlerResult {
        self.report_thread();
        ctx.fire_read(msg);
        Ok(())
    }

    fn flush(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        self.report_thread();
        ctx.flush();
        Ok(())
    }

    fn on_removed(&mut self, _: &RemoteCtx) {
        self.report_thread();
    }
}

impl Drop for ReportsThread {
    fn drop(&mut self) {
        self.report_thread();
    }
}

#[test]
fn c03_all_offloaded_handlers_of_a_channel_run_on_one_thread_of_the_group() {
    let (loops, workers) = (loops(2), workers(4));
    let mut used = HashSet::new();
    for _ in 0..8 {
        let (ids, said) = channel();
        let (group, one) = (workers.clone(), ids.clone());
        let (opened, wire, out) = register_channel(&loops.next(), move |edit| {
            edit.add_last("one", ReportsThread::at(&group, &one))?;
            edit.add_last("two", ReportsThread::at(&group, &one))?;
            Ok(())
        });
        let third = ReportsThread::at(&workers, &ids);
        drop(ids);
        opened
            .with_pipeline(move |pipeline| pipeline.add_last("three", third))
            .join()
            .unwrap()
            .unwrap();
        wire.send(1u32);
        opened.write_and_flush(2u32).join().unwrap();
        assert_eq!(out.recv_timeout(PATIENCE).unwrap(), 2);
        opened.close().join().unwrap();
        let said: HashSet<_> = said.iter().collect();
        assert_eq!(said.len(), 1, "built, called, removed and dropped on one thread");
        used.extend(said);
    }
    assert_eq!(used.len(), 4, "different channels, all threads");
    let io: Vec<_> =
        loops.children().map(|child| child.submit(|| thread::current().id())).collect();
    for id in io {
        assert!(
            !used.contains(&id.unwrap().join().unwrap()),
            "no offloaded handler runs on a loop thread"
        );
    }
    shut_down(&loops, &workers);
}

/// Answers each number with the same number.
struct Echo;

impl RemoteHandler for Echo {
    fn on_read(&mut self, ctx: &RemoteCtx, msg: Msg) -> HandlerResult {
        ctx.write(msg);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        ctx.flush();
        ctx.fire_read_complete();
        Ok(())
    }
}

/// A remote handler with default methods: passes everything on.
struct PassThrough;

impl RemoteHandler for PassThrough {}

const MESSAGES: u32 = 20_000;

#[test]
fn c03_order_holds_in_both_directions_under_load_from_several_threads() {
    let (loops, workers) = (loops(2), workers(2));
    let ends: Vec<_> = loops
        .children()
        .map(|event_loop| {
            let group = workers.clone();
            register_channel(&event_loop, move |edit| {
                edit.add_last("silent", Offloaded::new(&group, || PassThrough))?;
                edit.add_last("echo", Offloaded::new(&group, || Echo))?;
                Ok(())
            })
        })
        .collect();
    thread::scope(|scope| {
        for (opened, wire, out) in ends {
            let writer = opened.clone();
            scope.spawn(move || (0..MESSAGES).for_each(|n| wire.send(n)));
            scope.spawn(move || {
                for n in 0..MESSAGES {
                    writer.send(MESSAGES + n);
                }
            });
            scope.spawn(move || {
                let (mut echoed, mut written) = (0, MESSAGES);
                while (echoed, written) != (MESSAGES, 2 * MESSAGES) {
                    let n = out.recv_timeout(PATIENCE).unwrap();
                    let expected = if n < MESSAGES { &mut echoed } else { &mut written };
                    assert_eq!(n, *expected);
                    *expected += 1;
                }
                opened.close().join().unwrap();
            });
        }
    });
    shut_down(&loops, &workers);
}

#[test]
fn c03_offloaded_handlers_may_be_added_and_removed_while_data_flows() {
    let (loops, workers) = (loops(1), workers(2));
    let group = workers.clone();
    let (opened, wire, out) = register_channel(&loops.next(), move |edit| {
        edit.add_last("changing", Offloaded::new(&group, || PassThrough))?;
        edit.add_last("echo", Offloaded::new(&group, || Echo))?;
        Ok(())
    });
    let changed = opened.clone();
    thread::scope(|scope| {
        scope.spawn(move || (0..MESSAGES).for_each(|n| wire.send(n)));
        let group = workers.clone();
        scope.spawn(move || {
            for _ in 0..200 {
                let new = Offloaded::new(&group, || PassThrough);
                let replaced = changed.with_pipeline(move |pipeline| {
                    pipeline.replace("changing", "changing", new).map(drop)
                });
                replaced.join().unwrap().unwrap();
            }
        });
        for n in 0..MESSAGES {
            assert_eq!(out.recv_timeout(PATIENCE).unwrap(), n);
        }
    });
    opened.close().join().unwrap();
    assert_eq!(opened.pending_bytes(), 0);
    shut_down(&loops, &workers);
}

#[test]
fn c03_a_loop_that_shuts_down_under_load_leaves_no_write_open() {
    for round in 0..20 {
        let (loops, workers) = (loops(1), workers(1));
        let (removed, gone) = channel();
        struct ReportsRemoval(Sender<()>);
        impl RemoteHandler for ReportsRemoval {
            fn on_removed(&mut self, _: &RemoteCtx) {
                self.0.send(()).unwrap();
            }
        }
        let group = workers.clone();
        let (opened, wire, _out) = register_channel(&loops.next(), move |edit| {
            edit.add_last("tells", Offloaded::new(&group, || ReportsRemoval(removed)))?;
            Ok(())
        });
        let start = Arc::new(Barrier::new(2));
        let (writer, ready) = (opened.clone(), start.clone());
        let writing = thread::spawn(move || {
            ready.wait();
            let writes: Vec<_> = (0..200u32).map(|n| writer.write_and_flush(n)).collect();
            (0..200u32).for_each(|n| wire.send(n));
            writes
        });
        start.wait();
        if round % 2 == 0 {
            loops
                .shutdown_gracefully(Duration::ZERO, PATIENCE)
                .unwrap()
                .wait_timeout(PATIENCE)
                .unwrap();
        } else {
            loops.shutdown().wait_timeout(PATIENCE).unwrap();
        }
        for written in writing.join().unwrap() {
            let ended = written.wait_timeout(PATIENCE);
            assert!(ended.is_ok(), "each write is told what became of it");
        }
        gone.recv_timeout(PATIENCE).unwrap();
        opened.closed().wait_timeout(PATIENCE).unwrap();
        shut_down(&loops, &workers);
    }
}

#[test]
fn c03_an_executor_group_that_shuts_down_under_load_closes_the_channel() {
    for _ in 0..20 {
        let (loops, workers) = (loops(1), workers(1));
        let group = workers.clone();
        let (opened, wire, _out) = register_channel(&loops.next(), move |edit| {
            edit.add_last("silent", Offloaded::new(&group, || PassThrough))?;
            Ok(())
        });
        let writer = opened.clone();
        let writing = thread::spawn(move || {
            let writes: Vec<_> = (0..200u32).map(|n| writer.write_and_flush(n)).collect();
            (0..200u32).for_each(|n| wire.send(n));
            writes
        });
        workers.shutdown().wait_timeout(PATIENCE).unwrap();
        let writes = writing.join().unwrap();
        // If all messages passed before the shutdown, this write finds the executor gone.
        drop(opened.write_and_flush(0u32));
        opened.closed().wait_timeout(PATIENCE).unwrap();
        for written in writes {
            assert!(written.wait_timeout(PATIENCE).is_ok());
        }
        shut_down(&loops, &workers);
    }
}

#[test]
fn c03_a_writer_that_waits_for_room_is_notified() {
    struct DiscardsWrites;
    impl RemoteHandler for DiscardsWrites {
        fn write(&mut self, _: &RemoteCtx, _: Msg, done: &mut RemoteCompletion) -> HandlerResult {
            done.take().succeed();
            Ok(())
        }

        /// Emits nothing: no emission makes the loop check the writability.
        fn flush(&mut self, _: &RemoteCtx) -> HandlerResult {
            Ok(())
        }
    }
    let (loops, workers) = (loops(1), workers(1));
    let group = workers.clone();
    let (opened, _wire, _out) = register_channel(&loops.next(), move |edit| {
        edit.add_last("swallows", Offloaded::new(&group, || DiscardsWrites))?;
        Ok(())
    });
    let began = Clock::Monotonic.now();
    let wait_for_room = || {
        while !opened.is_writable() {
            assert!(
                Clock::Monotonic.now().since(began) < PATIENCE,
                "nobody has looked since it became lighter"
            );
            thread::yield_now();
        }
    };
    // Every write that makes the channel unwritable is one more chance to miss the change back.
    for n in 0..MESSAGES {
        wait_for_room();
        opened.send(n);
    }
    wait_for_room();
    shut_down(&loops, &workers);
    assert_eq!(opened.pending_bytes(), 0);
}

#[test]
fn c03_a_slow_handler_bounds_the_reads_ahead_of_it() {
    struct CountsAndWaits {
        waiting: Arc<Barrier>,
        first: bool,
    }
    impl RemoteHandler for CountsAndWaits {
        fn on_read(&mut self, ctx: &RemoteCtx, msg: Msg) -> HandlerResult {
            if std::mem::take(&mut self.first) {
                self.waiting.wait(); // The test checks the unread messages now.
                self.waiting.wait();
            }
            if number(&msg) == MESSAGES - 1 {
                ctx.write_and_flush(msg);
            }
            Ok(())
        }
    }
    let (loops, workers) = (loops(1), workers(1));
    let waiting = Arc::new(Barrier::new(2));
    let (group, shared) = (workers.clone(), waiting.clone());
    let (opened, wire, out) = register_channel(&loops.next(), move |edit| {
        let build = move || CountsAndWaits { waiting: shared, first: true };
        edit.add_last("counts", Offloaded::new(&group, build))?;
        Ok(())
    });
    (0..MESSAGES).for_each(|n| wire.send(n));
    waiting.wait();
    // The loop has run a task: it had the chance to read on.
    for _ in 0..100 {
        opened.event_loop().submit(|| ()).unwrap().join().unwrap();
    }
    let unread = wire.unread();
    assert!(unread >= MESSAGES as usize - 32, "{unread} of {MESSAGES} are unread");
    waiting.wait();
    assert_eq!(out.recv_timeout(PATIENCE).unwrap(), MESSAGES - 1);
    shut_down(&loops, &workers);
}
