//! E04, E05: how a loop gets its thread.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};

use waterwheel_executor::{
    ErrorKind, EventExecutor, ExecutorState, Fault, LoopBody, RejectReason, ThreadFactory,
    ThreadSupplier,
};

use crate::support::{
    Counter, FaultLog, FnSupplier, ScriptedSupplier, SupplierAnswer, TIMEOUT, lock, panic_quietly,
    shut_down, spawn, with_timeout,
};

fn supplied_by(supplier: Arc<dyn ThreadSupplier>) -> EventExecutor {
    let builder = EventExecutor::builder().name("supplied");
    builder.thread_supplier(supplier).build().unwrap()
}

#[test]
fn e04_the_thread_starts_with_the_first_submission_and_once() {
    let supplier = ScriptedSupplier::new([]);
    let executor = supplied_by(supplier.clone());
    let (_promise, _future) = executor.new_promise::<()>();
    drop(executor.succeeded(7));
    assert_eq!((supplier.calls(), executor.state()), (0, ExecutorState::NotStarted));
    executor.execute(|| ()).unwrap();
    assert_eq!((supplier.calls(), executor.state()), (1, ExecutorState::Started));
    for _ in 0..100 {
        executor.execute(|| ()).unwrap();
    }
    executor.submit(|| ()).unwrap().join().unwrap();
    assert_eq!(supplier.calls(), 1);
}

#[test]
fn e04_every_kind_of_submission_starts_the_thread() {
    type Submit = fn(&EventExecutor) -> bool;
    let kinds: [Submit; 5] = [
        |executor| executor.execute(|| ()).is_ok(),
        |executor| executor.lazy_execute(|| ()).is_ok(),
        |executor| executor.submit(|| ()).is_ok(),
        |executor| executor.labelled("first").execute(|| ()).is_ok(),
        |executor| executor.add_shutdown_hook(|| ()).is_ok(),
    ];
    for (n, submit) in kinds.iter().enumerate() {
        let supplier = ScriptedSupplier::new([]);
        let executor = supplied_by(supplier.clone());
        assert!(submit(&executor), "kind {n}");
        assert_eq!(supplier.calls(), 1, "kind {n}");
    }
}

#[test]
fn e04_threads_that_submit_first_at_once_start_one_thread() {
    for _ in 0..50 {
        let supplier = ScriptedSupplier::new([]);
        let executor = supplied_by(supplier.clone());
        let ran = Counter::new();
        let together = Arc::new(Barrier::new(4));
        let submitters: Vec<_> = (0..4)
            .map(|_| {
                let (executor, ran, together) = (executor.clone(), ran.clone(), together.clone());
                std::thread::spawn(move || {
                    together.wait();
                    executor.execute(ran.task()).unwrap();
                })
            })
            .collect();
        submitters.into_iter().for_each(|s| s.join().unwrap());
        shut_down(&executor);
        assert_eq!((supplier.calls(), ran.ran()), (1, 4));
    }
}

#[test]
fn e04_started_is_published_after_the_supplier_accepted_and_tasks_are_queued_after_that() {
    let seen = Arc::new(Mutex::new(None));
    let executor_cell = Arc::new(Mutex::new(None::<EventExecutor>));
    let (cell, inside) = (executor_cell.clone(), seen.clone());
    let executor = supplied_by(Arc::new(FnSupplier(move |body: LoopBody| {
        let executor = lock(&cell).take().unwrap();
        *lock(&inside) = Some((executor.state(), executor.stats().queue_depth));
        spawn(body).map(Some)
    })));
    *lock(&executor_cell) = Some(executor.clone());
    let in_task = executor.clone();
    let state = executor.submit(move || in_task.state()).unwrap();
    assert_eq!(*lock(&seen), Some((ExecutorState::NotStarted, 0)));
    assert_eq!(state.join().unwrap(), ExecutorState::Started);
}

#[test]
fn e04_a_loop_that_runs_early_waits_until_started_is_published() {
    // The thread has the loop long before the supplier returns; its tasks see Started nevertheless.
    for _ in 0..50 {
        let executor = supplied_by(Arc::new(FnSupplier(|body: LoopBody| {
            let handle = spawn(body)?;
            (0..10).for_each(|_| std::thread::yield_now());
            Ok(Some(handle))
        })));
        let in_task = executor.clone();
        let state = executor.submit(move || in_task.state()).unwrap();
        assert_eq!(state.join().unwrap(), ExecutorState::Started);
    }
}

#[test]
fn e04_a_failed_start_returns_the_cause_and_the_task_and_may_be_retried() {
    let failures = [
        (SupplierAnswer::Refuse, "no thread for you"),
        (SupplierAnswer::Panic, "the supplier is broken"),
        (SupplierAnswer::Drop, "neither ran nor refused"),
    ];
    for (answer, cause) in failures {
        let supplier = ScriptedSupplier::new([answer, answer]);
        let executor = supplied_by(supplier.clone());
        for _ in 0..2 {
            let rejected = executor.submit(|| 7).unwrap_err();
            let told = rejected.to_string();
            assert!(told.contains(cause), "{answer:?}: {told}");
            assert!(matches!(rejected.reason(), RejectReason::NotStarted(_)));
            assert_eq!(rejected.into_task()(), 7, "{answer:?}");
            assert_eq!(executor.state(), ExecutorState::NotStarted, "{answer:?}");
        }
        assert_eq!(executor.submit(|| 8).unwrap().join().unwrap(), 8);
        assert_eq!(supplier.calls(), 3, "{answer:?}");
        shut_down(&executor);
    }
}

