//! How a turn begins: wait, poll, or neither (L03).

/// What a loop does at the start of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectMode {
    /// Wait for events, tasks and timers; if there is something to do already, only look for events.
    Wait,
    /// Look for events and do not wait: the loop spins.
    BusyWait,
    /// Leave I/O alone this turn and go straight to the tasks.
    Continue,
}

/// What a strategy can see.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StrategyInput {
    /// There are tasks, futures or tail tasks to run.
    pub has_tasks: bool,
    /// So many registrations are with the loop.
    pub registrations: usize,
}

/// Decides how a turn begins. One that panics is reported, and the loop waits as usual.
pub trait SelectStrategy: Send + Sync {
    /// Called on the loop, once a turn.
    fn choose(&self, outlook: &StrategyInput) -> SelectMode;
}

/// The usual one: [`SelectMode::Wait`].
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
