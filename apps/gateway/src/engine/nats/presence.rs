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

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use waterwheel::executor::Nanos;

use crate::engine::local::presence::PresenceTable;
use crate::engine::{PresencePage, PresentClient};
use crate::topic::limits::TopicLimits;
use crate::topic::name::Topic;

/// Intervals without a message after which a gateway is taken for dead.
const EXPIRY_INTERVALS: u32 = 3;

/// Maximum number of other gateways.
const MAX_PEERS: usize = 1_024;

/// Notes in one message: at most some 300 KiB with the longest names, less than the payload that servers allow by default.
const NOTES_PER_MESSAGE: usize = 500;

/// What changes for the hub: a client has entered a topic, or has left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PresenceChange {
    pub(super) topic: Topic,
    pub(super) member: PresentClient,
    pub(super) is_present: bool,
}

/// A message of a gateway about its clients.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct PresenceMessage {
    /// The number of the last change that this message includes.
    number: u64,
    /// The changes, or the notes of one part of everything.
    notes: Vec<PresenceNote>,
    /// Set in answers: the index of the part, and the number of parts.
    part: Option<(u32, u32)>,
    /// True in the last message of a gateway.
    is_leaving: bool,
}

/// A client in a topic, as messages tell it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct PresenceNote {
    topic: String,
    client: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_left: bool,
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
    must_tell_all: bool,
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
            must_tell_all: false,
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
        self.untold.push(PresenceNote::new(topic, member, !is_present));
        PresenceChange { topic: topic.clone(), member: member.clone(), is_present }
    }

    /// Returns the clients of a topic.
    pub(super) fn page(&self, topic: &Topic, limit: usize) -> PresencePage {
        self.all.page(topic, limit)
    }

    /// Begins after a connection was made: tells everything, asks everybody, and lets nobody expire who could not be heard.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.must_tell_all = true;
        self.to_ask = Some(String::new());
        for peer in self.peers.values_mut() {
            peer.last_heard = now;
        }
    }

    /// Takes a question: the id of the gateway that is asked, or nothing.
    pub(super) fn take_question(&mut self, asked: &[u8]) {
        self.must_tell_all |= asked.is_empty() || asked == self.me.as_bytes();
    }

    /// Returns the question to ask, if there is one.
    pub(super) fn next_question(&mut self) -> Option<String> {
        self.to_ask.take()
    }

    /// Returns the messages to send.
    pub(super) fn messages(&mut self, now: Nanos) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        if self.must_tell_all {
            // Changes that were not told are part of it.
            self.number += u64::from(!self.untold.is_empty());
            self.untold.clear();
            let notes = self.own.notes();
            let notes: Vec<_> =
                notes.map(|(topic, member)| PresenceNote::new(topic, &member, false)).collect();
            let parts = notes.chunks(NOTES_PER_MESSAGE).len().max(1);
            let mut chunks = notes.chunks(NOTES_PER_MESSAGE);
            for index in 0..parts {
                let notes = chunks.next().unwrap_or_default().to_vec();
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
        for notes in untold.chunks(NOTES_PER_MESSAGE) {
            self.number += 1;
            let message = PresenceMessage { number: self.number, ..PresenceMessage::default() };
            messages.push(PresenceMessage { notes: notes.to_vec(), ..message });
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

impl PresenceMessage {
    fn to_json(&self) -> Vec<u8> {
        // A struct of texts and numbers is always JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl PresenceNote {
    fn new(topic: &Topic, member: &PresentClient, has_left: bool) -> Self {
        Self {
            topic: topic.as_str().to_owned(),
            client: member.client.as_ref().to_owned(),
            user: member.user.as_deref().map(str::to_owned),
            has_left,
        }
    }

    fn read(&self) -> Option<(Topic, PresentClient, bool)> {
        const ANY: TopicLimits = TopicLimits { max_bytes: usize::MAX, max_segments: usize::MAX };
        let topic = Topic::parse(&self.topic, &ANY).ok()?;
        let user = self.user.as_deref().map(Into::into);
        let member = PresentClient { client: self.client.as_str().into(), user };
        Some((topic, member, self.has_left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Nanos {
        Nanos(seconds * 1_000_000_000)
    }

    fn room() -> Topic {
        Topic::parse("room", &TopicLimits::default()).unwrap()
    }

    fn member(client: &str) -> PresentClient {
        PresentClient { client: client.into(), user: Some("ann".into()) }
    }

    fn gateway(id: &str) -> PresenceExchange {
        PresenceExchange::new(id.to_owned(), SECOND, 10_000)
    }

    /// Hands all messages of one gateway to another, and returns what changes there as client and presence.
    fn tell(
        from: &mut PresenceExchange,
        to: &mut PresenceExchange,
        now: Nanos,
    ) -> Vec<(String, bool)> {
        let me = from.me.clone();
        let messages = from.messages(now);
        let changes = messages.iter().flat_map(|json| to.take_message(&me, json, now));
        changes.map(|change| (change.member.client.to_string(), change.is_present)).collect()
    }

    #[test]
    fn g08_changes_of_one_gateway_reach_another_each_once() {
        let (mut a, mut b) = (gateway("a"), gateway("b"));
        a.begin(at(10));
        assert!(tell(&mut a, &mut b, at(10)).is_empty());
        assert!(a.enter(&room(), &member("c1")).is_some());
        assert!(a.enter(&room(), &member("c1")).is_none(), "a refresh");
        assert_eq!(tell(&mut a, &mut b, at(10)), [("c1".to_owned(), true)]);
        assert_eq!(b.page(&room(), 10).clients, [member("c1")]);
        assert!(a.leave(&room(), "c1").is_some() && a.leave(&room(), "c1").is_none());
        assert_eq!(tell(&mut a, &mut b, at(10)), [("c1".to_owned(), false)]);
        assert_eq!(b.page(&room(), 10).count, 0);
        assert!(a.messages(at(10)).is_empty(), "nothing is new");
    }

    #[test]
    fn g08_a_gateway_that_has_missed_a_change_asks_and_is_told_everything_in_parts() {
        let (mut a, mut b) = (gateway("a"), gateway("b"));
        a.begin(at(10));
        tell(&mut a, &mut b, at(10));
        for n in 0..1_200 {
            a.enter(&room(), &member(&format!("c{n:04}")));
        }
        assert_eq!(a.messages(at(10)).len(), 3, "lost on the way to b");
        a.leave(&room(), "c0000");
        assert!(tell(&mut a, &mut b, at(10)).is_empty());
        assert_eq!(b.next_question().as_deref(), Some("a"));
        a.take_question(b"other");
        assert!(a.messages(at(10)).is_empty(), "asked was another");
        a.take_question(b"a");
        let messages = a.messages(at(10));
        assert_eq!(messages.len(), 3);
        let told: usize = messages.iter().map(|json| b.take_message("a", json, at(10)).len()).sum();
        assert_eq!((told, b.page(&room(), 1).count), (1_199, 1_199));
        // The parts of two answers are not mixed.
        a.leave(&room(), "c0001");
        a.take_question(b"");
        let again = a.messages(at(10));
        for json in [&again[0], &messages[1], &again[2]] {
            assert!(b.take_message("a", json, at(10)).is_empty());
        }
        assert_eq!(b.page(&room(), 1).count, 1_199);
        let changes: Vec<_> =
            again.iter().flat_map(|json| b.take_message("a", json, at(10))).collect();
        assert_eq!(changes.len(), 1);
        assert!(!changes[0].is_present && &*changes[0].member.client == "c0001");
    }

    #[test]
    fn g08_the_clients_of_a_gateway_that_falls_silent_or_ends_leave() {
        let (mut a, mut b) = (gateway("a"), gateway("b"));
        a.begin(at(10));
        a.enter(&room(), &member("c1"));
        assert_eq!(tell(&mut a, &mut b, at(10)).len(), 1);
        assert!(b.expire(at(13)).is_empty());
        assert!(tell(&mut a, &mut b, at(13)).is_empty(), "a sign of life");
        assert!(b.expire(at(16)).is_empty());
        b.begin(at(17));
        assert!(b.expire(at(20)).is_empty(), "could not be heard");
        assert_eq!(b.expire(at(21)).len(), 1);
        assert_eq!(b.page(&room(), 1).count, 0);
        // It was stopped for a while: its next number is of a gateway that is not known.
        tell(&mut a, &mut b, at(22));
        assert_eq!(b.next_question().as_deref(), Some(""), "of the connection");
        tell(&mut a, &mut b, at(24));
        a.take_question(b.next_question().unwrap().as_bytes());
        assert_eq!(tell(&mut a, &mut b, at(24)), [("c1".to_owned(), true)]);
        assert_eq!(b.take_message("a", &a.farewell(), at(24)).len(), 1);
        assert!(b.peers.is_empty());
    }

    #[test]
    fn g08_presence_that_is_not_understood_is_ignored_and_gateways_are_limited() {
        let mut a = gateway("a");
        for json in
            ["", "[]", "{\"number\":-1}", "{\"notes\":[{\"topic\":\"a b\",\"client\":\"c\"}]}"]
        {
            assert!(a.take_message("b", json.as_bytes(), at(1)).is_empty());
        }
        for n in 0..2 * MAX_PEERS {
            a.take_message(&format!("g{n}"), b"{}", at(1));
        }
        assert_eq!(a.peers.len(), MAX_PEERS);
    }
}
