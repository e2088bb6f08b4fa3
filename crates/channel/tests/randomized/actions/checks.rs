//! What must hold at the end of every run, whatever happened in it.

use std::sync::{Mutex, PoisonError};

use waterwheel_channel::{ChannelFuture, ManualEventLoop};
use waterwheel_executor::{Fault, Report, Reporter};

use super::shared_state::{FAIR_PANIC, World};

/// What a channel says that closes because of a panic that somebody else has caught, and reported.
const REPORTED_BEFORE: &str = "a panic that was caught, and reported, on its way";

/// What is wrong, in words.
#[derive(Default)]
pub(crate) struct Flaws(Mutex<Vec<String>>);

impl Flaws {
    pub(crate) fn add(&self, flaw: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(flaw);
    }

    fn unless(&self, fine: bool, flaw: impl FnOnce() -> String) {
        if !fine {
            self.add(flaw());
        }
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Errors that nobody deals with belong to the game, and the panics that were drawn. A panic of anybody
/// else is the engine's.
impl Reporter for Flaws {
    fn report(&self, report: &Report<'_>) {
        match &report.fault {
            Fault::Unhandled(_) => {}
            Fault::Panicked { message, .. } if message.contains(FAIR_PANIC) => {}
            Fault::Panicked { message, .. } if message.contains(REPORTED_BEFORE) => {}
            fault => self.add(fault.to_string()),
        }
    }
}

/// Nothing is left to do, and every channel and future has come to its end.
pub(crate) fn check_all_is_over(
    flaws: &Flaws,
    world: &World,
    event_loop: &ManualEventLoop,
    closed: &[ChannelFuture],
) {
    let registered = event_loop.event_loop().metrics().channels;
    flaws.unless(event_loop.is_idle(), || String::from("the loop is never idle"));
    flaws.unless(registered == 0, || format!("{registered} channels are still registered"));
    for channel in world.channels.borrow().iter() {
        flaws.unless(channel.closed().is_done(), || format!("{channel:?} is not closed"));
        let pending = channel.pending_bytes();
        flaws.unless(pending == 0, || format!("{pending} bytes are pending in {channel:?}"));
    }
    for future in closed.iter().chain(world.futures.borrow().iter()) {
        flaws.unless(future.is_done(), || format!("{future:?} is never done"));
    }
}

/// When the loop is gone as well, nothing is left of what was made.
pub(crate) fn check_nothing_is_left(flaws: &Flaws, world: &World) {
    let counts = &world.counts;
    for (what, count) in [
        ("handlers", &counts.handlers),
        ("messages", &counts.messages),
        ("untold completions", &counts.untold),
    ] {
        let left = count.get();
        flaws.unless(left == 0, || format!("{left} {what} are left"));
    }
}
