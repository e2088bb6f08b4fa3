//! Handlers that deregister and register their channel for ever.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use waterwheel_channel::{Ctx, Handler, HandlerResult};

use super::support::{LoopFixture, ScriptedTransport};

/// Deregisters in `on_registered` and registers in `on_unregistered`.
struct RepeatsRegistration(Rc<Cell<usize>>);

impl Handler for RepeatsRegistration {
    fn on_registered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.set(self.0.get() + 1);
        ctx.deregister();
        Ok(())
    }

    fn on_unregistered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        // A loop that is busy for ever could not fail the test by itself.
        assert!(self.0.get() < 10_000, "the loop is starved");
        drop(ctx.channel().register());
        Ok(())
    }
}

#[test]
fn c04_a_channel_that_deregisters_and_registers_for_ever_does_not_starve_the_loop() {
    let mut fixture = LoopFixture::new();
    let times = Rc::new(Cell::new(0));
    let seen = times.clone();
    let channel = fixture.register(ScriptedTransport::default(), |edit| {
        edit.add_last("restless", RepeatsRegistration(seen))?;
        Ok(())
    });
    for _ in 0..10 {
        let before = times.get();
        fixture.event_loop.turn(Some(Duration::ZERO));
        assert!(times.get() > before, "it goes on");
    }
    assert!(channel.is_open());
}
