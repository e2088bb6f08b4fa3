//! How many allocations submitting, running and completing make.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use waterwheel_executor::{
    EventExecutor, ExecutorState, LoopBody, ManualExecutor, NoExtension, PromiseFuture,
    ThreadSupplier, Unpark, VirtualClock,
};

use crate::counting_allocator::{allocations, allocations_in, bytes};
use crate::support::futures::LIMIT;

/// Entries per block of the queue between threads.
const QUEUE_BLOCK: u64 = 31;

/// Blocks that a measurement fills.
const BLOCKS: u64 = 100;

const TASKS: u64 = QUEUE_BLOCK * BLOCKS;

fn get<T: Send + 'static>(future: PromiseFuture<T>) -> T {
    future.wait_timeout(LIMIT).expect("completed in time");
    future.join().unwrap()
}

/// The sum of the numbers in all tasks, so that their captures are not optimised away.
static SUM: AtomicU64 = AtomicU64::new(0);

/// A task with one word in it.
fn task(n: u64) -> impl FnOnce() + Send + 'static {
    move || {
        SUM.fetch_add(black_box(n), Ordering::Relaxed);
    }
}

/// Returns an executor whose thread, queue block and deque have been allocated.
fn warmed_up_executor() -> EventExecutor {
    let executor = EventExecutor::builder().build().unwrap();
    (0..TASKS).for_each(|n| executor.execute(task(n)).unwrap());
    let own = executor.clone();
    let filled = executor.submit(move || (0..=TASKS).for_each(|n| own.execute(task(n)).unwrap()));
    get(filled.unwrap());
    get(executor.submit(|| ()).unwrap());
    executor
}

/// Returns how many allocations the loop's thread has made so far.
fn allocations_of_the_loop(executor: &EventExecutor) -> u64 {
    get(executor.submit(allocations).unwrap())
}

#[test]
fn the_counter_counts_this_thread_alone() {
    let (counted, boxed) = allocations_in(|| Box::new(7u64));
    assert_eq!(counted, 1);
    let (counted, mut grown) = allocations_in(|| vec![boxed]);
    assert_eq!(counted, 1);
    let (counted, ()) = allocations_in(|| grown.reserve_exact(100));
    assert_eq!(counted, 1, "growing is asking again");
    let (go, gate) = mpsc::channel::<()>();
    let neighbour = std::thread::spawn(move || {
        let _ = gate.recv();
        allocations_in(|| black_box(vec![1u8; 100])).0
    });
    let (counted, ()) = allocations_in(|| drop(go));
    assert_eq!((counted, neighbour.join().unwrap()), (0, 1));
}

#[test]
fn execute_off_the_loop_allocates_queue_blocks_only() {
    let executor = warmed_up_executor();
    let loop_before = allocations_of_the_loop(&executor);
    let (here, ()) = allocations_in(|| (0..TASKS).for_each(|n| executor.execute(task(n)).unwrap()));
    // At most one block per 31 tasks and nothing per task: 0.032 allocations each. Fewer if the
    // loop keeps up and a block is reused before the next one is needed.
    assert!(here <= BLOCKS, "{here} for {BLOCKS} blocks");
    // The question itself costs the loop nothing: its promise is allocated on this thread.
    assert_eq!(allocations_of_the_loop(&executor) - loop_before, 0, "taking and running");
}

#[test]
fn a_queue_that_only_grows_allocates_a_block_per_31_tasks() {
    let mut manual = ManualExecutor::new();
    let executor = manual.executor().clone();
    let fill = || (0..TASKS).for_each(|n| executor.execute(task(n)).unwrap());
    // The producer that takes the last entry of a block allocates the next one.
    assert_eq!(allocations_in(fill), (1 + BLOCKS, ()));
    assert_eq!(manual.run_now() as u64, TASKS);
    assert_eq!(allocations_in(fill), (BLOCKS - 1, ()), "one block is kept");
}

#[test]
fn a_steady_trickle_allocates_nothing() {
    let mut manual = ManualExecutor::new();
    let executor = manual.executor().clone();
    let mut trickle = || {
        for n in 0..TASKS {
            executor.execute(task(n)).unwrap();
            assert_eq!(manual.run_now(), 1);
        }
    };
    assert_eq!(allocations_in(&mut trickle), (2, ()), "two blocks, to begin with");
    assert_eq!(allocations_in(&mut trickle), (0, ()));
}

#[test]
fn execute_on_the_loop_allocates_nothing() {
    let executor = warmed_up_executor();
    let own = executor.clone();
    let submitting =
        move || allocations_in(|| (0..TASKS).for_each(|n| own.execute(task(n)).unwrap())).0;
    let loop_before = allocations_of_the_loop(&executor);
    assert_eq!(get(executor.submit(submitting).unwrap()), 0, "submitting");
    assert_eq!(allocations_of_the_loop(&executor) - loop_before, 0, "and running");
}

