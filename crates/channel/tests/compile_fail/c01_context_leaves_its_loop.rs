//! A context is the handler's, on its loop, for the duration of the call.

use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};

struct Offloads;

impl Handler for Offloads {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        std::thread::scope(|scope| {
            scope.spawn(|| ctx.write(msg));
        });
        Ok(())
    }
}

fn main() {}
