//! A pipeline is changed on its loop only; elsewhere, through `Channel::with_pipeline`.

use waterwheel_channel::{Ctx, Handler, HandlerResult};

struct EditsElsewhere;

impl Handler for EditsElsewhere {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let pipeline = ctx.pipeline();
        std::thread::scope(|scope| {
            scope.spawn(move || pipeline.names());
        });
        Ok(())
    }
}

fn main() {}