#[test]
fn e04_a_failed_start_orphans_no_other_callers_task() {
    // The first caller is inside the supplier, the second waits behind it; then the first fails.
    let (inside, is_inside) = mpsc::channel();
    let (fail, failed) = mpsc::channel::<()>();
    let failed = Mutex::new(failed);
    let calls = AtomicUsize::new(0);
    let executor = supplied_by(Arc::new(FnSupplier(move |body: LoopBody| {
        if calls.fetch_add(1, Ordering::SeqCst) > 0 {
            return spawn(body).map(Some);
        }
        inside.send(()).unwrap();
        let _ = lock(&failed).recv();
        panic_quietly("too late")
    })));
    let submit = |executor: &EventExecutor| {
        let executor = executor.clone();
        std::thread::spawn(move || executor.submit(|| 7).map_err(|_| ()))
    };
    let first = submit(&executor);
    is_inside.recv_timeout(TIMEOUT).unwrap();
    let second = submit(&executor);
    drop(fail);
    assert!(first.join().unwrap().is_err());
    assert_eq!(second.join().unwrap().unwrap().join().unwrap(), 7);
}

#[test]
fn e04_a_loop_dropped_after_its_start_fails_the_accepted_tasks() {
    let (supplier, faults) = (ScriptedSupplier::new([SupplierAnswer::Keep]), FaultLog::new());
    let builder = EventExecutor::builder().thread_supplier(supplier.clone());
    let executor = builder.reporter(faults.clone()).build().unwrap();
    let handle = executor.submit(|| 7).unwrap();
    executor.execute(|| ()).unwrap();
    assert_eq!(executor.state(), ExecutorState::Started);
    drop(supplier.take_kept());
    assert!(handle.join().is_err());
    assert_eq!(executor.state(), ExecutorState::Terminated);
    let cause = executor.termination().join().unwrap_err();
    assert!(matches!(cause.kind(), ErrorKind::LoopDied { .. }), "{cause}");
    assert!(executor.execute(|| ()).is_err());
    let faults = faults.take();
    assert!(matches!(&faults[..], [Fault::TasksLeft { count: 2, .. }]), "{faults:?}");
}

#[test]
fn e04_a_supplier_cannot_run_the_loop_in_place() {
    with_timeout(|| {
        let in_place = FnSupplier(|body: LoopBody| {
            body.run();
            Ok(None)
        });
        let executor = supplied_by(Arc::new(in_place));
        let rejected = executor.execute(|| ()).unwrap_err();
        assert!(matches!(rejected.reason(), RejectReason::NotStarted(_)));
        assert_eq!(executor.state(), ExecutorState::NotStarted);
    });
}

#[test]
fn e04_a_supplier_that_shuts_the_executor_down_loses_nothing() {
    with_timeout(|| {
        let cell = Arc::new(Mutex::new(None::<EventExecutor>));
        let inside = cell.clone();
        let executor = supplied_by(Arc::new(FnSupplier(move |body: LoopBody| {
            let executor = lock(&inside).take().unwrap();
            drop(executor.shutdown_gracefully(std::time::Duration::ZERO, TIMEOUT));
            spawn(body).map(Some)
        })));
        *lock(&cell) = Some(executor.clone());
        let outcome = executor.submit(|| 7);
        let value = match outcome {
            Ok(accepted) => accepted.join().unwrap(),
            Err(handed_back) => handed_back.into_task()(),
        };
        assert_eq!(value, 7);
        executor.await_termination(TIMEOUT).unwrap();
    });
}

fn name_of(executor: &EventExecutor) -> String {
    let name = || std::thread::current().name().unwrap().to_owned();
    executor.submit(name).unwrap().join().unwrap()
}

#[test]
fn e05_the_default_is_a_new_thread_with_the_executors_name() {
    let executor = EventExecutor::builder().name("gateway").build().unwrap();
    let name = name_of(&executor);
    let (pool, n) = name.strip_prefix("gateway-").unwrap().split_once('-').unwrap();
    assert!(pool.parse::<usize>().unwrap() > 0);
    assert_eq!(n, "1");
}

#[test]
fn e05_thread_names_number_the_factory_and_its_threads() {
    let one = Arc::new(ThreadFactory::new("mill"));
    let other = Arc::new(ThreadFactory::new("mill"));
    let names: Vec<_> = [&one, &one, &other]
        .map(|factory| name_of(&supplied_by(factory.clone())))
        .into_iter()
        .collect();
    let pool = |name: &str| name.rsplit_once('-').unwrap().0.to_owned();
    assert_eq!(pool(&names[0]), pool(&names[1]));
    assert_ne!(pool(&names[0]), pool(&names[2]));
    assert!(names[0].ends_with("-1") && names[1].ends_with("-2") && names[2].ends_with("-1"));
}

