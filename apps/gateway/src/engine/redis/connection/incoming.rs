//! The handler at the end of the connection: brings answers to their calls, and published messages to the sink.

use std::sync::{Arc, MutexGuard};

use waterwheel::channel::{Ctx, HandlerResult, InboundHandler};
use waterwheel::codec::RespValue;
use waterwheel::executor::{Error, Nanos};

use super::call_queue::{ExpectedAnswer, RedisCall};
use crate::engine::EngineError;
use crate::engine::position::Position;
use crate::engine::redis::progress::MissedSince;
use crate::engine::redis::scripts::error_reply::{
    ErrorConsequence, consequence_of, refused, unavailable,
};
use crate::engine::redis::scripts::message::{RedisMessage, decode_message};
use crate::engine::redis::scripts::reply::ReplyValues;
use crate::engine::redis::scripts::with_text;
use crate::engine::redis::shared::{EngineTotals, RedisShared, RedisState};

/// The handler of a connection.
pub(super) struct RedisHandler {
    pub(super) shared: Arc<RedisShared>,
    pub(super) number: u64,
}

impl InboundHandler for RedisHandler {
    type In = RespValue;

    fn on_read(&mut self, ctx: &Ctx<'_>, value: RespValue) -> HandlerResult {
        match value {
            RespValue::Push(values) => self.on_push(ctx.now(), &values),
            value => self.on_answer(ctx.now(), value),
        }
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        self.shared.detach(self.number, &error.to_string());
        ctx.close_because(error);
        Ok(())
    }

    fn on_inactive(&mut self, _ctx: &Ctx<'_>) -> HandlerResult {
        self.shared.detach(self.number, "Redis has closed the connection");
        Ok(())
    }
}

