//! A loop's whole life on its thread: turns until it is through, then the teardown (E16).
//!
//! The steps are those of `docs/SHUTDOWN.md`. Each runs even if the one before failed: user code is
//! guarded where it is called, so nothing in here can be skipped by a panic.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::engine::shared_half::Shared;
use crate::engine::{LoopCore, LoopSeed, Turn, Work};
use crate::error::{Error, ErrorKind, absorb};
use crate::lifecycle::Event;
use crate::report::guard::guard_drop;
use crate::thread::PunctualSleep;

/// Runs the loop on the calling thread until it has terminated.
pub(crate) fn run<X: Send + 'static>(shared: Arc<Shared<X>>, seed: LoopSeed<X>) {
    shared.begin_to_turn();
    let _punctual = PunctualSleep::begin();
    let mut core = LoopCore::new(shared);
    let entered = core.enter();
    let (work, died) = match catch_unwind(AssertUnwindSafe(seed)) {
        Ok(mut work) => {
            let died = turn_to_the_end(&mut *work, &mut core).err();
            (Some(work), died)
        }
        Err(payload) => (None, Some(payload)),
    };
    let died = died.map(|payload| {
        let executor = core.shared.name.to_string();
        Error::from(ErrorKind::LoopDied { executor, cause: absorb(payload) })
    });
    tear_down(&mut core, work, died.as_ref());
    drop(entered);
    core.shared.terminate(died);
}

/// Turns the loop until it is through.
///
/// # Errors
/// A panic that its work does not survive.
fn turn_to_the_end<X: Send + 'static>(
    work: &mut dyn Work<X>,
    core: &mut LoopCore<X>,
) -> Result<(), Box<dyn Any + Send>> {
    loop {
        let turns = AssertUnwindSafe(|| while work.turn(core) == Turn::Again {});
        let Err(payload) = catch_unwind(turns) else { return Ok(()) };
        catch_unwind(AssertUnwindSafe(|| work.on_panic(payload))).unwrap_or_else(Err)?;
    }
}

/// Steps 1 to 5; the caller leaves the loop and terminates.
pub(crate) fn tear_down<X: Send + 'static>(
    core: &mut LoopCore<X>,
    mut work: Option<Box<dyn Work<X>>>,
    died: Option<&Error>,
) {
    // 1. Hooks that have not run: the timeout was reached first, or the loop died.
    core.run_hooks();
    // 2. The door is shut, then the state says so.
    core.shared.inbox.close();
    let _ = core.shared.life.apply(Event::QuietReached);
    // 3. What was accepted runs; after a death it is dropped, counted and reported.
    match (died, work.as_mut()) {
        (None, Some(work)) => core.run_stragglers(&mut |command| work.on_command(command)),
        (None, None) => core.run_stragglers(&mut drop),
        (Some(cause), _) => core.drop_stragglers(cause),
    }
    core.run_hooks(); // Those that stragglers added.
    core.cancel_timers();
    // 4. The driver is closed.
    if let (Some(cause), Some(work)) = (died, work.as_mut()) {
        guard_drop(|| work.on_death(cause));
    }
    guard_drop(|| drop(work));
    // 5. Loop-local values go, on the loop.
    core.drop_loop_locals();
}
