//! Pooled executors: their turns run on a shared pool, and they hold no thread in between (L12).

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use waterwheel_executor::{
    ErrorKind, EventExecutor, LoopBody, LoopLocal, RejectReason, ThreadSupplier,
};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A fixed number of threads that take loop bodies from one queue.
struct JobPool {
    jobs: mpsc::Sender<LoopBody>,
    taken: Arc<AtomicUsize>,
}

impl JobPool {
    fn new(threads: usize) -> Arc<Self> {
        let (jobs, queue) = mpsc::channel::<LoopBody>();
        let (queue, taken) = (Arc::new(Mutex::new(queue)), Arc::new(AtomicUsize::new(0)));
        for _ in 0..threads {
            let (queue, taken) = (queue.clone(), taken.clone());
            thread::spawn(move || {
                loop {
                    let job = queue.lock().unwrap().recv();
                    let Ok(job) = job else { return };
                    taken.fetch_add(1, Ordering::Relaxed);
                    job.run();
                }
            });
        }
        Arc::new(Self { jobs, taken })
    }
}

impl ThreadSupplier for JobPool {
    fn start(&self, body: LoopBody) -> io::Result<Option<JoinHandle<()>>> {
        self.jobs.send(body).map_err(|_| io::Error::other("the pool is closed"))?;
        Ok(None)
    }
}

fn pooled(pool: &Arc<JobPool>) -> EventExecutor {
    EventExecutor::builder().thread_supplier(pool.clone()).build_pooled().unwrap()
}

#[test]
fn l12_a_hundred_executors_share_one_thread() {
    let pool = JobPool::new(1);
    let executors: Vec<_> = (0..100).map(|_| pooled(&pool)).collect();
    for round in 0..10 {
        let sums = executors.iter().map(|executor| executor.submit(move || round).unwrap());
        let sums: Vec<_> = sums.collect();
        for sum in sums {
            assert_eq!(sum.join().unwrap(), round);
        }
    }
    for executor in executors {
        let _ended = executor.shutdown();
        executor.await_termination(TIMEOUT).unwrap();
    }
}

#[test]
fn l12_turns_of_one_executor_never_overlap_and_keep_the_order() {
    const TASKS: u64 = 20_000;
    let pool = JobPool::new(4);
    let executor = pooled(&pool);
    let (inside, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    for at in 0..TASKS {
        let (inside, next) = (inside.clone(), next.clone());
        let task = move || {
            assert!(!inside.swap(true, Ordering::AcqRel), "two turns at once");
            assert_eq!(next.fetch_add(1, Ordering::Relaxed), at, "out of order");
            inside.store(false, Ordering::Release);
        };
        executor.execute(task).unwrap();
    }
    executor.submit(|| ()).unwrap().join().unwrap();
    assert_eq!(next.load(Ordering::Relaxed), TASKS);
}

#[test]
fn l12_every_task_runs_however_many_submit() {
    const PRODUCERS: u64 = 4;
    const TASKS: u64 = 50_000;
    let pool = JobPool::new(2);
    let executor = pooled(&pool);
    let ran = Arc::new(AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..PRODUCERS {
            scope.spawn(|| {
                for _ in 0..TASKS {
                    let ran = ran.clone();
                    let count = move || {
                        ran.fetch_add(1, Ordering::Relaxed);
                    };
                    executor.execute(count).unwrap();
                }
            });
        }
    });
    let _ended = executor.shutdown();
    executor.await_termination(TIMEOUT).unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), PRODUCERS * TASKS);
    let stats = executor.stats();
    assert!(stats.wake_ups <= stats.sleeps, "{stats:?}");
}

#[test]
fn l12_a_task_that_submits_itself_leaves_the_thread_to_others() {
    let pool = JobPool::new(1);
    let (greedy, modest) = (pooled(&pool), pooled(&pool));
    let stop = Arc::new(AtomicBool::new(false));
    fn resubmit(executor: EventExecutor, stop: Arc<AtomicBool>) {
        if !stop.load(Ordering::Acquire) {
            let next = executor.clone();
            executor.execute(move || resubmit(next, stop)).unwrap();
        }
    }
    resubmit(greedy.clone(), stop.clone());
    for n in 0..100 {
        assert_eq!(modest.submit(move || n).unwrap().join().unwrap(), n);
    }
    stop.store(true, Ordering::Release);
}

#[test]
fn l12_timers_fire_although_no_thread_waits_for_them() {
    let pool = JobPool::new(1);
    let executor = pooled(&pool);
    let far = executor.schedule(Duration::from_secs(3600), || ()).unwrap();
    let soon = executor.schedule(Duration::from_millis(5), || "rang").unwrap();
    assert_eq!(soon.join().unwrap(), "rang");
    assert!(far.cancel());
    let ticks = Arc::new(AtomicU64::new(0));
    let (tick, ticked) = (ticks.clone(), mpsc::channel());
    let every = Duration::from_millis(1);
    let ticking = executor.schedule_at_fixed_rate(every, every, move || {
        if tick.fetch_add(1, Ordering::Relaxed) == 4 {
            ticked.0.send(()).unwrap();
        }
    });
    ticked.1.recv_timeout(TIMEOUT).unwrap();
    assert!(ticking.unwrap().cancel());
}

