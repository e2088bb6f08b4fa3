//! Time of events through pipelines of 1 to 10 handlers, and of an echo on an embedded channel.
//!
//! `cargo bench --profile peak -p waterwheel-channel`. In instructions, which do not depend on the
//! machine's mood: `scripts/budgets`.

use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use waterwheel_channel::{Ctx, Events, Handler, HandlerResult, Msg, Name, Pipeline};
use waterwheel_executor::Clock;
use waterwheel_testkit::embedded::Embedded;

struct Pass;

impl Handler for Pass {}

struct Echo;

impl Handler for Echo {
    fn interest(&self) -> Events {
        Events::READ | Events::READ_COMPLETE
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write(msg);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }
}

fn passing(slots: usize) -> Embedded {
    let made = Embedded::builder().stream().build(|edit| {
        for _ in 0..slots {
            edit.add_last(Name::auto(), Pass)?;
        }
        Ok(())
    });
    made.expect("a pipeline that passes everything on")
}

/// Times `events` without what it costs to get onto the loop.
fn timed(channel: &mut Embedded, events: impl FnOnce(Pipeline<'_>)) -> Duration {
    let took = channel.with_pipeline(|pipeline| {
        let began = Clock::Monotonic.now();
        events(pipeline);
        Clock::Monotonic.now().since(began)
    });
    took.expect("the channel is open")
}

fn events(criterion: &mut Criterion) {
    for slots in [1, 3, 6, 10] {
        let mut channel = passing(slots);
        criterion.bench_function(&format!("an event through {slots} handlers"), |bencher| {
            bencher.iter_custom(|rounds| {
                timed(&mut channel, |pipeline| {
                    for _ in 0..rounds {
                        black_box(pipeline).fire_read_complete();
                    }
                })
            });
        });
    }
}

fn echo(criterion: &mut Criterion) {
    let mut channel = passing(0);
    channel.with_pipeline(|pipeline| pipeline.add_last("echo", Echo).map(drop));
    criterion.bench_function("an echo through one handler", |bencher| {
        bencher.iter(|| {
            channel.write_inbound(Bytes::from_static(b"hello"));
            black_box(channel.read_outbound_any())
        });
    });
    // Part of the echo above, and no part of what a pipeline costs.
    criterion.bench_function("getting onto the loop of an embedded channel", |bencher| {
        bencher.iter(|| channel.on_loop(|channel| black_box(channel.is_open())));
    });
}

criterion_group!(benches, events, echo);
criterion_main!(benches);
