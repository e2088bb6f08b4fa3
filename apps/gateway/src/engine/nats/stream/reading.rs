//! Finding the stream, and reading it.
//!
//! An ordered consumer pushes everything from a number on. It counts its deliveries, and tells its count in every heartbeat: a
//! number that is missing, or silence, and the consumer is made anew from the last number that was read.

use std::sync::Arc;
use std::time::Duration;

use waterwheel::bytes::Bytes;
use waterwheel::codec::{NatsHeaders, NatsMessage, NatsOperation};
use waterwheel::executor::Nanos;

use super::envelope::from_message;
use super::jetstream::{ApiAnswer, DeliveryPlace, NO_RESPONDERS, create_consumer, stream_info};
use crate::engine::EngineError;
use crate::engine::nats::link::states::{ANSWERS, NatsLinkState, PRESENCE, TOPICS};
use crate::engine::nats::requests::{Awaited, refused, unavailable};
use crate::engine::nats::task::EngineTask;
use crate::engine::position::Position;
use crate::engine::publication::Publication;

/// The shortest heartbeat that a server accepts.
const SHORTEST_HEARTBEAT: Duration = Duration::from_millis(100);

/// Heartbeats without a delivery after which a consumer counts as lost.
const SILENT_HEARTBEATS: u32 = 3;

/// The state of the reading.
#[derive(Debug, Default)]
pub(in crate::engine::nats) struct StreamReader {
    /// Ascends with each consumer.
    generation: u64,
    /// The id of the subscription to the consumer; empty without one.
    subscription: Vec<u8>,
    /// The number of the consumer's last delivery.
    delivered: u64,
    last_delivery: Nanos,
    /// The highest number in the stream that was acknowledged to a publisher of this gateway.
    pub(in crate::engine::nats) acknowledged: u64,
    /// Present where there is no JetStream: the epoch of this run.
    pub(super) plain_epoch: Option<u32>,
    /// True while publications are not kept by a stream.
    pub(in crate::engine::nats) is_plain: bool,
    /// True while the stream's state is asked for.
    pub(super) is_preparing: bool,
    /// When the state is asked for again.
    pub(super) ask_again: Option<Nanos>,
    /// Since when the stream ends before what was read of it.
    pub(super) behind_since: Option<Nanos>,
    /// The answer that describes the stream, while its configuration is being changed.
    pub(super) found: Option<ApiAnswer>,
}

impl StreamReader {
    /// Notes that the link has ended.
    pub(in crate::engine::nats) fn stop(&mut self) {
        self.subscription.clear();
        self.is_preparing = false;
        self.ask_again = None;
        self.found = None;
        self.acknowledged = 0;
    }
}

impl EngineTask {
    /// Begins after the credentials were accepted.
    pub(in crate::engine::nats) fn begin_reading(&mut self) {
        self.set_wall_clock();
        self.link.state = NatsLinkState::Preparing;
        if !self.link.info.headers {
            return self.lose_link("the server has no headers; NATS 2.9 or later is needed");
        }
        self.presence.begin(self.now);
        self.prepare();
    }

    /// Takes a message for a subscription.
    pub(in crate::engine::nats) fn take_message(
        &mut self,
        subscription: &[u8],
        message: NatsMessage,
    ) {
        match subscription {
            ANSWERS => {
                if let Some(awaited) = self.requests.take(&message.subject) {
                    self.take_answer(awaited, &message);
                }
            }
            PRESENCE => self.take_presence(&message),
            TOPICS => self.take_plain(message),
            id if id == self.reader.subscription => self.take_delivery(message),
            _ => {} // Of a consumer before this one.
        }
    }

    /// Asks for the end of the stream, for calls that wait.
    pub(in crate::engine::nats) fn ask_for_end(&mut self) {
        if self.reader.is_plain {
            return self.calls.end_question(self.log.last().sequence);
        }
        let reply = self.requests.begin(Awaited::Barrier, self.time_limit());
        self.send(stream_info(&self.names, reply));
    }

