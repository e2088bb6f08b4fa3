//! Finding the stream: its state is asked for, it is created or configured if need be, and then it is read.

use std::time::Duration;

use super::jetstream::{ApiAnswer, NO_RESPONDERS, StreamConfig, set_stream, stream_info};
use crate::engine::nats::NAME;
use crate::engine::nats::link::states::{NatsLinkState, TOPICS};
use crate::engine::nats::requests::Awaited;
use crate::engine::nats::task::EngineTask;
use crate::engine::remote::back_off::random;

/// The time before a stream that seems to have lost its end is asked for it again.
const ASK_AGAIN: Duration = Duration::from_millis(100);

impl EngineTask {
    /// Asks for the state of the stream, to read it from the last number that was read.
    pub(super) fn prepare(&mut self) {
        self.reader.is_preparing = true;
        self.reader.ask_again = None;
        let reply = self.requests.begin(Awaited::StreamState, self.time_limit());
        self.send(stream_info(&self.names, reply));
    }

    /// Takes the state of the stream.
    pub(super) fn take_stream(&mut self, answer: Result<ApiAnswer, String>) {
        let mut wanted = StreamConfig::new(&self.names, &self.limits, self.options.replicas);
        let answer = match answer {
            Ok(answer) => answer,
            // A server with JetStream that is not ready yet does not answer either.
            Err(reason) if reason == NO_RESPONDERS && !self.link.info.jetstream => {
                return self.attach_plain();
            }
            Err(reason) => return self.lose_link(&format!("JetStream: {reason}")),
        };
        if let Some(error) = answer.error {
            return match error.is_stream_missing() {
                true => self.send_stream(&wanted, true),
                false => self.lose_link(&format!("JetStream: {}", error.description)),
            };
        }
        let found = answer.stream_config();
        wanted.description = found.clone().map(|found| found.description).unwrap_or_default();
        if self.log.is_ahead_of(answer.epoch(), answer.state.unwrap_or_default()) {
            // A server that has just taken over may not know its end yet.
            let since = *self.reader.behind_since.get_or_insert(self.now);
            if self.now.since(since) < self.options.timeout / 2 {
                self.reader.ask_again = Some(self.now.plus(ASK_AGAIN));
                return;
            }
            wanted.description = format!("publications of Waterwheel, run {:08x}", random());
            tracing::error!(
                engine = NAME,
                "the stream has lost its newest publications; positions begin anew"
            );
        }
        self.reader.behind_since = None;
        if found.is_some_and(|found| found == wanted) {
            return self.attach_stream(&answer);
        }
        self.reader.found = Some(answer);
        self.send_stream(&wanted, false);
    }

    fn send_stream(&mut self, wanted: &StreamConfig, is_new: bool) {
        let reply = self.requests.begin(Awaited::StreamSet, self.time_limit());
        self.send(set_stream(&self.names, wanted, is_new, reply));
    }

    /// Takes the answer to the creation or the change of the stream.
    pub(super) fn take_stream_set(&mut self, answer: Result<ApiAnswer, String>) {
        let found = self.reader.found.take();
        let error = match answer {
            Ok(ApiAnswer { error: Some(error), .. }) => error.description,
            Ok(answer) => return self.attach_stream(&answer),
            Err(reason) => reason,
        };
        match found {
            Some(found) => {
                tracing::warn!(engine = NAME, "the stream keeps its configuration: {error}");
                self.attach_stream(&found);
            }
            None => self.lose_link(&format!("the stream cannot be created: {error}")),
        }
    }

    fn attach_stream(&mut self, stream: &ApiAnswer) {
        self.reader.is_plain = false;
        let gap = self.log.attach(stream.epoch(), stream.state.unwrap_or_default());
        self.start_consumer();
        self.tell_gap(gap);
        if self.link.state < NatsLinkState::Loading {
            self.link.state = NatsLinkState::Loading;
        }
        self.watch_reader();
    }

    fn attach_plain(&mut self) {
        self.reader.is_plain = true;
        self.reader.is_preparing = false;
        let epoch = *self.reader.plain_epoch.get_or_insert_with(random);
        let gap = self.log.attach_plain(epoch);
        self.subscribe(self.names.all_topics(), TOPICS);
        tracing::warn!(
            engine = NAME,
            "no JetStream: publications are not kept by NATS, and what is missed is lost"
        );
        self.link.state = NatsLinkState::Loading;
        self.tell_gap(gap);
        self.watch_reader();
    }
}
