//! The last handler of a server: gives what was accepted to the workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use waterwheel_executor::engine::report;
use waterwheel_executor::{Error, Fault};

use super::recipe::Recipe;
use crate::channel::new_channel::NewChannel;
use crate::event_loop::group::EventLoopGroup;
use crate::pipeline::{Ctx, HandlerResult, InboundHandler};

/// What the connections of a server are made with.
pub(crate) struct Children {
    workers: EventLoopGroup,
    recipe: Recipe,
    /// How many could not be registered. Counted by whichever loop it is.
    refused: AtomicU64,
}

impl Children {
    pub(super) fn new(workers: EventLoopGroup, recipe: Recipe) -> Self {
        Self { workers, recipe, refused: AtomicU64::new(0) }
    }

    /// A connection could not be registered, and is closed. Reported each time their number has doubled:
    /// a flood of them is one fault.
    pub(crate) fn refused(&self, error: &Error) {
        let count = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            let what = format!("an accepted connection was closed, {count} so far: {error}");
            report(Fault::Unhandled(what));
        }
    }
}

/// Registers what the server accepts with a loop of the workers: the next one, or one of its own.
pub(super) struct Acceptor {
    children: Arc<Children>,
}

impl Acceptor {
    pub(super) fn new(children: Arc<Children>) -> Self {
        Self { children }
    }
}

impl InboundHandler for Acceptor {
    type In = NewChannel;

    fn on_read(&mut self, ctx: &Ctx<'_>, accepted: NewChannel) -> HandlerResult {
        let children = &self.children;
        let new = children.recipe.apply(accepted);
        let (worker, new) = match children.workers.find_loop() {
            Ok((worker, berth)) => (worker, new.at(berth)),
            Err(_) if children.workers.is_shutting_down() => return Ok(()),
            Err(error) => {
                children.refused(&error);
                return Ok(());
            }
        };
        if worker.in_event_loop() {
            ctx.event_loop().adopt(new, children);
        } else if !worker.is_shutting_down() {
            worker.adopt(new, children.clone());
        }
        Ok(())
    }
}
