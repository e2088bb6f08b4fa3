//! The clients that are present at the gateways of one prefix.
//!
//! ```text
//!   a gateway ── changes, numbered ──► all others
//!             ── its number, every interval ──► others know that it lives and that they have missed nothing
//!             ◄── question ── one that is new, or has missed a number; the answer is everything, in parts
//! ```
//!
//! 1. A gateway speaks for its own clients. Its messages come in order, because one connection carries them.
//! 2. A gateway that is not heard of for [`EXPIRY_INTERVALS`] intervals is taken for dead, and its clients leave.
//! 3. Notes of all gateways together are within the limit of present clients; gateways, within [`MAX_PEERS`].

mod message;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use waterwheel::executor::Nanos;

use self::message::{PresenceMessage, PresenceNote};
use crate::engine::local::presence::PresenceTable;
use crate::engine::{PresencePage, PresentClient};
use crate::topic::name::Topic;

/// Intervals without a message after which a gateway is taken for dead.
pub(super) const EXPIRY_INTERVALS: u32 = 3;

/// Maximum number of other gateways.
const MAX_PEERS: usize = 1_024;

/// Maximum number of notes in one message.
const NOTES_PER_MESSAGE: usize = 500;

/// Bytes of names in one message: less than the payload that servers allow by default, even if all of them have to be escaped.
const BYTES_PER_MESSAGE: usize = 64 << 10;

/// The shortest time between two answers, however many gateways ask.
const TELL_ALL_PAUSE: Duration = Duration::from_millis(200);

/// A change that the hub is to be told of: a client has entered a topic, or has left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PresenceChange {
    pub(super) topic: Topic,
    pub(super) member: PresentClient,
    pub(super) is_present: bool,
}

/// The clients of all gateways.
#[derive(Debug)]
pub(super) struct PresenceExchange {
    /// The id of this gateway.
    me: String,
    interval: Duration,
    limit: usize,
    all: PresenceTable,
    own: PresenceTable,
    peers: HashMap<String, PeerGateway>,
    /// The number of the last change that was told.
    number: u64,
    untold: Vec<PresenceNote>,
    /// True until everything is told; changes until then are part of it.
    must_tell_all: bool,
    last_told_all: Option<Nanos>,
    last_told: Nanos,
    /// The gateway to ask for everything; empty: all of them.
    to_ask: Option<String>,
}

/// Another gateway.
#[derive(Debug)]
struct PeerGateway {
    /// The number up to which its changes are known; `None` before everything was told.
    number: Option<u64>,
    notes: PresenceTable,
    /// An answer under way: its number, the next part, the notes so far.
    answer: Option<(u64, u32, PresenceTable)>,
    last_heard: Nanos,
    last_asked: Option<Nanos>,
}

impl PresenceExchange {
    pub(super) fn new(me: String, interval: Duration, limit: usize) -> Self {
        Self {
            me,
            interval,
            limit,
            all: PresenceTable::new(limit),
            own: PresenceTable::new(limit),
            peers: HashMap::new(),
            number: 0,
            untold: Vec::new(),
            must_tell_all: true,
            last_told_all: None,
            last_told: Nanos(0),
            to_ask: None,
        }
    }

    /// Returns the id of this gateway.
    pub(super) fn me(&self) -> &str {
        &self.me
    }

    /// Notes a client of this gateway. Returns the change, if it is one.
    pub(super) fn enter(
        &mut self,
        topic: &Topic,
        member: &PresentClient,
    ) -> Option<PresenceChange> {
        self.own.enter(topic, member);
        let has_entered = self.all.enter(topic, member);
        has_entered.then(|| self.own_change(topic, member, true))
    }

    /// Removes the note of a client of this gateway. Returns the change, if it is one.
    pub(super) fn leave(&mut self, topic: &Topic, client: &str) -> Option<PresenceChange> {
        self.own.leave(topic, client)?;
        let member = self.all.leave(topic, client)?;
        Some(self.own_change(topic, &member, false))
    }

