//! A stage that takes something else than the one before it gives.

use std::convert::Infallible;

use waterwheel_channel::{Emit, HandlerResult, Stage};

struct Parse;

impl Stage for Parse {
    type In = String;
    type Out = u32;

    fn on<O: Emit<u32>>(&mut self, text: String, out: &mut O) -> HandlerResult {
        out.emit(text.len() as u32)
    }
}

struct App;

impl Stage for App {
    type In = bool;
    type Out = Infallible;

    fn on<O: Emit<Infallible>>(&mut self, _: bool, _: &mut O) -> HandlerResult {
        Ok(())
    }
}

fn main() {
    let _ = Parse.then(App);
}
