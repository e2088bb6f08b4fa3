//! Channels that leave their loop and come back (C04).

use crate::cell::Cell;
use crate::random::SeededRng;
use crate::test_bed::{TestBed, get, tap};
use waterwheel::channel::{ChannelOptions, Ctx, Handler, HandlerResult, Msg};

/// Sends back what it gets, and tells of the channel.
struct EchoAndTell(crate::test_bed::EventTap);

impl Handler for EchoAndTell {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.on_active(ctx)
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write_and_flush(msg);
        Ok(())
    }
}

/// Either end leaves and comes back, again and again, while it reads and writes.
pub(crate) fn c04_a_channel_that_comes_and_goes_in_the_middle_of_traffic_loses_nothing(
    cell: &Cell,
) {
    let test_bed = TestBed::new(cell, 2);
    let (tapped, mut children) = tap();
    let server = test_bed.serve(ChannelOptions::default(), move |edit| {
        edit.add_last("echo", EchoAndTell(tapped.clone())).map(drop)
    });
    let (client, mut ear) = test_bed.client(&server);
    let child = children.channel();
    let mut dice = SeededRng::new();
    let data = dice.bytes(1 << 20);
    for piece in dice.cut(data.clone(), 10_000) {
        client.send(piece);
        let restless = if dice.below(2) == 0 { &client } else { &child };
        // With a write under way it cannot leave: then it stays, and nothing is lost either.
        if get(restless.deregister()).is_ok() {
            assert!(!restless.is_registered());
            get(restless.register()).unwrap();
        }
        assert!(restless.is_registered());
    }
    assert!(ear.bytes(data.len()) == data, "what came back is not what was sent");
}
