//! Pipelines that change while data flows (C05), and handlers that run elsewhere (C03).

use waterwheel::channel::{
    Channel, ChannelOptions, Ctx, Handler, HandlerResult, Msg, Offloaded, Pipeline, RemoteHandler,
};
use waterwheel::executor::EventExecutorGroup;

use crate::cell::Cell;
use crate::random::SeededRng;
use crate::test_bed::{Echo, TestBed, get, tap};

/// Passes everything on, but keeps the last thing it has read until the round is over or it is removed.
#[derive(Default)]
struct Late(Option<Msg>);

impl Late {
    fn pass_on(&mut self, ctx: &Ctx<'_>) {
        if let Some(msg) = self.0.take() {
            ctx.fire_read(msg);
        }
    }
}

impl Handler for Late {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.pass_on(ctx);
        self.0 = Some(msg);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.pass_on(ctx);
        ctx.fire_read_complete();
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        self.pass_on(ctx);
        ctx.fire_read_complete(); // Whoever flushes then has something to flush.
    }
}

/// Replaces itself by another of its kind in the middle of a read.
struct Restless(usize);

impl Handler for Restless {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        if self.0 > 0 {
            ctx.pipeline().replace(ctx.slot(), "restless", Restless(self.0 - 1))?;
        }
        ctx.fire_read(msg);
        Ok(())
    }
}

const NAMES: [&str; 3] = ["one", "two", "three"];

/// Adds, removes or replaces one of three handlers, wherever.
fn edit(pipeline: &Pipeline<'_>, at: usize, how: usize) {
    let name = NAMES[at];
    let edited = match (pipeline.slot(name), how) {
        (None, 0) => pipeline.add_first(name, Late::default()).map(drop),
        (None, _) => pipeline.add_before("echo", name, Late::default()).map(drop),
        (Some(_), 0) => pipeline.replace(name, name, Late::default()).map(drop),
        (Some(_), _) => pipeline.remove(name),
    };
    edited.expect("a sound edit");
}

pub(crate) fn c05_edits_while_data_flows_lose_and_reorder_nothing(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let (tapped, mut children) = tap();
    let server = test_bed.serve(ChannelOptions::default(), move |edit| {
        edit.add_last("tap", Watched(tapped.clone()))?;
        edit.add_last("restless", Restless(50))?;
        edit.add_last("echo", Echo).map(drop)
    });
    let (client, mut ear) = test_bed.client(&server);
    let child = children.channel();
    let mut dice = SeededRng::new();
    let data = dice.bytes(1 << 19);
    for piece in dice.cut(data.clone(), 4_000) {
        client.send(piece);
        let (at, how) = (dice.below(NAMES.len()), dice.below(2));
        drop(child.with_pipeline(move |pipeline| edit(&pipeline, at, how)));
    }
    assert!(ear.bytes(data.len()) == data, "what came back is not what was sent");
    let names = get(child.with_pipeline(|pipeline| pipeline.names())).unwrap();
    assert_eq!(names.iter().filter(|name| *name == "echo").count(), 1, "{names:?}");
}

/// Tells of the channel, and passes everything on.
struct Watched(crate::test_bed::EventTap);

impl Handler for Watched {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.on_active(ctx)?;
        ctx.fire_active();
        Ok(())
    }
}

/// Passes everything on, from another thread.
struct Elsewhere;

impl RemoteHandler for Elsewhere {}

pub(crate) fn c03_an_offloaded_handler_in_the_middle_loses_and_reorders_nothing(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let elsewhere = EventExecutorGroup::builder().threads(2).build().expect("a group");
    let group = elsewhere.clone();
    let server = test_bed.serve(ChannelOptions::default(), move |edit| {
        edit.add_last("elsewhere", Offloaded::new(&group, || Elsewhere))?;
        edit.add_last("echo", Echo).map(drop)
    });
    let mut dice = SeededRng::new();
    let mut lines: Vec<(Channel, _, _)> = Vec::new();
    for _ in 0..8 {
        let (client, ear) = test_bed.client(&server);
        let data = dice.bytes(100_000);
        dice.cut(data.clone(), 5_000).into_iter().for_each(|piece| client.send(piece));
        lines.push((client, ear, data));
    }
    for (client, ear, data) in &mut lines {
        assert!(ear.bytes(data.len()) == *data, "what came back is not what was sent");
        get(client.close()).unwrap();
    }
}
