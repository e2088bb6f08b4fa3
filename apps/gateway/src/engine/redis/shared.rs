//! The state of the engine, and the calls of a connection.
//!
//! Callers on any thread put calls into the queue, under the lock, so that the order of calls is that of the queue. A task on
//! the loop of the engine writes them. Values that Redis sends, the sink, promises and the channel are used on that loop and
//! without the lock.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use waterwheel::bytes::BytesMut;
use waterwheel::channel::{Channel, EventLoop};
use waterwheel::codec::{RespCommand, RespValue};
use waterwheel::executor::{Clock, Nanos, Promise, PromiseFuture};

use super::connection::call_queue::{Answer, CallQueue, ExpectedAnswer, RedisCall};
use super::notes::PresenceNotes;
use super::options::RedisOptions;
use super::progress::SinkProgress;
use super::scripts::error_reply::unavailable;
use super::scripts::{RedisScript, ScriptContext};
use super::subscriptions::SubscriptionTable;
use crate::engine::limits::HistoryLimits;
use crate::engine::{EngineError, EngineSink};

/// The engine as its callers, its tasks and its connection share it.
pub(super) struct RedisShared {
    pub(super) options: RedisOptions,
    pub(super) limits: HistoryLimits,
    /// The loop of the connection and of all tasks of the engine.
    pub(super) event_loop: EventLoop,
    pub(super) clock: Clock,
    next_epoch: AtomicU32,
    state: Mutex<RedisState>,
}

/// The state that the lock guards.
pub(super) struct RedisState {
    pub(super) phase: EnginePhase,
    /// The reason why the engine is not available.
    pub(super) trouble: String,
    pub(super) connection: Option<RedisConnection>,
    pub(super) calls: CallQueue,
    /// The last time that Redis has sent something, or that the first of the calls was made.
    pub(super) silent_since: Nanos,
    pub(super) subscriptions: SubscriptionTable,
    pub(super) notes: PresenceNotes,
    /// True if notes in Redis may differ from those of this gateway.
    pub(super) must_renew_notes: bool,
    pub(super) progress: SinkProgress,
    pub(super) totals: EngineTotals,
    pub(super) reconnects: u64,
    /// The address that a redirection has named.
    pub(super) redirect: Option<String>,
    pub(super) waiting_for_connection: Vec<Promise<()>>,
    sink: Option<Arc<dyn EngineSink>>,
    has_write_task: bool,
    /// True while a beat has no answer.
    pub(super) has_beat: bool,
    /// The time of the last beat.
    pub(super) beat_time: Nanos,
    /// The time that the last answer to a beat has taken, of this connection.
    pub(super) beat_duration: Option<Duration>,
}

/// The phases of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EnginePhase {
    /// No connection is open, or one is being opened.
    Away,
    /// Calls are answered.
    Live,
    /// The engine was closed.
    Closed,
}

/// A connection to a server.
pub(super) struct RedisConnection {
    pub(super) channel: Channel,
    /// The number of the connection, so that a call of an earlier one is known as such.
    pub(super) number: u64,
    /// Set when the server has said who it is.
    pub(super) context: Arc<ScriptContext>,
    /// The name under which Redis has the notes of this gateway.
    pub(super) node: String,
    /// True if a beat has told Redis that name.
    pub(super) is_node_known: bool,
}

/// The numbers of the whole engine, as the last beat told them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EngineTotals {
    pub(super) topics: u64,
    pub(super) held: u64,
    pub(super) bytes: u64,
}