    /// True while the end of the stream is not known to be that of the stream that is read.
    pub(in crate::engine::nats) fn is_preparing(&self) -> bool {
        self.reader.is_preparing
    }

    /// Ends a request that has no answer.
    pub(in crate::engine::nats) fn fail_request(&mut self, awaited: Awaited, reason: &str) {
        match awaited {
            Awaited::Publish { batch, index, .. } => {
                self.batches.set(batch, index, Err(unavailable(reason)));
            }
            Awaited::Barrier => {
                for call in self.calls.fail_question() {
                    self.fail_call(call, unavailable(reason));
                }
            }
            // Without them nothing is read. A lost link has made an end of them before.
            Awaited::StreamState | Awaited::StreamSet | Awaited::Consumer(_) => {
                if self.link.state >= NatsLinkState::Preparing {
                    self.lose_link(reason);
                }
            }
        }
    }

    /// Makes the consumer anew if it is silent.
    pub(in crate::engine::nats) fn watch_reader(&mut self) {
        if self.reader.ask_again.is_some_and(|time| time <= self.now) {
            self.prepare();
        }
        let limit = self.heartbeat() * SILENT_HEARTBEATS;
        let is_silent = self.now.since(self.reader.last_delivery) > limit;
        if is_silent && !self.reader.is_plain && !self.reader.is_preparing {
            self.prepare();
        }
        let is_loading = self.link.state == NatsLinkState::Loading;
        if is_loading && self.log.is_loaded() {
            self.note_ready();
        }
    }

    fn heartbeat(&self) -> Duration {
        (self.ping_limit() / 2).max(SHORTEST_HEARTBEAT)
    }

    fn take_answer(&mut self, awaited: Awaited, message: &NatsMessage) {
        let answer = ApiAnswer::parse(message);
        match awaited {
            Awaited::Publish { batch, index, .. } => {
                let result = self.acknowledgement(answer);
                self.batches.set(batch, index, result);
            }
            Awaited::Barrier => self.take_end(answer),
            Awaited::StreamState => self.take_stream(answer),
            Awaited::StreamSet => self.take_stream_set(answer),
            Awaited::Consumer(generation) => {
                let error = answer.map_or_else(Some, |answer| answer.error.map(|e| e.description));
                if let Some(error) = error
                    && generation == self.reader.generation
                {
                    self.lose_link(&format!("the stream cannot be read: {error}"));
                }
            }
        }
    }

    fn acknowledgement(
        &mut self,
        answer: Result<ApiAnswer, String>,
    ) -> Result<Position, EngineError> {
        match answer {
            Ok(ApiAnswer { error: None, seq, .. }) if seq > 0 => {
                self.reader.acknowledged = self.reader.acknowledged.max(seq);
                Ok(Position { sequence: seq, ..self.log.last() })
            }
            Ok(answer) => {
                let error = answer.error.unwrap_or_default();
                Err(refused(format!("{} ({})", error.description, error.err_code)))
            }
            Err(reason) => {
                if reason == NO_RESPONDERS && !self.reader.is_preparing {
                    self.prepare(); // The stream may have been deleted.
                }
                Err(unavailable(reason))
            }
        }
    }

    fn take_end(&mut self, answer: Result<ApiAnswer, String>) {
        match answer {
            Ok(answer) if answer.error.is_none() && self.log.is_of(answer.epoch()) => {
                let end = answer.state.unwrap_or_default().last_seq;
                return self.calls.end_question(end);
            }
            // Another stream than the one that is read, or none: the calls wait for what comes of it.
            Ok(_) => self.calls.repeat_question(),
            Err(reason) => {
                for call in self.calls.fail_question() {
                    self.fail_call(call, unavailable(reason.clone()));
                }
            }
        }
        if !self.reader.is_preparing {
            self.prepare();
        }
    }