impl RedisHandler {
    /// Locks the state, and notes a sign of life. Returns `None` after the end of the connection: another one may have
    /// taken its place.
    fn lock_current(&self, now: Nanos) -> Option<MutexGuard<'_, RedisState>> {
        let mut state = self.shared.lock();
        let is_current = state.connection.as_ref().is_some_and(|now| now.number == self.number);
        is_current.then(|| {
            state.silent_since = now;
            state
        })
    }

    fn on_push(&self, now: Nanos, values: &[RespValue]) -> HandlerResult {
        let text = |index: usize| match values.get(index) {
            Some(RespValue::Bulk(bytes)) => Some(&bytes[..]),
            _ => None,
        };
        match text(0) {
            Some(b"message" | b"smessage") => {
                // Other programs may publish what they like to these channels.
                if let Some(message) = text(2).and_then(decode_message) {
                    self.on_message(now, message);
                }
                Ok(())
            }
            Some(b"subscribe" | b"ssubscribe" | b"unsubscribe" | b"sunsubscribe") => {
                match self.lock_current(now).is_none_or(|mut state| state.calls.confirm_channel()) {
                    true => Ok(()),
                    false => Err(Error::new("the slot of the channels has moved to another node")),
                }
            }
            _ => Ok(()), // A kind of push that a later version may have.
        }
    }

    fn on_message(&self, now: Nanos, message: RedisMessage) {
        let Some(mut state) = self.lock_current(now) else { return };
        match message {
            RedisMessage::Publication(publication) => {
                let (missed, is_new) = state.progress.on_publication(publication.position);
                drop(state);
                self.shared.tell_missed(missed);
                if is_new {
                    self.shared.hand_on(|sink| sink.on_publication(Arc::new(publication)));
                }
            }
            RedisMessage::Presence { place, topic, member, is_present } => {
                let is_new = state.progress.on_presence(place);
                drop(state);
                if is_new {
                    self.shared.hand_on(|sink| sink.on_presence(&topic, &member, is_present));
                }
            }
        }
    }

    fn on_answer(&self, now: Nanos, value: RespValue) -> HandlerResult {
        let Some(mut state) = self.lock_current(now) else { return Ok(()) };
        let call = state.calls.take_answered();
        let must_wake = state.begin_writing();
        drop(state);
        self.shared.wake_writer(must_wake);
        let Some(call) = call else {
            return Err(Error::new("Redis has sent an answer without a call"));
        };
        let error = match value {
            RespValue::Error(text) | RespValue::BulkError(text) => text,
            value => {
                match call.expected {
                    ExpectedAnswer::Value(promise) => drop(promise.set_success(Ok(value))),
                    ExpectedAnswer::Beat => self.on_beat(now, value)?,
                    ExpectedAnswer::Ignored => {}
                    ExpectedAnswer::Confirmations(_) => {
                        return Err(Error::new("Redis has answered a subscription with a value"));
                    }
                }
                return Ok(());
            }
        };
        self.on_error_answer(call, &String::from_utf8_lossy(&error))
    }

    fn on_error_answer(&self, call: RedisCall, text: &str) -> HandlerResult {
        let consequence = consequence_of(text);
        if let (ErrorConsequence::SendText, Some(script)) = (&consequence, call.script) {
            let command = with_text(script, &call.command);
            let must_wake = {
                let mut state = self.shared.lock();
                self.shared.push(&mut state, RedisCall { command, script: None, ..call })
            };
            self.shared.wake_writer(must_wake);
            return Ok(());
        }
        let error = match consequence {
            ErrorConsequence::Refused => refused(text),
            _ => unavailable(text),
        };
        let must_close = match (&consequence, &call.expected) {
            (ErrorConsequence::Redirect(_) | ErrorConsequence::Reconnect, _) => true,
            // Without a subscription or a beat, the engine does not work.
            (ErrorConsequence::Refused, expected) => {
                matches!(expected, ExpectedAnswer::Confirmations(_) | ExpectedAnswer::Beat)
            }
            _ => false,
        };
        if let ErrorConsequence::Redirect(address) = consequence {
            self.shared.lock().redirect = Some(address);
        }
        match call.expected {
            ExpectedAnswer::Value(promise) => drop(promise.set_success(Err(error))),
            ExpectedAnswer::Beat => self.shared.lock().has_beat = false,
            ExpectedAnswer::Ignored | ExpectedAnswer::Confirmations(_) => {}
        }
        if must_close { Err(Error::new(text.to_owned())) } else { Ok(()) }
    }

    fn on_beat(&self, now: Nanos, value: RespValue) -> HandlerResult {
        let beat = read_beat(value).map_err(Error::new)?;
        let missed = {
            let mut state = self.shared.lock();
            state.has_beat = false;
            state.beat_duration = Some(now.since(state.beat_time));
            state.totals = beat.totals;
            if let Some(connection) = &mut state.connection {
                // Other gateways have given this one up, and have removed its notes.
                let is_forgotten =
                    std::mem::replace(&mut connection.is_node_known, true) && beat.is_new;
                state.must_renew_notes |= is_forgotten;
            }
            state.progress.on_answer(beat.position)
        };
        self.shared.tell_missed(missed);
        if beat.has_more {
            self.shared.beat(self.number);
        }
        Ok(())
    }
}

/// The answer to a beat.
struct BeatAnswer {
    position: Position,
    /// True if Redis did not know this gateway.
    is_new: bool,
    /// True if notes of silent gateways are left.
    has_more: bool,
    totals: EngineTotals,
}

fn read_beat(value: RespValue) -> Result<BeatAnswer, EngineError> {
    let mut values = ReplyValues::of(value)?;
    let position = values.position()?;
    let (is_new, has_more) = (values.number()? == 1, values.number()? == 1);
    let (topics, held, bytes) = (values.number()?, values.number()?, values.number()?);
    Ok(BeatAnswer { position, is_new, has_more, totals: EngineTotals { topics, held, bytes } })
}

impl RedisShared {
    /// Tells the sink that publications may be missing.
    pub(super) fn tell_missed(&self, missed: Option<MissedSince>) {
        if let Some(MissedSince(last)) = missed {
            self.hand_on(|sink| sink.on_gap(last));
        }
    }
}
