//! An hour of timers on a virtual clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use waterwheel::executor::{Clock, ManualExecutor, VirtualClock};

use crate::TourResult;
use crate::show::chapter;

pub(crate) fn run() -> TourResult {
    chapter("An hour of virtual time");
    let mut manual = ManualExecutor::with_virtual_clock(VirtualClock::new());
    let minutes = Arc::new(AtomicU64::new(0));
    let counting = minutes.clone();
    let minute = Duration::from_secs(60);
    let ticker = manual.executor().schedule_at_fixed_rate(minute, minute, move || {
        counting.fetch_add(1, Ordering::Relaxed);
    })?;
    let begun = Clock::Monotonic.now();
    manual.run_for(Duration::from_secs(3600));
    let took = Clock::Monotonic.now().since(begun);
    println!("{} virtual minutes passed in {took:.0?}", minutes.load(Ordering::Relaxed));
    ticker.cancel();
    Ok(())
}