    fn own_change(
        &mut self,
        topic: &Topic,
        member: &PresentClient,
        is_present: bool,
    ) -> PresenceChange {
        if !self.must_tell_all {
            self.untold.push(PresenceNote::new(topic, member, !is_present));
        }
        PresenceChange { topic: topic.clone(), member: member.clone(), is_present }
    }

    /// Returns the clients of a topic.
    pub(super) fn page(&self, topic: &Topic, limit: usize) -> PresencePage {
        self.all.page(topic, limit)
    }

    /// Begins after a connection was made: tells everything, asks everybody, and lets nobody expire who could not be heard.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.pause();
        self.last_told_all = None;
        self.to_ask = Some(String::new());
        for peer in self.peers.values_mut() {
            peer.last_heard = now;
        }
    }

    /// Notes that nobody can be told of changes, or that somebody has missed some: everything is told later.
    pub(super) fn pause(&mut self) {
        self.must_tell_all = true;
        self.untold.clear();
    }

    /// Takes a question: the id of the gateway that is asked, or nothing.
    pub(super) fn take_question(&mut self, asked: &[u8]) {
        if asked.is_empty() || asked == self.me.as_bytes() {
            self.pause();
        }
    }

    /// Returns the question to ask, if there is one.
    pub(super) fn next_question(&mut self) -> Option<String> {
        self.to_ask.take()
    }

    /// Returns the messages to send.
    pub(super) fn messages(&mut self, now: Nanos) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        let is_too_soon = self.last_told_all.is_some_and(|last| now.since(last) < TELL_ALL_PAUSE);
        if self.must_tell_all && !is_too_soon {
            self.last_told_all = Some(now);
            // A gateway that misses this message asks when the next one comes.
            self.number += 1;
            let notes = self.own.notes();
            let notes: Vec<_> =
                notes.map(|(topic, member)| PresenceNote::new(topic, &member, false)).collect();
            let mut chunks = in_messages(notes);
            if chunks.is_empty() {
                chunks.push(Vec::new());
            }
            let parts = chunks.len();
            for (index, notes) in chunks.into_iter().enumerate() {
                let part = Some((index as u32, parts as u32));
                messages.push(PresenceMessage {
                    number: self.number,
                    notes,
                    part,
                    is_leaving: false,
                });
            }
            self.must_tell_all = false;
        }
        let untold = std::mem::take(&mut self.untold);
        for notes in in_messages(untold) {
            self.number += 1;
            let message = PresenceMessage { number: self.number, ..PresenceMessage::default() };
            messages.push(PresenceMessage { notes, ..message });
        }
        if messages.is_empty() && now.since(self.last_told) >= self.interval {
            messages.push(PresenceMessage { number: self.number, ..PresenceMessage::default() });
        }
        if !messages.is_empty() {
            self.last_told = now;
        }
        messages.iter().map(PresenceMessage::to_json).collect()
    }

    /// Returns the last message of this gateway.
    pub(super) fn farewell(&self) -> Vec<u8> {
        let number = self.number;
        PresenceMessage { number, is_leaving: true, ..PresenceMessage::default() }.to_json()
    }

    /// Takes a message of another gateway. Returns what has changed.
    pub(super) fn take_message(
        &mut self,
        gateway: &str,
        json: &[u8],
        now: Nanos,
    ) -> Vec<PresenceChange> {
        if gateway == self.me {
            return Vec::new();
        }
        let Ok(message) = serde_json::from_slice::<PresenceMessage>(json) else {
            return Vec::new(); // Of a gateway of another version, or another program.
        };
        if message.is_leaving {
            return self.forget(gateway);
        }
        if !self.peers.contains_key(gateway) && self.peers.len() >= MAX_PEERS {
            return Vec::new();
        }
        let limit = self.limit;
        let peer = self.peers.entry(gateway.to_owned()).or_insert_with(|| PeerGateway {
            number: None,
            notes: PresenceTable::new(limit),
            answer: None,
            last_heard: now,
            last_asked: None,
        });
        peer.last_heard = now;
        match (message.part, peer.number) {
            (Some(part), _) => return self.take_part(gateway, message, part),
            (None, Some(known)) if message.number <= known => {}
            (None, Some(known)) if message.number == known + 1 && !message.notes.is_empty() => {
                peer.number = Some(message.number);
                return self.apply(gateway, message.notes);
            }
            _ => {
                // Something was missed. One question in an interval is enough.
                let may_ask = peer.last_asked.is_none_or(|last| now.since(last) >= self.interval);
                if may_ask {
                    peer.last_asked = Some(now);
                    self.to_ask.get_or_insert_with(|| gateway.to_owned());
                }
            }
        }
        Vec::new()
    }

    /// Removes gateways that are taken for dead. Returns what has changed.
    pub(super) fn expire(&mut self, now: Nanos) -> Vec<PresenceChange> {
        let limit = self.interval * EXPIRY_INTERVALS;
        let is_dead = |peer: &PeerGateway| now.since(peer.last_heard) > limit;
        let dead: Vec<_> =
            self.peers.iter().filter(|(_, peer)| is_dead(peer)).map(|(id, _)| id.clone()).collect();
        dead.iter().flat_map(|gateway| self.forget(gateway)).collect()
    }

    fn take_part(
        &mut self,
        gateway: &str,
        message: PresenceMessage,
        (index, parts): (u32, u32),
    ) -> Vec<PresenceChange> {
        let Some(peer) = self.peers.get_mut(gateway) else { return Vec::new() };
        let table = match peer.answer.take() {
            _ if index == 0 => PresenceTable::new(self.limit),
            Some((number, next, table)) if number == message.number && next == index => table,
            _ => return Vec::new(),
        };
        let mut table = table;
        for (topic, member, _) in message.notes.iter().filter_map(PresenceNote::read) {
            table.enter(&topic, &member);
        }
        if index + 1 < parts {
            peer.answer = Some((message.number, index + 1, table));
            return Vec::new();
        }
        peer.number = Some(message.number);
        let before = std::mem::replace(&mut peer.notes, table);
        let after = &peer.notes;
        let left = before.notes().filter(|(topic, member)| !after.has(topic, &member.client));
        let mut changes = Vec::new();
        for (topic, member) in left {
            if self.all.leave(topic, &member.client).is_some() {
                changes.push(PresenceChange { topic: topic.clone(), member, is_present: false });
            }
        }
        for (topic, member) in after.notes() {
            if self.all.enter(topic, &member) {
                changes.push(PresenceChange { topic: topic.clone(), member, is_present: true });
            }
        }
        changes
    }

    fn apply(&mut self, gateway: &str, notes: Vec<PresenceNote>) -> Vec<PresenceChange> {
        let Some(peer) = self.peers.get_mut(gateway) else { return Vec::new() };
        let mut changes = Vec::new();
        for (topic, member, has_left) in notes.iter().filter_map(PresenceNote::read) {
            let has_changed = match has_left {
                false => {
                    peer.notes.enter(&topic, &member);
                    self.all.enter(&topic, &member)
                }
                true => {
                    let was_noted = peer.notes.leave(&topic, &member.client).is_some();
                    was_noted && self.all.leave(&topic, &member.client).is_some()
                }
            };
            if has_changed {
                changes.push(PresenceChange { topic, member, is_present: !has_left });
            }
        }
        changes
    }

    fn forget(&mut self, gateway: &str) -> Vec<PresenceChange> {
        let Some(peer) = self.peers.remove(gateway) else { return Vec::new() };
        let mut changes = Vec::new();
        for (topic, member) in peer.notes.notes() {
            if self.all.leave(topic, &member.client).is_some() {
                changes.push(PresenceChange { topic: topic.clone(), member, is_present: false });
            }
        }
        changes
    }
}

/// Divides notes among messages, in order.
fn in_messages(notes: Vec<PresenceNote>) -> Vec<Vec<PresenceNote>> {
    let mut messages: Vec<Vec<PresenceNote>> = Vec::new();
    let mut bytes = 0;
    for note in notes {
        bytes += note.size();
        match messages.last_mut() {
            Some(last) if last.len() < NOTES_PER_MESSAGE && bytes <= BYTES_PER_MESSAGE => {
                last.push(note);
            }
            _ => {
                bytes = note.size();
                messages.push(vec![note]);
            }
        }
    }
    messages
}