#[test]
fn e05_a_factory_sets_the_stack_size() {
    // Four times the default stack size; the test uses half of it.
    let factory = ThreadFactory::new("deep").stack_size(8 << 20);
    let executor = supplied_by(Arc::new(factory));
    #[inline(never)]
    fn descend(left: usize) -> usize {
        let frame = std::hint::black_box([left as u8; 4096]);
        match left {
            0 => 0,
            _ => descend(left - 1) + usize::from(frame[left % 4096] == left as u8),
        }
    }
    let depth = executor.submit(|| descend(1000)).unwrap();
    assert_eq!(depth.join().unwrap(), 1000);
}

/// Returns the cores on which the calling thread may run (`Cpus_allowed_list` in `/proc`).
fn allowed_cores() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap().trim().to_owned()
}

#[test]
fn e05_a_factory_pins_its_threads_to_cores_in_turn() {
    let mine = allowed_cores();
    let mut ends = mine.split([',', '-']).map(|n| n.parse::<usize>().unwrap());
    let first = ends.next().unwrap();
    let last = ends.next_back().unwrap_or(first);
    let factory = Arc::new(ThreadFactory::new("pinned").pin_to([first, last]));
    for expected in [first, last, first] {
        let executor = supplied_by(factory.clone());
        let cores = executor.submit(allowed_cores).unwrap().join().unwrap();
        assert_eq!(cores, expected.to_string());
    }
}

#[test]
fn e05_a_missing_core_is_an_error_each_time() {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap().count();
    for core in [1023, usize::MAX] {
        let executor = supplied_by(Arc::new(ThreadFactory::new("nowhere").pin_to([core])));
        let expected = format!(
            "task rejected: the executor's thread could not be started: \
             cannot pin the thread to core {core}: this process may use {allowed} cores"
        );
        for attempt in 0..50 {
            let rejected = executor.submit(|| 7).unwrap_err();
            let told = rejected.to_string();
            assert_eq!(told, expected, "attempt {attempt}");
            assert_eq!(rejected.into_task()(), 7);
        }
        assert_eq!(executor.state(), ExecutorState::NotStarted);
    }
}

#[test]
fn e05_a_shared_pool_can_supply_the_thread() {
    // One worker thread and two loops: the second loop runs when the first has ended.
    let (jobs, work) = mpsc::channel::<LoopBody>();
    let worker = std::thread::spawn(move || work.into_iter().for_each(LoopBody::run));
    let jobs = Mutex::new(jobs);
    let pool: Arc<dyn ThreadSupplier> = Arc::new(FnSupplier(move |body: LoopBody| {
        assert_eq!(body.executor(), "supplied");
        let sent = lock(&jobs).send(body);
        sent.map_err(|_| std::io::Error::other("the pool is closed"))?;
        Ok(None)
    }));
    let (first, second) = (supplied_by(pool.clone()), supplied_by(pool));
    let worker_id = worker.thread().id();
    let id = || std::thread::current().id();
    assert_eq!(first.submit(id).unwrap().join().unwrap(), worker_id);
    let waiting = second.submit(id).unwrap();
    shut_down(&first);
    assert_eq!(waiting.join().unwrap(), worker_id);
    shut_down(&second);
    drop((first, second));
    worker.join().unwrap();
}

#[test]
fn e05_an_executor_can_supply_the_thread_of_another() {
    let pool = EventExecutor::builder().name("pool").build().unwrap();
    let inner = pool.clone();
    let executor = supplied_by(Arc::new(FnSupplier(move |body: LoopBody| {
        let queued = inner.execute(move || body.run());
        queued.map(|()| None).map_err(|rejected| std::io::Error::other(rejected.to_string()))
    })));
    let name = executor.submit(|| std::thread::current().name().unwrap().to_owned());
    assert!(name.unwrap().join().unwrap().starts_with("pool-"));
    shut_down(&executor);
}

#[test]
fn e04_a_loop_that_was_refused_a_thread_does_not_run_later() {
    let kept = Arc::new(Mutex::new(None));
    let keeps = kept.clone();
    let supplier = FnSupplier(move |body: LoopBody| {
        *lock(&keeps) = Some(body);
        Err(io::Error::other("no thread for you"))
    });
    let executor = EventExecutor::builder().thread_supplier(Arc::new(supplier)).build().unwrap();
    assert!(executor.execute(|| ()).is_err());
    assert_eq!(executor.state(), ExecutorState::NotStarted);
    executor.shutdown().wait_timeout(TIMEOUT).expect("it ends without a thread");
    assert_eq!(executor.state(), ExecutorState::Terminated);
    let body = lock(&kept).take().expect("kept");
    with_timeout(move || body.run());
    assert!(executor.thread_properties().is_none(), "it ran: {:?}", executor.thread_properties());
    assert_eq!((executor.state(), executor.stats().turns), (ExecutorState::Terminated, 0));
}
