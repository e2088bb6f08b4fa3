//! A context cannot be kept in the handler.

use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};

struct Keeps<'a> {
    ctx: Option<Ctx<'a>>,
}

struct KeepsForEver {
    ctx: Option<Ctx<'static>>,
}

impl Handler for Keeps<'static> {
    fn on_read(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        self.ctx = Some(*ctx);
        Ok(())
    }
}

impl Handler for KeepsForEver {
    fn on_read(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        self.ctx = Some(*ctx);
        Ok(())
    }
}

fn main() {}
