//! Drains in the middle of traffic, between loops on their own threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use waterwheel_channel::driver::TaskOnly;
use waterwheel_channel::{
    Channel, Ctx, DrainOptions, Drained, Draining, EventLoopGroup, Handler, HandlerResult, Msg,
    NewChannel, local,
};

use crate::support::PATIENCE;

/// Messages counted by both sides.
#[derive(Default)]
struct TrafficCounts {
    answered: AtomicUsize,
    sent: AtomicUsize,
    failed: AtomicUsize,
    received: AtomicUsize,
}

fn add(count: &AtomicUsize) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// Answers each read; at the drain event it may switch auto-read off.
struct Server {
    counts: Arc<TrafficCounts>,
    stops: bool,
}

impl Handler for Server {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        add(&self.counts.answered);
        let counts = self.counts.clone();
        ctx.write_then(msg, move |sent| {
            add(if sent.is_ok() { &counts.sent } else { &counts.failed });
        });
        ctx.flush();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if self.stops && event.is::<Draining>() {
            ctx.channel().set_auto_read(false);
        }
        Ok(())
    }
}

/// Sends some messages, and one more for every answer, while it is connected.
struct Client(Arc<TrafficCounts>);

impl Handler for Client {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        (0..8_u64).for_each(|n| ctx.write(n));
        ctx.flush();
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        add(&self.0.received);
        ctx.write_and_flush(msg);
        Ok(())
    }
}

fn with(new: NewChannel, handler: impl Handler + Send) -> NewChannel {
    new.initialiser(|edit| {
        edit.add_last("handler", handler)?;
        Ok(())
    })
}

fn group(threads: usize) -> EventLoopGroup {
    EventLoopGroup::builder(TaskOnly).threads(threads).build().expect("the group can be built")
}

#[test]
fn l11_a_drain_in_the_middle_of_traffic_loses_no_flushed_message() {
    const CONNECTIONS: usize = 8;
    for round in 0..if cfg!(debug_assertions) { 20 } else { 200 } {
        let counts = Arc::new(TrafficCounts::default());
        let (servers, clients) = (group(2), group(1));
        let clients: Vec<Channel> = (0..CONNECTIONS)
            .map(|at| {
                let (ours, theirs) = local::pair();
                let server = Server { counts: counts.clone(), stops: at % 2 == 0 };
                servers.register(with(ours, server)).join().expect("the registration succeeds");
                clients
                    .register(with(theirs, Client(counts.clone())))
                    .join()
                    .expect("the registration succeeds")
            })
            .collect();
        while counts.answered.load(Ordering::Relaxed) < 50 * (round + 1) {
            std::thread::yield_now();
        }
        let options = DrainOptions::within(PATIENCE).shutdown(Duration::ZERO, PATIENCE).unwrap();
        let drained = servers.drain(options);
        servers.termination().wait_timeout(2 * PATIENCE).expect("the drain ends");
        clients.iter().for_each(|client| client.closed().wait_timeout(PATIENCE).unwrap());
        assert_eq!(drained.join().unwrap(), Drained::Complete, "round {round}");
        let [answered, sent, failed, received] =
            [&counts.answered, &counts.sent, &counts.failed, &counts.received]
                .map(|count| count.load(Ordering::Relaxed));
        assert_eq!((sent, failed), (answered, 0), "round {round}");
        assert_eq!(received, answered, "round {round}");
    }
}
