//! The stream of snapshots for pages.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use waterwheel::channel::{EventLoopGroup, LocalLoop, LoopMetrics, interval};
use waterwheel::executor::Nanos;
use waterwheel::http::{
    EncodedEvent, EventSender, EventStream, QueuedEvents, ServerEvent, SlowReader,
};

use super::loop_sample::LoopSample;
use super::snapshot::LiveSnapshot;

/// The time between two snapshots.
const PERIOD: Duration = Duration::from_secs(1);

/// How many pages may be open: a page is for operators, and each costs a message per second.
const MAX_VIEWERS: usize = 100;

/// A viewer that is this many snapshots behind misses the oldest.
const QUEUE: usize = 4;

/// The future of a snapshot.
pub type SnapshotFuture = Pin<Box<dyn Future<Output = LiveSnapshot>>>;

/// Says what a snapshot shows besides the loops.
pub trait SnapshotSource: fmt::Debug + Send + Sync + 'static {
    /// Makes a snapshot with these loops. `elapsed` is the time since the last snapshot; `None` for the first one that
    /// somebody looks at. Called on a loop.
    fn snapshot(
        self: Arc<Self>,
        loops: Vec<LoopSample>,
        elapsed: Option<Duration>,
    ) -> SnapshotFuture;
}

/// Sends snapshots to pages: one is made each second for all of them, on the loop of the first viewer, and none without a
/// viewer.
///
/// Viewers are added and removed on any loop, under the lock; senders are used and dropped without it.
#[derive(Debug)]
pub struct LiveView {
    loops: EventLoopGroup,
    source: Arc<dyn SnapshotSource>,
    state: Mutex<ViewState>,
}

#[derive(Default)]
struct ViewState {
    viewers: Vec<EventSender>,
    is_sampling: bool,
    has_ended: bool,
    latest: Option<EncodedEvent>,
}

/// The error of a page that cannot be shown live.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum LiveViewError {
    /// The limit of viewers is reached.
    #[error("{MAX_VIEWERS} pages are open, the limit")]
    TooManyViewers,
    /// The gateway drains.
    #[error("the gateway is shutting down")]
    Ended,
}

impl LiveView {
    /// Creates a view of these loops.
    #[must_use]
    pub fn new(loops: &EventLoopGroup, source: Arc<dyn SnapshotSource>) -> Arc<Self> {
        // Without a lease: the view must not keep the loops from ending.
        Arc::new(Self { loops: loops.without_lease(), source, state: Mutex::default() })
    }

    /// Opens the stream of a page. Called on a loop.
    ///
    /// # Errors
    /// The limit of viewers is reached, or the gateway drains.
    pub fn open(self: &Arc<Self>) -> Result<EventStream<QueuedEvents>, LiveViewError> {
        let queue = EventSender::builder().slow_reader(SlowReader::DropOldest).capacity(QUEUE);
        let (sender, events) = queue.unwrap_or_else(|_| unreachable!("it is not zero")).open();
        let starts = {
            let mut state = self.lock();
            if state.has_ended {
                return Err(LiveViewError::Ended);
            }
            if state.viewers.len() >= MAX_VIEWERS {
                return Err(LiveViewError::TooManyViewers);
            }
            // What is known at once; nobody looks at an empty page for a second.
            if let (true, Some(latest)) = (state.is_sampling, &state.latest) {
                let _ = sender.try_send(latest.clone());
            }
            state.viewers.push(sender);
            !std::mem::replace(&mut state.is_sampling, true)
        };
        if starts && let Some(event_loop) = LocalLoop::current() {
            drop(event_loop.spawn_local(self.clone().sample()));
        }
        Ok(EventStream::new(events))
    }

    /// Ends the streams of all pages: the gateway drains.
    pub fn end(&self) {
        let viewers = {
            let mut state = self.lock();
            state.has_ended = true;
            std::mem::take(&mut state.viewers)
        };
        drop(viewers);
    }

    /// Makes and sends snapshots until the last viewer has gone.
    async fn sample(self: Arc<Self>) {
        let mut before: Vec<LoopMetrics> = Vec::new();
        let mut looked_at: Option<Nanos> = None;
        let mut ticks = interval(PERIOD);
        loop {
            ticks.tick().await; // The first one is at once.
            let now = LocalLoop::current().map_or(Nanos(0), |event_loop| event_loop.now());
            let elapsed = looked_at.replace(now).map(|before| now.since(before));
            let metrics: Vec<LoopMetrics> =
                self.loops.children().map(|each| each.metrics()).collect();
            let names = self.loops.children();
            let samples = names.zip(&metrics).enumerate().map(|(at, (each, now))| {
                LoopSample::between(each.name(), before.get(at), now, elapsed.unwrap_or(PERIOD))
            });
            let samples = samples.collect();
            before = metrics;
            let snapshot = self.source.clone().snapshot(samples, elapsed).await;
            if !self.send(&snapshot) {
                return;
            }
        }
    }

    /// Sends a snapshot to all viewers. Returns false, once and for all, if there are none.
    fn send(&self, snapshot: &LiveSnapshot) -> bool {
        let Ok(json) = serde_json::to_string(snapshot) else { return true };
        let Ok(event) = ServerEvent::new(json).name("snapshot") else { return true };
        let event = event.encode();
        let viewers = std::mem::take(&mut self.lock().viewers);
        let (live, gone): (Vec<_>, Vec<_>) =
            viewers.into_iter().partition(|viewer| viewer.try_send(event.clone()).is_ok());
        drop(gone);
        let mut state = self.lock();
        if state.has_ended {
            drop(state);
            drop(live);
            return false;
        }
        let newcomers = std::mem::replace(&mut state.viewers, live);
        state.viewers.extend(newcomers);
        state.latest = Some(event);
        state.is_sampling = !state.viewers.is_empty();
        state.is_sampling
    }

    fn lock(&self) -> MutexGuard<'_, ViewState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ViewState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViewState").field("viewers", &self.viewers.len()).finish_non_exhaustive()
    }
}
