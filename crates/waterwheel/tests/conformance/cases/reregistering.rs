//! Channels that deregister from their loop and register again (C04).

use crate::cell::Cell;
use crate::random::SeededRng;
use crate::test_bed::{TestBed, get, tap};
use waterwheel::channel::{ChannelOptions, Ctx, Handler, HandlerResult, Msg};

/// Echoes bytes, and logs that the channel is active.
struct EchoTap(crate::test_bed::EventTap);

impl Handler for EchoTap {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.on_active(ctx)
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write_and_flush(msg);
        Ok(())
    }
}

/// Either end deregisters and registers again, repeatedly, while it reads and writes.
pub(crate) fn c04_reregistering_a_channel_during_traffic_loses_nothing(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let (tapped, mut children) = tap();
    let server = test_bed.serve(ChannelOptions::default(), move |edit| {
        edit.add_last("echo", EchoTap(tapped.clone())).map(drop)
    });
    let (client, mut events) = test_bed.client(&server);
    let child = children.channel();
    let mut rng = SeededRng::new();
    let data = rng.bytes(1 << 20);
    for piece in rng.cut(data.clone(), 10_000) {
        client.send(piece);
        let moving = if rng.below(2) == 0 { &client } else { &child };
        // A channel cannot deregister while a write is under way: it stays registered, and nothing is lost either.
        if get(moving.deregister()).is_ok() {
            assert!(!moving.is_registered());
            get(moving.register()).unwrap();
        }
        assert!(moving.is_registered());
    }
    assert!(events.bytes(data.len()) == data, "the echoed bytes differ from the sent bytes");
}
