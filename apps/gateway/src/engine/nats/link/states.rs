//! Making a link, keeping it alive, losing it.

use std::time::Duration;

use waterwheel::channel::Channel;
use waterwheel::codec::{NatsMessage, NatsOperation};
use waterwheel::executor::{Error, Nanos};
use waterwheel::tls::rustls::pki_types::ServerName;

use super::LinkTls;
use super::server_info::{ServerInfo, connect_options};
use crate::engine::nats::NAME;
use crate::engine::nats::options::{NatsOptionError, server_name};
use crate::engine::nats::requests::unavailable;
use crate::engine::nats::task::EngineTask;
use crate::engine::nats::url::NatsServer;

/// The time that requests are given to end before a server is left that is about to end.
const LEAVING: Duration = Duration::from_secs(2);

/// The bounds of the time between two PINGs, by which a gateway measures how long the server takes to answer.
const SHORTEST_PING_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PING_PAUSE: Duration = Duration::from_secs(1);

/// The id of the subscription to answers.
pub(in crate::engine::nats) const ANSWERS: &[u8] = b"answers";

/// The id of the subscription to the presence of other gateways.
pub(in crate::engine::nats) const PRESENCE: &[u8] = b"presence";

/// The id of the subscription to all topics, without a stream.
pub(in crate::engine::nats) const TOPICS: &[u8] = b"topics";

/// The state of a link, in the order in which it is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::engine::nats) enum NatsLinkState {
    /// Waits for the next attempt.
    #[default]
    Away,
    Connecting,
    /// Connected; waits for the server's INFO, and TLS.
    Greeting,
    /// Waits for the answer to the credentials.
    SigningIn,
    /// Waits for the stream.
    Preparing,
    /// Reads what the stream has.
    Loading,
    Ready,
}

/// The connection to a server.
#[derive(Default)]
pub(in crate::engine::nats) struct NatsLink {
    /// Ascends with each attempt: events of earlier links are ignored.
    pub(in crate::engine::nats) number: u64,
    pub(in crate::engine::nats) state: NatsLinkState,
    channel: Option<Channel>,
    server: Option<NatsServer>,
    pub(in crate::engine::nats) info: ServerInfo,
    /// The end of the time for this state, or for the next attempt.
    until: Nanos,
    last_read: Nanos,
    /// When the server was sent the PING that it has not answered.
    pinged: Option<Nanos>,
    /// When the next PING is due.
    next_ping: Nanos,
    /// The time that the last answer to a PING has taken, of this link.
    ping_duration: Option<Duration>,
    /// When the server is left that has announced its end.
    leave_by: Option<Nanos>,
    /// Why the last link has ended.
    problem: Option<String>,
    /// Attempts that failed, since the last link that was ready.
    failures: usize,
    /// Times that a link was ready again.
    pub(in crate::engine::nats) reconnects: u64,
    was_ready: bool,
}

impl NatsLink {
    pub(in crate::engine::nats) fn send(&self, operation: NatsOperation) {
        if let Some(channel) = &self.channel {
            channel.send(operation);
        }
    }

    pub(in crate::engine::nats) fn flush(&self) {
        if let Some(channel) = &self.channel {
            channel.flush();
        }
    }

    /// Returns the time that the last answer to a PING has taken or, if that is longer, that the next one has taken so far.
    pub(in crate::engine::nats) fn answer_time(&self, now: Nanos) -> Option<Duration> {
        self.ping_duration.max(self.pinged.map(|pinged| now.since(pinged)))
    }

    /// Returns a sentence about the link, for operators.
    pub(in crate::engine::nats) fn description(&self) -> String {
        let server =
            self.server.as_ref().map_or_else(|| "no server".to_owned(), ToString::to_string);
        let problem = match &self.problem {
            Some(problem) => format!("; before: {problem}"),
            None => String::new(),
        };
        let ServerInfo { server_name, version, .. } = &self.info;
        match self.state {
            NatsLinkState::Away => format!("not connected{problem}"),
            NatsLinkState::Connecting | NatsLinkState::Greeting | NatsLinkState::SigningIn => {
                format!("connecting to {server}{problem}")
            }
            NatsLinkState::Preparing => format!("preparing the stream on {server}{problem}"),
            NatsLinkState::Loading => format!("reading the stream from {server}"),
            NatsLinkState::Ready => {
                format!("connected to {server_name} (nats-server {version}) at {server}")
            }
        }
    }
}