impl RedisShared {
    pub(super) fn new(
        options: RedisOptions,
        limits: HistoryLimits,
        event_loop: EventLoop,
        sink: Arc<dyn EngineSink>,
    ) -> Arc<Self> {
        let clock = Clock::Monotonic;
        let state = RedisState {
            phase: EnginePhase::Away,
            trouble: "not connected yet".to_owned(),
            connection: None,
            calls: CallQueue::default(),
            silent_since: clock.now(),
            subscriptions: SubscriptionTable::default(),
            notes: PresenceNotes::new(limits.present_clients),
            must_renew_notes: false,
            progress: SinkProgress::default(),
            totals: EngineTotals::default(),
            reconnects: 0,
            redirect: None,
            waiting_for_connection: Vec::new(),
            sink: Some(sink),
            has_write_task: false,
            has_beat: false,
            beat_time: Nanos(0),
            beat_duration: None,
        };
        let next_epoch = AtomicU32::new(crate::engine::remote::back_off::random());
        let state = Mutex::new(state);
        Arc::new(Self { options, limits, event_loop, clock, next_epoch, state })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, RedisState> {
        // No method panics halfway through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an epoch for the case that Redis has none: a different one each time.
    pub(super) fn new_epoch(&self) -> u32 {
        self.next_epoch.fetch_add(0x9e37_79b9, Ordering::Relaxed)
    }

    /// Calls a script, for a user of the engine. The call is in the queue when this returns.
    pub(super) fn call(
        self: &Arc<Self>,
        script: RedisScript,
        arguments: &[&[u8]],
    ) -> Result<PromiseFuture<Answer>, EngineError> {
        self.call_with(script, arguments, false)
    }

    /// Calls a script whose answer may be long.
    pub(super) async fn read(
        self: &Arc<Self>,
        script: RedisScript,
        arguments: &[&[u8]],
    ) -> Result<RespValue, EngineError> {
        answer_of(self.call_with(script, arguments, true)?).await
    }

    fn call_with(
        self: &Arc<Self>,
        script: RedisScript,
        arguments: &[&[u8]],
        is_read: bool,
    ) -> Result<PromiseFuture<Answer>, EngineError> {
        let (context, number) = {
            let state = self.lock();
            let connection = state.check_available()?;
            (Arc::clone(&connection.context), connection.number)
        };
        let command = context.command(script, self.new_epoch(), arguments);
        let (promise, answer) = self.event_loop.new_promise();
        let must_wake = {
            let mut state = self.lock();
            if state.check_available()?.number != number {
                return Err(unavailable("the connection was lost"));
            }
            let expected = ExpectedAnswer::Value(promise);
            let call = RedisCall { command, script: Some(script), is_read, expected };
            self.push(&mut state, call)
        };
        self.wake_writer(must_wake);
        Ok(answer)
    }

    /// Sends a command of the engine itself, by the connection of this number.
    pub(super) fn ask(
        self: &Arc<Self>,
        number: u64,
        command: RespCommand,
        script: Option<RedisScript>,
    ) -> PromiseFuture<Answer> {
        let (promise, answer) = self.event_loop.new_promise();
        let must_wake = {
            let mut state = self.lock();
            match &state.connection {
                Some(connection) if connection.number == number => {
                    let expected = ExpectedAnswer::Value(promise);
                    let call = RedisCall { command, script, is_read: false, expected };
                    self.push(&mut state, call)
                }
                _ => {
                    let lost = Err(unavailable("the connection was lost"));
                    drop(state);
                    promise.set_success(lost);
                    return answer;
                }
            }
        };
        self.wake_writer(must_wake);
        answer
    }

    /// Adds a call. Returns true if [`wake_writer`](Self::wake_writer) has to be called, without the lock.
    #[must_use]
    pub(super) fn push(&self, state: &mut RedisState, call: RedisCall) -> bool {
        let now = self.clock.now();
        if state.calls.is_empty() {
            state.silent_since = now;
        }
        state.calls.push(call, now);
        state.begin_writing()
    }

    /// Has the loop write the calls that wait, if it is to.
    pub(super) fn wake_writer(self: &Arc<Self>, must_wake: bool) {
        if !must_wake {
            return;
        }
        let shared = Arc::clone(self);
        if let Err(rejected) = self.event_loop.execute(move || shared.write_calls()) {
            // The queue of the loop is full, of which tail tasks are no part. If the loop has ended, so has the connection.
            if self.event_loop.execute_after_turn(rejected.into_task()).is_err() {
                self.begin_close();
                self.release();
            }
        }
    }

    fn write_calls(&self) {
        loop {
            let mut wire = BytesMut::new();
            let channel = {
                let mut state = self.lock();
                if state.connection.is_some() {
                    state.calls.take_wire(&mut wire);
                }
                if wire.is_empty() {
                    state.has_write_task = false;
                }
                state.connection.as_ref().map(|connection| connection.channel.clone())
            };
            match channel {
                Some(channel) if !wire.is_empty() => channel.send(wire.freeze()),
                _ => return,
            }
        }
    }

    /// Calls the sink, if the engine still has it. Never under the lock.
    pub(super) fn hand_on(&self, call: impl FnOnce(&dyn EngineSink)) {
        let sink = self.lock().sink.clone();
        if let Some(sink) = sink {
            // The panic hook has told of the panic. What follows is for other clients.
            let _ = catch_unwind(AssertUnwindSafe(|| call(&*sink)));
        }
    }

    /// Ends the connection of this number, and fails its calls.
    pub(super) fn detach(&self, number: u64, reason: &str) {
        let (channel, calls) = {
            let mut state = self.lock();
            match &state.connection {
                Some(connection) if connection.number == number => {}
                _ => return,
            }
            if state.phase == EnginePhase::Live {
                state.phase = EnginePhase::Away;
            }
            reason.clone_into(&mut state.trouble);
            let connection = state.connection.take();
            (connection.map(|connection| connection.channel), state.calls.take_all())
        };
        if let Some(channel) = channel {
            channel.close_without_future();
        }
        fail_calls(calls, reason);
    }

    /// Refuses further calls. Returns true the first time.
    pub(super) fn begin_close(&self) -> bool {
        let mut state = self.lock();
        let is_first = state.phase != EnginePhase::Closed;
        state.phase = EnginePhase::Closed;
        "closed".clone_into(&mut state.trouble);
        is_first
    }

    /// Drops the sink and the connection.
    pub(super) fn release(&self) {
        let number = self.lock().connection.as_ref().map(|connection| connection.number);
        if let Some(number) = number {
            self.detach(number, "the engine is closed");
        }
        let (sink, waiting) = {
            let mut state = self.lock();
            (state.sink.take(), std::mem::take(&mut state.waiting_for_connection))
        };
        drop(sink);
        drop(waiting);
    }
}

impl RedisState {
    /// Returns true if the loop has to be told to write: calls wait, and no task for them is on its way. One is from now on.
    #[must_use]
    pub(super) fn begin_writing(&mut self) -> bool {
        self.calls.is_waiting() && !std::mem::replace(&mut self.has_write_task, true)
    }

    /// Returns how long Redis takes to answer; see [`EngineStatus::lag`](crate::engine::EngineStatus::lag).
    pub(super) fn lag(&self, now: Nanos) -> Option<Duration> {
        let waited = self.calls.oldest().map(|oldest| now.since(oldest));
        waited.max(self.beat_duration)
    }

    /// Returns the connection, if calls of users are accepted.
    pub(super) fn check_available(&self) -> Result<&RedisConnection, EngineError> {
        match &self.connection {
            Some(_) if self.phase == EnginePhase::Live && self.calls.is_full() => {
                Err(unavailable(format!("{} calls wait for answers", self.calls.len())))
            }
            Some(connection) if self.phase == EnginePhase::Live => Ok(connection),
            _ => Err(unavailable(self.trouble.clone())),
        }
    }
}

/// Waits for an answer. An error of Redis is an error of the engine.
pub(super) async fn answer_of(future: PromiseFuture<Answer>) -> Result<RespValue, EngineError> {
    match future.await {
        Ok(answer) => answer,
        Err(error) => Err(unavailable(error.to_string())),
    }
}

/// Fails calls whose connection has ended.
fn fail_calls(calls: Vec<RedisCall>, reason: &str) {
    for call in calls {
        if let ExpectedAnswer::Value(promise) = call.expected {
            promise.set_success(Err(unavailable(reason)));
        }
    }
}

impl fmt::Debug for RedisShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisShared").finish_non_exhaustive()
    }
}