#[test]
fn l12_an_idle_executor_takes_no_turn() {
    let pool = JobPool::new(1);
    let executor = pooled(&pool);
    executor.submit(|| ()).unwrap().join().unwrap();
    let other = pooled(&pool);
    other.submit(|| ()).unwrap().join().unwrap(); // The pool has run all turns queued before.
    let (taken, turns) = (pool.taken.load(Ordering::Relaxed), executor.stats().turns);
    for _ in 0..100 {
        other.submit(|| ()).unwrap().join().unwrap();
    }
    assert!(pool.taken.load(Ordering::Relaxed) > taken, "the other one was busy");
    assert!(executor.stats().turns <= turns + 1, "it was at rest");
}

#[test]
fn l12_a_graceful_shutdown_keeps_its_quiet_period() {
    let pool = JobPool::new(1);
    let executor = pooled(&pool);
    executor.execute(|| ()).unwrap();
    let hook = mpsc::channel();
    executor.add_shutdown_hook(move || hook.0.send(()).unwrap()).unwrap();
    let ended = executor.shutdown_gracefully(Duration::from_millis(20), TIMEOUT).unwrap();
    assert_eq!(executor.submit(|| "still accepted").unwrap().join().unwrap(), "still accepted");
    ended.wait_timeout(TIMEOUT).unwrap();
    hook.1.recv_timeout(TIMEOUT).unwrap();
    assert!(executor.execute(|| ()).is_err());
}

#[test]
fn l12_dropping_the_last_handle_ends_a_pooled_executor() {
    let pool = JobPool::new(1);
    let executor = pooled(&pool);
    executor.submit(|| ()).unwrap().join().unwrap();
    let ended = executor.termination();
    drop(executor);
    ended.wait_timeout(TIMEOUT).unwrap();
}

#[test]
fn l12_a_task_that_panics_does_not_end_a_pooled_executor() {
    let pool = JobPool::new(1);
    let executor = pooled(&pool);
    let panicked = executor.submit(|| panic!("on purpose")).unwrap().join();
    assert!(matches!(panicked.unwrap_err().kind(), ErrorKind::Panicked { .. }));
    assert_eq!(executor.submit(|| 1).unwrap().join().unwrap(), 1);
}

#[test]
fn l12_loop_locals_need_a_thread() {
    static LOCAL: LoopLocal<u8> = LoopLocal::new(|| 7);
    let executor = pooled(&JobPool::new(1));
    let found = executor.submit(|| LOCAL.with(|value| *value)).unwrap();
    assert_eq!(found.join().unwrap(), None);
}

/// A thread supplier that runs the first turn, keeps the second and refuses the rest.
struct KeepsSecondTurn(AtomicUsize, Mutex<Vec<LoopBody>>);

impl ThreadSupplier for KeepsSecondTurn {
    fn start(&self, body: LoopBody) -> io::Result<Option<JoinHandle<()>>> {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => {
                thread::spawn(move || body.run());
                Ok(None)
            }
            1 => {
                self.1.lock().unwrap().push(body); // The test drops it.
                Ok(None)
            }
            _ => Err(io::Error::other("no thread left")),
        }
    }
}

#[test]
fn l12_a_turn_without_a_thread_ends_the_executor_and_fails_its_futures() {
    let supplier = Arc::new(KeepsSecondTurn(AtomicUsize::new(0), Mutex::new(Vec::new())));
    let builder = EventExecutor::builder().thread_supplier(supplier.clone());
    let executor = builder.build_pooled().unwrap();
    executor.submit(|| ()).unwrap().join().unwrap();
    // The second turn is never run, whether this task asked for it or an earlier one.
    let lost = loop {
        let next = executor.submit(|| ()).unwrap();
        while !next.is_done() && supplier.1.lock().unwrap().is_empty() {
            thread::yield_now();
        }
        if !next.is_done() {
            break next;
        }
    };
    supplier.1.lock().unwrap().clear();
    assert!(lost.join().is_err());
    let ended = executor.termination().join().unwrap_err();
    assert!(matches!(ended.kind(), ErrorKind::LoopDied { .. }), "{ended}");
    let rejected = executor.execute(|| ()).unwrap_err();
    assert!(matches!(rejected.reason(), RejectReason::ShutDown));
}

/// A thread supplier that runs every turn but the first in place, on the calling thread.
struct RunsInPlace(Arc<JobPool>, AtomicUsize);

impl ThreadSupplier for RunsInPlace {
    fn start(&self, body: LoopBody) -> io::Result<Option<JoinHandle<()>>> {
        if self.1.fetch_add(1, Ordering::Relaxed) == 0 {
            return self.0.start(body);
        }
        body.run();
        Ok(None)
    }
}

#[test]
fn l12_a_turn_run_inside_submit_ends_the_executor_and_runs_no_task() {
    let supplier = Arc::new(RunsInPlace(JobPool::new(1), AtomicUsize::new(0)));
    let executor = EventExecutor::builder().thread_supplier(supplier).build_pooled().unwrap();
    let here = thread::current().id();
    // The first turn has a thread. It may end before the first task is queued.
    while let Ok(Ok(in_place)) =
        executor.submit(move || thread::current().id() == here).map(|task| task.join())
    {
        assert!(!in_place, "run in the middle of `submit`");
    }
    let died = executor.termination().join().unwrap_err();
    assert!(died.to_string().contains("on the calling thread"), "{died}");
}