impl EngineTask {
    /// Does what the time demands: an attempt, a sign of life, the end of a link that is silent.
    pub(in crate::engine::nats) fn watch_link(&mut self) {
        match self.link.state {
            NatsLinkState::Away if self.now >= self.link.until => self.connect(),
            NatsLinkState::Away => {}
            NatsLinkState::Loading | NatsLinkState::Ready => {
                self.watch_silence();
                self.watch_reader();
                self.leave_if_ending();
            }
            NatsLinkState::Preparing if self.now < self.link.until => self.watch_reader(),
            _ if self.now >= self.link.until => {
                self.lose_link(&format!("{} took too long", self.link.description()));
            }
            _ => {}
        }
    }

    /// Takes the outcome of a connect.
    pub(in crate::engine::nats) fn take_connected(
        &mut self,
        link: u64,
        outcome: Result<Channel, Error>,
    ) {
        match outcome {
            Ok(channel)
                if link == self.link.number && self.link.state >= NatsLinkState::Connecting =>
            {
                self.link.channel = Some(channel);
                if self.link.state == NatsLinkState::Connecting {
                    self.link.state = NatsLinkState::Greeting;
                } else {
                    self.sign_in(); // The greeting was faster than the outcome.
                }
            }
            Ok(channel) => channel.close_without_future(),
            Err(error) if link == self.link.number => self.lose_link(&error.to_string()),
            Err(_) => {}
        }
    }

    /// Takes the INFO of a server.
    pub(in crate::engine::nats) fn take_greeting(&mut self, link: u64, info: ServerInfo) {
        if link != self.link.number {
            return;
        }
        self.take_info(info);
        self.link.state = NatsLinkState::SigningIn;
        if self.link.channel.is_some() {
            self.sign_in();
        }
    }

    /// Takes the operations of one read.
    pub(in crate::engine::nats) fn take_operations(
        &mut self,
        link: u64,
        operations: Vec<NatsOperation>,
    ) {
        if link == self.link.number {
            self.link.last_read = self.now;
        }
        for operation in operations {
            if link != self.link.number {
                return; // Lost by the operation before.
            }
            match operation {
                NatsOperation::Deliver { subscription, message } => {
                    self.take_message(&subscription, message);
                }
                NatsOperation::Ping => self.send(NatsOperation::Pong),
                NatsOperation::Pong if self.link.state == NatsLinkState::SigningIn => {
                    self.begin_reading();
                }
                NatsOperation::Pong => {
                    if let Some(pinged) = self.link.pinged.take() {
                        self.link.ping_duration = Some(self.now.since(pinged));
                    }
                }
                NatsOperation::Info(json) => {
                    if let Ok(info) = ServerInfo::parse(&json) {
                        self.take_info(info);
                    }
                }
                NatsOperation::Error(text) => self.take_server_error(&text),
                _ => {}
            }
        }
    }

    /// Ends the link, and plans the next attempt.
    pub(in crate::engine::nats) fn lose_link(&mut self, cause: &str) {
        self.close_link();
        let server =
            self.link.server.as_ref().map_or_else(String::new, |server| format!("{server}: "));
        // What the server itself said of the end says more than the end.
        if self.link.problem.is_none() || self.link.state == NatsLinkState::Connecting {
            self.link.problem = Some(format!("{server}{cause}"));
        }
        // Further attempts are no news.
        if self.link.failures == 0 {
            let problem = self.link.problem.as_deref().unwrap_or(cause);
            tracing::warn!(
                engine = NAME,
                "the engine is not available, connecting again: {problem}"
            );
        }
        self.link.state = NatsLinkState::Away;
        self.link.failures += 1;
        // All servers are tried before a pause.
        let is_round_over = self.link.failures.is_multiple_of(self.servers.len().max(1));
        let pause = match is_round_over {
            true => self.back_off.next_delay(crate::engine::remote::back_off::random()),
            false => Duration::ZERO,
        };
        self.link.until = self.now.plus(pause);
        self.fail_everything();
    }

    /// Closes the connection. Its events are ignored from here on.
    pub(in crate::engine::nats) fn close_link(&mut self) {
        self.link.number += 1;
        if let Some(channel) = self.link.channel.take() {
            channel.close_without_future();
        }
    }

    /// Notes that the link is ready.
    pub(in crate::engine::nats) fn note_ready(&mut self) {
        if self.link.state == NatsLinkState::Ready {
            return;
        }
        self.link.state = NatsLinkState::Ready;
        self.link.reconnects += u64::from(self.link.was_ready);
        self.link.was_ready = true;
        self.link.failures = 0;
        self.link.problem = None;
        self.back_off.reset();
        tracing::info!(engine = NAME, "the engine is {}", self.link.description());
    }

