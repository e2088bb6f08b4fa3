//! Presence: notes of this gateway, and questions about those of all.

use std::sync::Arc;

use waterwheel::channel::timeout;

use super::connection::call_queue::{ExpectedAnswer, RedisCall};
use super::connection::life::new_node;
use super::limits::{MAX_PRESENCE_PAGE, NOTES_PER_CALL};
use super::notes::NoteKey;
use super::scripts::RedisScript;
use super::scripts::error_reply::unavailable;
use super::scripts::message::{decode_member, encode_user};
use super::scripts::reply::ReplyValues;
use super::shared::{EnginePhase, RedisShared, RedisState, answer_of};
use crate::engine::{EngineError, PresencePage, PresentClient};
use crate::topic::name::Topic;

impl RedisShared {
    /// Notes a client. Without a connection, Redis is told after the next reconnect.
    pub(super) fn enter(self: &Arc<Self>, topic: &Topic, member: &PresentClient) {
        let must_wake = {
            let mut state = self.lock();
            if state.phase == EnginePhase::Closed || !state.notes.enter(topic, member) {
                return;
            }
            let user = encode_user(member.user.as_deref());
            let words = [topic.as_str(), &member.client, &user];
            self.push_change(&mut state, "enter", &words)
        };
        self.wake_writer(must_wake);
    }

    /// Removes the note of a client.
    pub(super) fn leave(self: &Arc<Self>, topic: &Topic, client: &str) {
        let must_wake = {
            let mut state = self.lock();
            if state.phase == EnginePhase::Closed {
                return;
            }
            state.notes.leave(topic, client);
            self.push_change(&mut state, "leave", &[topic.as_str(), client])
        };
        self.wake_writer(must_wake);
    }

    /// Returns the clients of a topic.
    pub(super) async fn presence(
        self: Arc<Self>,
        topic: Topic,
        limit: usize,
    ) -> Result<PresencePage, EngineError> {
        let count = limit.min(MAX_PRESENCE_PAGE).to_string();
        let arguments = [&b"list"[..], topic.as_str().as_bytes(), count.as_bytes()];
        let answer = self.read(RedisScript::Present, &arguments).await?;
        let mut values = ReplyValues::of(answer)?;
        let count = usize::try_from(values.number()?).unwrap_or(usize::MAX);
        let mut page = PresencePage { clients: Vec::new(), count };
        while !values.is_empty() {
            let member = decode_member(&values.bytes()?, &values.bytes()?);
            page.clients.push(member.ok_or_else(|| unavailable("a note has another form"))?);
        }
        Ok(page)
    }

    /// Writes all notes of this gateway again. Unless the connection is new, under another name; what is left under the old
    /// one was removed here meanwhile, and is removed from Redis.
    pub(super) async fn renew_notes(
        self: &Arc<Self>,
        number: u64,
        is_first: bool,
    ) -> Result<(), EngineError> {
        let mut retired = None;
        if !is_first && let Some(connection) = &mut self.lock().connection {
            retired = Some(std::mem::replace(&mut connection.node, new_node()));
            connection.is_node_known = false;
        }
        let mut written: Option<NoteKey> = None;
        loop {
            let (answer, must_wake) = {
                let mut state = self.lock();
                // The notes are read and the call is queued under one lock: a change is before or after both.
                let notes = state.notes.next_after(written.as_ref(), NOTES_PER_CALL);
                let Some((last, _)) = notes.last() else { break };
                written = Some(last.clone());
                let users: Vec<_> =
                    notes.iter().map(|(_, user)| encode_user(user.as_deref())).collect();
                let mut words = Vec::with_capacity(notes.len() * 3);
                for (((topic, client), _), user) in notes.iter().zip(&users) {
                    words.extend([topic.as_str(), &**client, user.as_str()]);
                }
                let (promise, answer) = self.event_loop.new_promise();
                let expected = ExpectedAnswer::Value(promise);
                let Some(call) = self.change_call(&state, number, ("enter", &words), expected)
                else {
                    return Err(unavailable("the connection was lost"));
                };
                (answer, self.push(&mut state, call))
            };
            self.wake_writer(must_wake);
            let answer = timeout(self.options.timeout, answer_of(answer)).await;
            answer.map_err(|_| unavailable("no answer to notes of presence"))??;
        }
        let Some(node) = retired else { return Ok(()) };
        let answer = timeout(self.options.timeout, self.retire(number, &node)).await;
        answer.map_err(|_| unavailable("no answer to notes of presence"))?
    }

    /// Gives up the notes under a name. The answer comes after everything that was published before.
    pub(super) async fn retire(
        self: &Arc<Self>,
        number: u64,
        node: &str,
    ) -> Result<(), EngineError> {
        let context = match &self.lock().connection {
            Some(connection) if connection.number == number => Arc::clone(&connection.context),
            _ => return Err(unavailable("the connection was lost")),
        };
        let arguments = [node.as_bytes(), b"0"];
        let command = context.command(RedisScript::Beat, self.new_epoch(), &arguments);
        answer_of(self.ask(number, command, Some(RedisScript::Beat))).await.map(drop)
    }

    /// Adds the call for a change. Returns true if the writer has to be woken.
    fn push_change(&self, state: &mut RedisState, operation: &str, words: &[&str]) -> bool {
        if state.phase != EnginePhase::Live {
            return false; // All notes are written when the engine is live again.
        }
        if state.calls.is_full() {
            state.must_renew_notes = true;
            return false;
        }
        let Some(number) = state.connection.as_ref().map(|connection| connection.number) else {
            return false;
        };
        match self.change_call(state, number, (operation, words), ExpectedAnswer::Ignored) {
            Some(call) => self.push(state, call),
            None => false,
        }
    }

    fn change_call(
        &self,
        state: &RedisState,
        number: u64,
        (operation, words): (&str, &[&str]),
        expected: ExpectedAnswer,
    ) -> Option<RedisCall> {
        let connection = state.connection.as_ref().filter(|now| now.number == number)?;
        let mut arguments = vec![operation.as_bytes()];
        if operation == "enter" {
            arguments.push(connection.node.as_bytes());
        }
        arguments.extend(words.iter().map(|word| word.as_bytes()));
        let script = RedisScript::Present;
        let command = connection.context.command(script, self.new_epoch(), &arguments);
        Some(RedisCall { command, script: Some(script), is_read: false, expected })
    }
}
