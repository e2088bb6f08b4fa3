//! State shared by a run: the random numbers, the objects to act on, and the counts.
//!
//! A run is on one thread, the executor of the offloaded handlers included, and its clock is moved manually: a
//! seed determines a run. Messages and offloaded handlers must be `Send`, so they find the state in a
//! thread-local.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic;
use std::rc::Rc;
use std::thread;

use waterwheel_channel::{Channel, ChannelFuture, LocalCtx, LocalLoop};
use waterwheel_executor::EventExecutor;

/// Maximum number of actions in a run. Actions cause actions; this limit ends the run.
const MAX_ACTIONS: u32 = 3_000;

/// Maximum nesting of actions: a limit for the stack.
const MAX_DEPTH: u32 = 12;

/// Prefix of the message of a planned panic.
pub(crate) const PLANNED_PANIC: &str = "drawn by the dice: ";

thread_local! {
    static RUN_STATE: RefCell<Option<Rc<RunState>>> = const { RefCell::new(None) };
}

/// Returns the state of the run on this thread.
pub(crate) fn run_state() -> Option<Rc<RunState>> {
    RUN_STATE.try_with(|run_state| run_state.borrow().clone()).ok().flatten()
}

pub(crate) struct RunState {
    pub(crate) random: SeededRandom,
    pub(crate) here: LocalLoop,
    /// Executor of the offloaded handlers, if the run has any.
    pub(crate) workers: Option<EventExecutor>,
    pub(crate) channels: RefCell<Vec<Channel>>,
    pub(crate) contexts: RefCell<Vec<LocalCtx>>,
    pub(crate) futures: RefCell<Vec<ChannelFuture>>,
    /// Held bytes, read pauses and declarations of channels.
    pub(crate) guards: RefCell<Vec<Box<dyn Any>>>,
    pub(crate) counts: LiveCounts,
    panics: Cell<bool>,
    actions_left: Cell<u32>,
    depth: Cell<u32>,
}

/// Numbers of live objects; zero at the end of a run.
#[derive(Default)]
pub(crate) struct LiveCounts {
    pub(crate) handlers: LiveCount,
    pub(crate) messages: LiveCount,
    /// Completions and listeners that were not completed yet. Their type allows one completion; an object left at
    /// the end was dropped without completion, or leaked.
    pub(crate) uncompleted: LiveCount,
}

#[derive(Default)]
pub(crate) struct LiveCount(Cell<i64>);

impl LiveCount {
    pub(crate) fn up(&self) {
        self.0.set(self.0.get() + 1);
    }

    pub(crate) fn down(&self) {
        self.0.set(self.0.get() - 1);
    }

    pub(crate) fn get(&self) -> i64 {
        self.0.get()
    }
}

impl RunState {
    pub(crate) fn new(
        seed: u64,
        here: &LocalLoop,
        workers: Option<EventExecutor>,
        panics: bool,
    ) -> Rc<Self> {
        Rc::new(Self {
            random: SeededRandom::new(seed),
            here: here.clone(),
            workers,
            channels: RefCell::default(),
            contexts: RefCell::default(),
            futures: RefCell::default(),
            guards: RefCell::default(),
            counts: LiveCounts::default(),
            panics: Cell::new(panics),
            actions_left: Cell::new(MAX_ACTIONS),
            depth: Cell::new(0),
        })
    }

    /// Makes this the state of the thread until the guard is dropped.
    pub(crate) fn enter(self: &Rc<Self>) -> RunStateGuard {
        RUN_STATE.set(Some(self.clone()));
        RunStateGuard
    }

    /// Stops all random actions, errors and panics.
    pub(crate) fn quiet(&self) {
        self.actions_left.set(0);
        self.panics.set(false);
    }

    /// Takes one of the remaining actions; `None` if none is left, the nesting is too deep, or the call is not
    /// on the loop: then the caller only passes events on.
    pub(crate) fn begin_action(self: &Rc<Self>) -> Option<Action> {
        let left = self.actions_left.get();
        let fits = left > 0 && self.depth.get() <= MAX_DEPTH && LocalLoop::current().is_some();
        fits.then(|| {
            self.actions_left.set(left - 1);
            self.depth.set(self.depth.get() + 1);
            Action(self.clone())
        })
    }

    /// Panics one time in `odds`; never during another panic, which would abort the process.
    ///
    /// The panic hook is not called: thousands of planned panics would fill the output.
    pub(crate) fn may_panic(&self, odds: u64, place: &str) {
        if self.panics.get() && !thread::panicking() && self.random.one_in(odds) {
            panic::resume_unwind(Box::new(format!("{PLANNED_PANIC}{place}")));
        }
    }

    /// True one time in `odds`, while random errors are on.
    pub(crate) fn fails(&self, odds: u64) -> bool {
        self.actions_left.get() > 0 && self.random.one_in(odds)
    }

    pub(crate) fn any_channel(&self) -> Option<Channel> {
        self.random.any(&self.channels.borrow()).cloned()
    }

    pub(crate) fn any_context(&self) -> Option<LocalCtx> {
        self.random.any(&self.contexts.borrow()).cloned()
    }

    pub(crate) fn take_any_future(&self) -> Option<ChannelFuture> {
        let mut futures = self.futures.borrow_mut();
        let count = futures.len() as u64;
        (count > 0).then(|| futures.swap_remove(self.random.below(count) as usize))
    }

    pub(crate) fn take_any_guard(&self) -> Option<Box<dyn Any>> {
        let mut guards = self.guards.borrow_mut();
        let count = guards.len() as u64;
        (count > 0).then(|| guards.swap_remove(self.random.below(count) as usize))
    }

    /// Keeps a future until the end of the run; some are cancelled before.
    pub(crate) fn keep(&self, future: ChannelFuture) {
        if self.random.one_in(3) {
            future.cancel();
        }
        self.futures.borrow_mut().push(future);
    }
}

/// A guard that removes the thread's run state when it is dropped.
pub(crate) struct RunStateGuard;

impl Drop for RunStateGuard {
    fn drop(&mut self) {
        RUN_STATE.set(None);
    }
}

/// A guard that counts the nesting of an action.
pub(crate) struct Action(Rc<RunState>);

impl Drop for Action {
    fn drop(&mut self) {
        self.0.depth.set(self.0.depth.get() - 1);
    }
}

/// A xorshift generator: the same numbers for the same seed.
pub(crate) struct SeededRandom(Cell<u64>);

impl SeededRandom {
    fn new(seed: u64) -> Self {
        // Spreads neighbouring seeds. The state is never zero: xorshift cannot leave zero.
        Self(Cell::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1))
    }

    pub(crate) fn below(&self, n: u64) -> u64 {
        let mut x = self.0.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.0.set(x);
        // The low bits of xorshift are the weakest.
        (x >> 11) % n
    }

    pub(crate) fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn any<'a, T>(&self, of: &'a [T]) -> Option<&'a T> {
        (!of.is_empty()).then(|| &of[self.below(of.len() as u64) as usize])
    }

    pub(crate) fn pick<T: Copy>(&self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}