    fn connect(&mut self) {
        let Some(server) = self.servers.next_server() else { return };
        self.link.number += 1;
        self.link.state = NatsLinkState::Connecting;
        self.link.until = self.time_limit();
        (self.link.pinged, self.link.leave_by) = (None, None);
        (self.link.ping_duration, self.link.next_ping) = (None, self.now);
        let name = self.tls_name(&server);
        self.link.server = Some(server.clone());
        let tls = match (self.tls.clone(), name) {
            (None, _) => None,
            (Some(config), Ok(name)) => Some(LinkTls { config, name }),
            (Some(_), Err(error)) => return self.lose_link(&error.to_string()),
        };
        let to = (self.link.number, &self.queue);
        super::connect(&self.event_loop, &server, tls, self.options.timeout, to);
    }

    /// Returns the name that the server's certificate has to have. Servers are told of by address: their certificates are checked
    /// for the name of the first server of the URL, as other clients of NATS do.
    fn tls_name(&self, server: &NatsServer) -> Result<ServerName<'static>, NatsOptionError> {
        let configured = self.options.url.servers();
        let first = configured.first().unwrap_or(server);
        server_name(&if configured.contains(server) { server } else { first }.host)
    }

    /// Returns the longest time that a server may take to answer a PING if it sends nothing else either.
    pub(in crate::engine::nats) fn ping_limit(&self) -> Duration {
        self.options.timeout / 2
    }

    fn sign_in(&mut self) {
        let is_tls = self.tls.is_some();
        self.send(NatsOperation::Connect(connect_options(&self.options, is_tls)));
        self.subscribe(self.requests.filter(), ANSWERS);
        self.subscribe(self.names.all_presence(), PRESENCE);
        self.send(NatsOperation::Ping);
        self.link.last_read = self.now;
        self.link.until = self.time_limit();
    }

    /// Subscribes to a subject under this id.
    pub(in crate::engine::nats) fn subscribe(&self, subject: String, id: &[u8]) {
        self.send(NatsOperation::Subscribe {
            subject: subject.into(),
            queue: None,
            subscription: waterwheel::bytes::Bytes::copy_from_slice(id),
        });
    }

    fn take_info(&mut self, info: ServerInfo) {
        self.servers.discover(&info.connect_urls);
        if info.is_lame_duck && self.link.leave_by.is_none() && self.servers.len() > 1 {
            self.link.leave_by = Some(self.now.plus(LEAVING));
        }
        self.link.info = info;
    }

    fn take_server_error(&mut self, text: &[u8]) {
        let text = text.escape_ascii().to_string();
        tracing::warn!(engine = NAME, "the server says: {text}");
        let server = self.link.server.as_ref().map_or_else(String::new, ToString::to_string);
        self.link.problem = Some(format!("{server}: {text}"));
    }

    fn watch_silence(&mut self) {
        let limit = self.options.timeout;
        match self.link.pinged {
            None if self.now >= self.link.next_ping => {
                self.link.pinged = Some(self.now);
                let pause = (limit / 4).clamp(SHORTEST_PING_PAUSE, LONGEST_PING_PAUSE);
                self.link.next_ping = self.now.plus(pause);
                self.send(NatsOperation::Ping);
            }
            // Both: a gateway that was stopped itself gives the server time to answer.
            Some(pinged)
                if self.now.since(pinged) >= self.ping_limit()
                    && self.now.since(self.link.last_read) >= limit =>
            {
                self.lose_link(&format!("the server was silent for {limit:?}"));
            }
            _ => {}
        }
    }

    fn leave_if_ending(&mut self) {
        let Some(by) = self.link.leave_by else { return };
        if self.requests.load().0 == 0 || self.now >= by {
            self.lose_link("the server has announced its end");
            self.link.until = self.now;
        }
    }

    /// Fails everything that waits for an answer of the server.
    fn fail_everything(&mut self) {
        self.reader.stop();
        self.presence.pause();
        while let Some(awaited) = self.requests.take_first() {
            self.fail_request(awaited, "the connection was lost before NATS had answered");
        }
        for call in self.calls.take_all() {
            self.fail_call(call, unavailable(self.link.description()));
        }
    }

    /// Publishes an empty message, as the server's control of the flow wants it.
    pub(in crate::engine::nats) fn answer_flow_control(&self, subject: waterwheel::bytes::Bytes) {
        self.send(NatsOperation::Publish(NatsMessage::new(subject, "")));
    }
}
