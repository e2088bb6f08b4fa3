//! The last handler of a server: gives what was accepted to the workers.

use std::sync::Arc;

use waterwheel_executor::engine::report;
use waterwheel_executor::{Error, Fault};

use super::recipe::Recipe;
use crate::channel::new_channel::NewChannel;
use crate::event_loop::group::EventLoopGroup;
use crate::flood::Flood;
use crate::pipeline::{Ctx, HandlerResult, InboundHandler};

/// What the connections of a server are made with.
pub(crate) struct Children {
    workers: EventLoopGroup,
    recipe: Recipe,
    /// Those that could not be registered, with whichever loop.
    refused: Flood,
}

impl Children {
    pub(super) fn new(workers: EventLoopGroup, recipe: Recipe) -> Self {
        Self { workers, recipe, refused: Flood::default() }
    }

    /// A connection could not be registered, and is closed.
    pub(crate) fn refused(&self, error: &Error) {
        if let Some(count) = self.refused.once_more() {
            let what = format!("an accepted connection was closed, {count} so far: {error}");
            report(Fault::Unhandled(what));
        }
    }
}

/// Registers what the server accepts with the next loop of the workers.
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
        let worker = children.workers.next();
        if worker.in_event_loop() {
            ctx.event_loop().adopt(new, children);
        } else if !worker.is_shutting_down() {
            worker.adopt(new, children.clone());
        }
        Ok(())
    }
}
