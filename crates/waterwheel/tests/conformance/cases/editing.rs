//! Pipelines that are edited while data flows (C05), and offloaded handlers (C03).

use waterwheel::channel::{
    Channel, ChannelOptions, Ctx, Handler, HandlerResult, Msg, Offloaded, Pipeline, RemoteHandler,
};
use waterwheel::executor::EventExecutorGroup;

use crate::cell::Cell;
use crate::random::SeededRng;
use crate::test_bed::{Echo, TestBed, get, tap};

/// Forwards reads, but keeps the last message until the round ends or the handler is removed.
#[derive(Default)]
struct DelayedForwarder(Option<Msg>);

impl DelayedForwarder {
    fn forward(&mut self, ctx: &Ctx<'_>) {
        if let Some(msg) = self.0.take() {
            ctx.fire_read(msg);
        }
    }
}

impl Handler for DelayedForwarder {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.forward(ctx);
        self.0 = Some(msg);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.forward(ctx);
        ctx.fire_read_complete();
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        self.forward(ctx);
        ctx.fire_read_complete(); // Lets handlers that flush at the end of a round flush the forwarded message.
    }
}

/// Replaces itself by a handler of the same type during a read, as many times as its number says.
struct SelfReplacing(usize);

impl Handler for SelfReplacing {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        if self.0 > 0 {
            ctx.pipeline().replace(ctx.slot(), "self-replacing", SelfReplacing(self.0 - 1))?;
        }
        ctx.fire_read(msg);
        Ok(())
    }
}

const NAMES: [&str; 3] = ["one", "two", "three"];

/// Adds, removes or replaces one of three handlers.
fn edit(pipeline: &Pipeline<'_>, at: usize, choice: usize) {
    let name = NAMES[at];
    let edited = match (pipeline.slot(name), choice) {
        (None, 0) => pipeline.add_first(name, DelayedForwarder::default()).map(drop),
        (None, _) => pipeline.add_before("echo", name, DelayedForwarder::default()).map(drop),
        (Some(_), 0) => pipeline.replace(name, name, DelayedForwarder::default()).map(drop),
        (Some(_), _) => pipeline.remove(name),
    };
    edited.expect("the edit is valid");
}

pub(crate) fn c05_edits_while_data_flows_lose_and_reorder_nothing(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let (tapped, mut children) = tap();
    let server = test_bed.serve(ChannelOptions::default(), move |edit| {
        edit.add_last("tap", ActiveTap(tapped.clone()))?;
        edit.add_last("self-replacing", SelfReplacing(50))?;
        edit.add_last("echo", Echo).map(drop)
    });
    let (client, mut events) = test_bed.client(&server);
    let child = children.channel();
    let mut rng = SeededRng::new();
    let data = rng.bytes(1 << 19);
    for piece in rng.cut(data.clone(), 4_000) {
        client.send(piece);
        let (at, choice) = (rng.below(NAMES.len()), rng.below(2));
        drop(child.with_pipeline(move |pipeline| edit(&pipeline, at, choice)));
    }
    assert!(events.bytes(data.len()) == data, "the echoed bytes differ from the sent bytes");
    let names = get(child.with_pipeline(|pipeline| pipeline.names())).unwrap();
    assert_eq!(names.iter().filter(|name| *name == "echo").count(), 1, "{names:?}");
}

/// Logs that the channel is active, and forwards every event.
struct ActiveTap(crate::test_bed::EventTap);

impl Handler for ActiveTap {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.on_active(ctx)?;
        ctx.fire_active();
        Ok(())
    }
}

/// Forwards every event, from another thread.
struct PassThrough;

impl RemoteHandler for PassThrough {}

pub(crate) fn c03_an_offloaded_handler_in_the_middle_loses_and_reorders_nothing(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let elsewhere = EventExecutorGroup::builder().threads(2).build().expect("the group is built");
    let group = elsewhere.clone();
    let server = test_bed.serve(ChannelOptions::default(), move |edit| {
        edit.add_last("pass-through", Offloaded::new(&group, || PassThrough))?;
        edit.add_last("echo", Echo).map(drop)
    });
    let mut rng = SeededRng::new();
    let mut connections: Vec<(Channel, _, _)> = Vec::new();
    for _ in 0..8 {
        let (client, events) = test_bed.client(&server);
        let data = rng.bytes(100_000);
        rng.cut(data.clone(), 5_000).into_iter().for_each(|piece| client.send(piece));
        connections.push((client, events, data));
    }
    for (client, events, data) in &mut connections {
        assert!(events.bytes(data.len()) == *data, "the echoed bytes differ from the sent bytes");
        get(client.close()).unwrap();
    }
}