    /// Makes a consumer that begins behind the last number that was read.
    pub(super) fn start_consumer(&mut self) {
        let reader = &mut self.reader;
        reader.is_preparing = false;
        reader.generation += 1;
        reader.delivered = 0;
        reader.last_delivery = self.now;
        let before = std::mem::take(&mut reader.subscription);
        reader.subscription = format!("consumer-{}", reader.generation).into_bytes();
        let (generation, id) = (reader.generation, reader.subscription.clone());
        if !before.is_empty() {
            let subscription = Bytes::from(before);
            self.send(NatsOperation::Unsubscribe { subscription, max_messages: None });
        }
        let to = format!("_INBOX.{}.consumer.{generation}", self.presence.me());
        self.subscribe(to.clone(), &id);
        let start = self.log.last().sequence + 1;
        let reply = self.requests.begin(Awaited::Consumer(generation), self.time_limit());
        self.send(create_consumer(&self.names, &to, start, self.heartbeat(), reply));
    }

    fn take_delivery(&mut self, message: NatsMessage) {
        self.reader.last_delivery = self.now;
        let control = message.headers.as_ref().filter(|headers| headers.status().is_some());
        if let Some(headers) = control {
            return self.take_control(headers, message.reply.clone());
        }
        let Some(place) = message.reply.as_deref().and_then(DeliveryPlace::parse) else { return };
        if place.consumer_sequence != self.reader.delivered + 1 {
            return self.start_consumer(); // A delivery was lost on the way.
        }
        self.reader.delivered = place.consumer_sequence;
        if place.stream_sequence <= self.log.last().sequence {
            return;
        }
        let (sequence, stored) = (place.stream_sequence, Nanos(place.stored));
        match self.names.topic_of(&message.subject) {
            Some(topic) => {
                let envelope = from_message(&message);
                let publication = Publication {
                    topic,
                    position: Position { sequence, ..self.log.last() },
                    payload: envelope.payload,
                    from: envelope.from,
                    time: envelope.time.unwrap_or(place.stored / 1_000_000),
                };
                self.hand_on(publication, stored);
            }
            None => {
                let gap = self.log.pass_over(sequence);
                self.tell_gap(gap);
            }
        }
    }

    fn take_control(&mut self, headers: &NatsHeaders, reply: Option<Bytes>) {
        const IDLE: u16 = 100;
        if headers.status() != Some(IDLE) {
            return self.prepare(); // The consumer was deleted, or its server ends.
        }
        if let Some(reply) = reply {
            return self.answer_flow_control(reply);
        }
        if let Some(stalled) = headers.get("Nats-Consumer-Stalled") {
            self.answer_flow_control(Bytes::copy_from_slice(stalled));
        }
        let delivered = headers.get("Nats-Last-Consumer").and_then(|n| str::from_utf8(n).ok());
        let delivered = delivered.and_then(|number| number.parse().ok());
        if delivered.is_some_and(|delivered: u64| delivered > self.reader.delivered) {
            self.start_consumer();
        }
    }

    /// Takes a message that no stream has numbered: its place is that of its arrival.
    fn take_plain(&mut self, message: NatsMessage) {
        let Some(topic) = self.names.topic_of(&message.subject) else { return };
        let last = self.log.last();
        let position = Position { sequence: last.sequence + 1, ..last };
        let envelope = from_message(&message);
        let now = self.wall_clock();
        let time = envelope.time.unwrap_or(now.0 / 1_000_000);
        let (payload, from) = (envelope.payload, envelope.from);
        self.hand_on(Publication { topic, position, payload, from, time }, now);
        // One of ours comes back with the subject for its acknowledgement.
        let own = message.reply.as_deref().and_then(|reply| self.requests.take(reply));
        if let Some(Awaited::Publish { batch, index, .. }) = own {
            self.batches.set(batch, index, Ok(position));
        }
    }

    /// Keeps a publication, and hands it on if a filter may match.
    fn hand_on(&mut self, publication: Publication, stored: Nanos) {
        let publication = Arc::new(publication);
        let is_interesting = self.log.interest.may_match(&publication.topic);
        let gap = self.log.append(Arc::clone(&publication), stored, self.wall_clock());
        self.tell_gap(gap);
        if is_interesting {
            self.tell(|sink| sink.on_publication(publication));
        }
    }
}
