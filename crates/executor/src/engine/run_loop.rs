//! The life of a loop on its thread: turns until it is done, then the teardown (E16).
//!
//! The steps are those of `docs/SHUTDOWN.md`. Each runs even if the one before failed: user code is guarded
//! where it is called, so a panic cannot skip a step.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::engine::shared_half::SharedHalf;
use crate::engine::{LoopCore, LoopSeed, LoopWork, TurnOutcome};
use crate::error::{Error, ErrorKind, take_panic_message};
use crate::lifecycle::LifecycleEvent;
use crate::report::guard::guard_drop;
use crate::thread::TimerSlackGuard;

/// Runs the loop on the calling thread until it has terminated.
pub(crate) fn run<X: Send + 'static>(shared: Arc<SharedHalf<X>>, seed: LoopSeed<X>) {
    shared.on_loop_start();
    let _timer_slack = TimerSlackGuard::set();
    let mut core = LoopCore::new(shared);
    let entered = core.enter();
    let (work, died) = match catch_unwind(AssertUnwindSafe(seed)) {
        Ok(mut work) => {
            let died = run_turns(&mut *work, &mut core).err();
            (Some(work), died)
        }
        Err(payload) => (None, Some(payload)),
    };
    let died = died.map(|payload| {
        let executor = core.shared.name.to_string();
        Error::from(ErrorKind::LoopDied { executor, cause: take_panic_message(payload) })
    });
    tear_down(&mut core, work, died.as_ref());
    drop(entered);
    core.shared.terminate(died);
}

/// Makes turns until the loop is done.
///
/// # Errors
/// A panic that the loop's work does not survive.
fn run_turns<X: Send + 'static>(
    work: &mut dyn LoopWork<X>,
    core: &mut LoopCore<X>,
) -> Result<(), Box<dyn Any + Send>> {
    loop {
        let turns = AssertUnwindSafe(|| while work.turn(core) == TurnOutcome::Again {});
        let Err(payload) = catch_unwind(turns) else { return Ok(()) };
        catch_unwind(AssertUnwindSafe(|| work.on_panic(payload))).unwrap_or_else(Err)?;
    }
}

/// Performs steps 1 to 5 of the teardown. The caller then leaves the loop and terminates the executor.
pub(crate) fn tear_down<X: Send + 'static>(
    core: &mut LoopCore<X>,
    mut work: Option<Box<dyn LoopWork<X>>>,
    died: Option<&Error>,
) {
    // 1. Hooks that have not run: the timeout was reached first, or the loop died.
    core.run_hooks();
    // 2. The inbox is closed, then the state is published.
    core.shared.inbox.close();
    let _ = core.shared.life.apply(LifecycleEvent::QuietReached);
    // 3. Accepted commands run. If the loop died they are dropped, counted and reported.
    match (died, work.as_mut()) {
        (None, Some(work)) => core.run_accepted(&mut |command| work.on_command(command)),
        (None, None) => core.run_accepted(&mut drop),
        (Some(cause), _) => core.drop_accepted(cause),
    }
    core.run_hooks(); // Runs the hooks that accepted commands have added.
    core.cancel_timers();
    // 4. The loop's work is dropped, which closes its driver.
    if let (Some(cause), Some(work)) = (died, work.as_mut()) {
        guard_drop(|| work.on_death(cause));
    }
    guard_drop(|| drop(work));
    // 5. Loop-local values are dropped, on the loop.
    core.drop_loop_locals();
}
