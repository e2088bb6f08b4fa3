//! The strategy that chooses how a turn begins: with a wait, a poll, or neither (L03).

/// How a turn begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectMode {
    /// Wait for events, tasks and timers; if there is already something to do, only poll for events.
    Wait,
    /// Poll for events without waiting, so that the loop spins.
    BusyWait,
    /// Skip I/O in this turn and run the tasks at once.
    Continue,
}

/// The information that a strategy decides by.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StrategyInput {
    /// True if there are tasks, futures or tail tasks to run.
    pub has_tasks: bool,
    /// The number of registrations with the loop.
    pub registrations: usize,
}

/// Chooses how a turn begins. A panic is reported, and the turn begins with a wait.
pub trait SelectStrategy: Send + Sync {
    /// Returns how this turn begins. Called on the loop, once per turn.
    fn choose(&self, outlook: &StrategyInput) -> SelectMode;
}

/// The default strategy: always [`SelectMode::Wait`].
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitStrategy;

impl SelectStrategy for WaitStrategy {
    fn choose(&self, _: &StrategyInput) -> SelectMode {
        SelectMode::Wait
    }
}

impl<F: Fn(&StrategyInput) -> SelectMode + Send + Sync> SelectStrategy for F {
    fn choose(&self, outlook: &StrategyInput) -> SelectMode {
        self(outlook)
    }
}
