//! The user's code in a pool: preparing, checking and resetting connections.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use waterwheel_channel::{Channel, Pipeline, timeout};
use waterwheel_executor::Error;

use crate::shared::ChannelPoolShared;

type HookFuture = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// A hook that takes its time: its future runs on the channel's loop.
#[derive(Clone)]
pub(crate) struct AsyncHook {
    call: Arc<dyn Fn(Channel) -> HookFuture + Send + Sync>,
    pub(crate) limit: Duration,
}

impl AsyncHook {
    pub(crate) fn new<F>(
        limit: Duration,
        hook: impl Fn(Channel) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        Self { call: Arc::new(move |channel| Box::pin(hook(channel))), limit }
    }

    /// Runs the hook on the channel's loop, and calls `done` with the outcome, unless the pool is gone. A panic, a
    /// missed time limit and the end of the loop are failures.
    pub(crate) fn run(
        &self,
        what: &'static str,
        (pool, channel): (&Arc<ChannelPoolShared>, &Channel),
        done: impl FnOnce(&Arc<ChannelPoolShared>, Result<(), Error>) + Send + 'static,
    ) {
        let (call, limit, target) = (self.call.clone(), self.limit, channel.clone());
        let hook = async move {
            // The hook is called by the future, so that a panic of it becomes an error too.
            match timeout(limit, async move { call(target).await }).await {
                Ok(outcome) => outcome,
                Err(_) => Err(Error::new(HookTimedOut { what, limit })),
            }
        };
        let pool = Arc::downgrade(pool);
        let done = move |outcome: Result<(), Error>| {
            if let Some(pool) = pool.upgrade() {
                done(&pool, outcome);
            }
        };
        match channel.event_loop().spawn(hook) {
            Ok(outcome) => outcome.on_complete(move |outcome| done(outcome.flatten())),
            Err(rejected) => done(Err(rejected.into())),
        }
    }
}

/// A hook took too long.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the {what} took longer than {limit:?}")]
struct HookTimedOut {
    what: &'static str,
    limit: Duration,
}

/// A hook that changes a pipeline at once, on its loop.
pub(crate) type PipelineHook = Arc<dyn Fn(Pipeline<'_>) -> Result<(), Error> + Send + Sync>;

#[derive(Clone, Default)]
pub(crate) struct PoolHooks {
    pub(crate) created: Option<AsyncHook>,
    pub(crate) check: Option<AsyncHook>,
    pub(crate) acquired: Option<PipelineHook>,
    pub(crate) released: Option<PipelineHook>,
}

/// Calls a pipeline hook on the channel's loop, at once if the caller is there; then `done`, on the loop, with the
/// hook's result, or with the reason why it was not called or did not return.
pub(crate) fn call_pipeline_hook(
    hook: &PipelineHook,
    channel: &Channel,
    done: impl FnOnce(Result<Result<(), Error>, Error>) + Send + 'static,
) {
    let hook = hook.clone();
    // A panic closes the channel and drops the promise: its future fails.
    let called = channel.with_pipeline(move |pipeline| hook(pipeline));
    called.on_complete(done);
}
