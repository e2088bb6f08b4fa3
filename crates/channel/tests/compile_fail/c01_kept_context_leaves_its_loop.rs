//! A context that may be kept stays on its loop all the same.

use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};

struct AnswersElsewhere;

impl Handler for AnswersElsewhere {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let later = ctx.to_local();
        std::thread::spawn(move || later.run(|ctx| ctx.write(msg)));
        Ok(())
    }
}

fn main() {}