/// Measures the loop's own thread: its deque is the only part that a burst enlarges.
#[test]
fn k14_the_memory_of_a_burst_of_tasks_is_freed() {
    const BURST: u64 = 100_000;
    let executor = warmed_up_executor();
    let before = get(executor.submit(bytes).unwrap());
    let own = executor.clone();
    let burst = executor.submit(move || {
        (0..BURST).for_each(|n| own.execute(task(n)).unwrap());
        bytes()
    });
    let during = get(burst.unwrap()).wrapping_sub(before);
    assert!(during > 1 << 20, "the burst took {during} bytes");
    // A task submitted now runs after the whole burst.
    let after = get(executor.submit(bytes).unwrap()).wrapping_sub(before) as isize;
    assert!(after < 1 << 18, "{after} bytes are kept of the burst");
}

#[test]
fn execute_allocates_once_for_a_closure_that_does_not_fit() {
    let mut manual = ManualExecutor::new();
    let executor = manual.executor().clone();
    let words = [1u64; 4];
    let large_task = move || assert_eq!(black_box(words).len(), 4);
    executor.execute(large_task).unwrap(); // The queue's first block.
    let (counted, ()) = allocations_in(|| executor.execute(large_task).unwrap());
    assert_eq!(counted, 1);
    assert_eq!(allocations_in(|| manual.run_now()), (0, 2));
}

#[test]
fn a_promise_is_one_allocation() {
    let executor = EventExecutor::builder().build().unwrap();
    let (counted, value) = allocations_in(|| {
        let (promise, mut future) = executor.new_promise();
        assert!(promise.set_success(7u64));
        future.try_take().unwrap().unwrap()
    });
    assert_eq!((counted, value), (1, 7));
    let (counted, value) = allocations_in(|| executor.succeeded(7u64).join().unwrap());
    assert_eq!((counted, value), (1, 7), "ready-made, and joined");
    let (counted, cancelled) = allocations_in(|| {
        let (promise, future) = executor.new_promise::<u64>();
        future.cancel() && promise.is_cancelled()
    });
    assert_eq!((counted, cancelled), (1, true));
}

/// An unparker and thread supplier that fail the test when they are called.
struct MustNotBeCalled;

impl Unpark for MustNotBeCalled {
    fn unpark(&self) {
        panic!("the executor was woken");
    }
}

impl ThreadSupplier for MustNotBeCalled {
    fn start(&self, _: LoopBody) -> io::Result<Option<JoinHandle<()>>> {
        panic!("the executor was started");
    }
}

#[test]
fn p03_completing_without_listeners_allocates_nothing_and_touches_no_executor() {
    let executor = EventExecutor::builder()
        .thread_supplier(Arc::new(MustNotBeCalled))
        .build_loop::<NoExtension>(Arc::new(MustNotBeCalled), Box::new(|| panic!("it was started")))
        .unwrap();
    let before = executor.stats();
    let promises: Vec<_> = (0..100).map(|_| executor.new_promise()).collect();
    let (counted, ()) = allocations_in(|| {
        for (promise, mut future) in promises {
            assert!(promise.set_success(7u64));
            assert_eq!(future.try_take().unwrap().unwrap(), 7);
        }
    });
    assert_eq!(counted, 0);
    assert_eq!(executor.state(), ExecutorState::NotStarted);
    assert_eq!(executor.stats(), before);
}

#[test]
fn submit_off_the_loop_is_one_allocation_and_queue_blocks() {
    let executor = warmed_up_executor();
    let mut futures = Vec::with_capacity(usize::try_from(TASKS).unwrap());
    let loop_before = allocations_of_the_loop(&executor);
    let (here, ()) = allocations_in(|| {
        futures.extend((0..TASKS).map(|n| executor.submit(move || black_box(n)).unwrap()));
    });
    assert!((TASKS..=TASKS + BLOCKS).contains(&here), "{here} for {TASKS} and {BLOCKS} blocks");
    let (joining, sum) = allocations_in(|| futures.into_iter().map(get).sum::<u64>());
    assert_eq!((joining, sum), (0, TASKS * (TASKS - 1) / 2));
    assert_eq!(allocations_of_the_loop(&executor) - loop_before, 0, "running and completing");
}

#[test]
fn submit_on_the_loop_is_one_allocation() {
    let executor = warmed_up_executor();
    let own = executor.clone();
    let submitting = move || {
        allocations_in(|| {
            (0..TASKS).for_each(|n| drop(own.submit(move || black_box(n)).unwrap()));
        })
    };
    assert_eq!(get(executor.submit(submitting).unwrap()).0, TASKS);
}

#[test]
fn an_empty_turn_allocates_nothing() {
    let mut manual = ManualExecutor::new();
    manual.executor().execute(task(1)).unwrap();
    manual.run_now();
    assert_eq!(allocations_in(|| manual.run_now()), (0, 0));
    let mut manual = ManualExecutor::with_virtual_clock(VirtualClock::new());
    manual.run_for(Duration::from_secs(1));
    assert_eq!(allocations_in(|| manual.run_for(Duration::from_secs(3600))), (0, 0));
}
