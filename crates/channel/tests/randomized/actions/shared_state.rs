//! What everybody in a run shares: the dice, what there is to meddle with, and the counts.
//!
//! All of a run is on one thread, the executor of the offloaded handlers included, and time moves by
//! hand: a seed is a run. Messages and offloaded handlers have to be `Send`, so the world is not handed
//! to them; they find it in their thread.

use std::cell::{Cell, RefCell};
use std::panic;
use std::rc::Rc;
use std::thread;

use waterwheel_channel::{Channel, ChannelFuture, LocalCtx, LocalLoop};
use waterwheel_executor::EventExecutor;

/// How many actions a run has at the most. Actions cause actions; this is what ends it.
const ACTIONS: u32 = 3_000;

/// How deep actions are within actions at the most: a limit for the stack.
const DEPTH: u32 = 12;

/// What the message of a panic says that belongs to the game.
pub(crate) const FAIR_PANIC: &str = "drawn by the dice: ";

thread_local! {
    static WORLD: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// The world of the run on this thread.
pub(crate) fn world() -> Option<Rc<World>> {
    WORLD.try_with(|world| world.borrow().clone()).ok().flatten()
}

pub(crate) struct World {
    pub(crate) dice: Dice,
    pub(crate) here: LocalLoop,
    /// Where offloaded handlers run, if there are any.
    pub(crate) workers: Option<EventExecutor>,
    pub(crate) channels: RefCell<Vec<Channel>>,
    pub(crate) contexts: RefCell<Vec<LocalCtx>>,
    pub(crate) futures: RefCell<Vec<ChannelFuture>>,
    pub(crate) counts: Counts,
    panics: Cell<bool>,
    actions_left: Cell<u32>,
    depth: Cell<u32>,
}

/// How many there are; at the end there are none.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) handlers: Count,
    pub(crate) messages: Count,
    /// Completions and listeners that were not told yet. They can be told once, by their type; so what
    /// is left here was dropped untold, or is leaked.
    pub(crate) untold: Count,
}

#[derive(Default)]
pub(crate) struct Count(Cell<i64>);

impl Count {
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

impl World {
    pub(crate) fn new(
        seed: u64,
        here: &LocalLoop,
        workers: Option<EventExecutor>,
        panics: bool,
    ) -> Rc<Self> {
        Rc::new(Self {
            dice: Dice::new(seed),
            here: here.clone(),
            workers,
            channels: RefCell::default(),
            contexts: RefCell::default(),
            futures: RefCell::default(),
            counts: Counts::default(),
            panics: Cell::new(panics),
            actions_left: Cell::new(ACTIONS),
            depth: Cell::new(0),
        })
    }

    /// Makes it the world of this thread, until the guard goes.
    pub(crate) fn enter(self: &Rc<Self>) -> Entered {
        WORLD.set(Some(self.clone()));
        Entered
    }

    /// From now on everybody behaves: no action, no error, no panic.
    pub(crate) fn quiet(&self) {
        self.actions_left.set(0);
        self.panics.set(false);
    }

    /// Takes one of the actions that are left; `None` if this is the end of it, or too deep, or not on
    /// the loop, where everybody only passes on.
    pub(crate) fn begin_action(self: &Rc<Self>) -> Option<Action> {
        let left = self.actions_left.get();
        let fits = left > 0 && self.depth.get() <= DEPTH && LocalLoop::current().is_some();
        fits.then(|| {
            self.actions_left.set(left - 1);
            self.depth.set(self.depth.get() + 1);
            Action(self.clone())
        })
    }

    /// Panics, one time in so many; never during another panic, which would end the process.
    ///
    /// The panic's hook is not called: thousands of these are no news.
    pub(crate) fn may_panic(&self, odds: u64, place: &str) {
        if self.panics.get() && !thread::panicking() && self.dice.one_in(odds) {
            panic::resume_unwind(Box::new(format!("{FAIR_PANIC}{place}")));
        }
    }

    /// Whether somebody is to return an error: one time in so many.
    pub(crate) fn fails(&self, odds: u64) -> bool {
        self.actions_left.get() > 0 && self.dice.one_in(odds)
    }

    pub(crate) fn any_channel(&self) -> Option<Channel> {
        self.dice.any(&self.channels.borrow()).cloned()
    }

    pub(crate) fn any_context(&self) -> Option<LocalCtx> {
        self.dice.any(&self.contexts.borrow()).cloned()
    }

    pub(crate) fn take_any_future(&self) -> Option<ChannelFuture> {
        let mut futures = self.futures.borrow_mut();
        let count = futures.len() as u64;
        (count > 0).then(|| futures.swap_remove(self.dice.below(count) as usize))
    }

    /// Keeps a future to the end; before, some are cancelled.
    pub(crate) fn keep(&self, future: ChannelFuture) {
        if self.dice.one_in(3) {
            future.cancel();
        }
        self.futures.borrow_mut().push(future);
    }
}

/// The thread has a world meanwhile.
pub(crate) struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        WORLD.set(None);
    }
}

/// An action is under way.
pub(crate) struct Action(Rc<World>);

impl Drop for Action {
    fn drop(&mut self) {
        self.0.depth.set(self.0.depth.get() - 1);
    }
}

/// Numbers that look random, the same for the same seed: xorshift.
pub(crate) struct Dice(Cell<u64>);

impl Dice {
    fn new(seed: u64) -> Self {
        // Neighbouring seeds are far apart; and never zero, where xorshift stays.
        Self(Cell::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1))
    }

    pub(crate) fn below(&self, n: u64) -> u64 {
        let mut x = self.0.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.0.set(x);
        // The low bits are the worst ones.
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
