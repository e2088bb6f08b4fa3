//! Demo traffic, so that a new gateway has something to show: topics whose rates change, readers, and now and then a task
//! that holds a loop for too long. Off by default.
//!
//! # Rules
//!
//! 1. *Cheap.* At most 95 publications per second, 50 in the mean, made by one task that wakes up ten times per
//!    second, and eight readers per loop, which throw away what they get.
//! 2. *Bounded.* Publications go the way of all others, with all limits; one that the engine refuses is forgotten.
//! 3. It ends when the gateway drains.
//!
//! The publications and the readers count like others; readers count as clients of the protocol that they pretend to speak.

mod readers;
mod topics;

use std::sync::Arc;
use std::time::Duration;

use waterwheel::channel::{EventLoop, EventLoopGroup, interval};

use self::topics::DemoTopics;
use crate::access::identity::{ClientIdentity, Permissions};
use crate::session::core::GatewayCore;
use crate::session::requester::Requester;
use crate::topic::filter::TopicFilter;

/// The time between two looks at what is to be published.
const TICK: Duration = Duration::from_millis(100);

/// The first slow task comes after this time; a reader of the page has seen the loops by then.
const FIRST_SLOW_TASK: Duration = Duration::from_secs(4);

/// The time between two slow tasks.
const SLOW_TASK_PERIOD: Duration = Duration::from_secs(20);

/// A slow task holds its loop for at most this long; a watchdog with a longer limit sees none.
const MAX_HOLD: Duration = Duration::from_secs(1);

/// Starts the traffic on these loops. `slow_limit` is that of the watchdog: a slow task takes twice as long, so that a
/// watchdog that is late itself on a busy machine reports it. Without a watchdog there is none.
pub fn start(core: &Arc<GatewayCore>, loops: &EventLoopGroup, slow_limit: Option<Duration>) {
    for event_loop in loops.children() {
        let core = core.clone();
        // A loop that has ended already needs no readers.
        let _ = event_loop.spawn_with(move || readers::read(core));
    }
    let event_loop = loops.next();
    let slow_task = slow_limit.map(|limit| limit * 2).filter(|hold| *hold <= MAX_HOLD);
    let traffic = traffic(core.clone(), loops.without_lease(), slow_task);
    let _ = event_loop.spawn(traffic);
}

async fn traffic(core: Arc<GatewayCore>, loops: EventLoopGroup, slow_task: Option<Duration>) {
    let everything = vec![TopicFilter::everything()];
    let permissions =
        Permissions { subscribe: everything.clone(), publish: everything, is_admin: true };
    let identity = ClientIdentity {
        user: Some("demo".into()),
        permissions: permissions.into(),
        expires_at: None,
    };
    let requester = Requester { identity, name: None, peer: None };
    let mut topics = DemoTopics::new(&core.limits().topic);
    let mut ticks = interval(TICK);
    let (mut elapsed, mut next_slow_task) = (Duration::ZERO, FIRST_SLOW_TASK);
    while !core.is_draining() {
        ticks.tick().await;
        elapsed += TICK;
        let due = topics.due(elapsed, TICK);
        if !due.is_empty() {
            // Refused: the engine is away, or the gateway drains.
            let _ = core.publish_batch(&requester, due.into_iter().map(Ok).collect()).await;
        }
        if let Some(hold) = slow_task
            && elapsed >= next_slow_task
        {
            next_slow_task += SLOW_TASK_PERIOD;
            hold_a_loop(&loops.next(), hold);
        }
    }
}

/// Holds a loop, as a call of a blocking function in a task would.
fn hold_a_loop(event_loop: &EventLoop, hold: Duration) {
    #[allow(clippy::disallowed_methods, reason = "the page shows tasks that block their loop")]
    let block = move || std::thread::sleep(hold);
    let _ = event_loop.labelled("demo: a call that blocks").execute(block);
}
