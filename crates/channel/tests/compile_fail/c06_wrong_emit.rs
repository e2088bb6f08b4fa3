//! A stage that emits something else than it says.

use waterwheel_channel::{Emit, HandlerResult, Stage};

struct Parse;

impl Stage for Parse {
    type In = String;
    type Out = u32;

    fn on<O: Emit<u32>>(&mut self, text: String, out: &mut O) -> HandlerResult {
        out.emit(text)
    }
}

fn main() {}
