//! The task of an engine: it owns all state, and takes one event after the other, on one loop.
//!
//! ```text
//!   Away ──time──► Connecting ──► Greeting ──INFO, TLS──► SigningIn ──PONG──► Preparing ──stream──► Loading ──read──► Ready
//!     ▲                                                                                                                │
//!     └─────────────────────────── the link ends, a limit of time is reached, the server is about to end ──────────────┘
//! ```
//!
//! | step | file |
//! |---|---|
//! | making a link, losing it, keeping it alive | `link` |
//! | finding the stream and reading it | `stream` |
//! | publishing, acknowledgements | `publishing` |
//! | calls of the gateway | this one |
//! | the end | `ending` |
//!
//! Nothing here is shared: calls come as events, answers leave by promises, and the sink is called by the task itself, between two
//! changes of its state.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use waterwheel::channel::{EventLoop, timeout};
use waterwheel::codec::{NatsMessage, NatsOperation};
use waterwheel::executor::{Clock, Nanos};
use waterwheel::tls::ClientTls;

use super::NAME;
use super::calls::{WaitingCall, WaitingCalls};
use super::ending::Closing;
use super::events::{CallPromise, EngineCall, EngineEvent, EventQueue};
use super::link::server_list::ServerList;
use super::link::states::{NatsLink, NatsLinkState};
use super::options::NatsOptions;
use super::presence::{EXPIRY_INTERVALS, PresenceChange, PresenceExchange};
use super::requests::{PublishBatches, Requests, unavailable};
use super::stream::log::{GapAfter, StreamLog};
use super::stream::reading::StreamReader;
use super::stream::subject::SubjectNames;
use crate::engine::limits::HistoryLimits;
use crate::engine::remote::back_off::{BackOff, random};
use crate::engine::{EngineError, EngineSink, EngineStatus};

/// The longest time between two looks at the clock.
const TICK: Duration = Duration::from_millis(50);

/// The first time between two rounds of attempts to connect; it doubles.
const FIRST_BACK_OFF: Duration = Duration::from_millis(100);

/// The longest time between two rounds.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(5);

/// Maximum number of calls that wait for the end of the stream: the clients of a gateway that all resume at once.
const MAX_WAITING_CALLS: usize = 100_000;

/// The state of an engine.
pub(super) struct EngineTask {
    pub(super) options: NatsOptions,
    pub(super) tls: Option<ClientTls>,
    pub(super) limits: HistoryLimits,
    pub(super) names: SubjectNames,
    pub(super) event_loop: EventLoop,
    pub(super) queue: Arc<EventQueue>,
    pub(super) status: Arc<Mutex<EngineStatus>>,
    /// `None` once the engine is closed.
    pub(super) sink: Option<Arc<dyn EngineSink>>,
    pub(super) servers: ServerList,
    pub(super) back_off: BackOff,
    pub(super) link: NatsLink,
    pub(super) requests: Requests,
    pub(super) batches: PublishBatches,
    pub(super) log: StreamLog,
    pub(super) reader: StreamReader,
    pub(super) calls: WaitingCalls,
    pub(super) presence: PresenceExchange,
    pub(super) until_available: Vec<(Nanos, CallPromise<()>)>,
    pub(super) closing: Option<Closing>,
    pub(super) now: Nanos,
    /// Nanoseconds from the origin of the loop's clock to 1970, as histories count ages by the time of the servers.
    to_wall_clock: u64,
}

impl EngineTask {
    pub(super) fn new(
        (options, tls): (NatsOptions, Option<ClientTls>),
        limits: HistoryLimits,
        event_loop: EventLoop,
        (queue, status): (Arc<EventQueue>, Arc<Mutex<EngineStatus>>),
        sink: Arc<dyn EngineSink>,
    ) -> Self {
        let id = format!("{:08x}{:08x}", random(), random());
        // Three of them are missed before the clients of a gateway leave.
        let interval = options.presence / EXPIRY_INTERVALS;
        Self {
            names: SubjectNames::new(&options.prefix),
            servers: ServerList::new(options.url.servers().to_vec(), random()),
            back_off: BackOff::new(FIRST_BACK_OFF, LONGEST_BACK_OFF),
            requests: Requests::new(format!("_INBOX.{id}.")),
            presence: PresenceExchange::new(id, interval, limits.present_clients),
            options,
            tls,
            limits,
            event_loop,
            queue,
            status,
            sink: Some(sink),
            link: NatsLink::default(),
            batches: PublishBatches::default(),
            log: StreamLog::new(limits),
            reader: StreamReader::default(),
            calls: WaitingCalls::default(),
            until_available: Vec::new(),
            closing: None,
            now: Nanos(0),
            to_wall_clock: 0,
        }
    }

    /// Runs until the engine is closed.
    pub(super) async fn run(mut self) {
        self.set_wall_clock();
        while !self.may_end() {
            let queue = self.queue.clone();
            let events = timeout(TICK, poll_fn(|context| queue.poll_take(context))).await;
            self.now = Clock::Monotonic.now();
            for event in events.unwrap_or_default() {
                self.take_event(event);
            }
            self.look_at_clock();
            self.answer_calls();
            self.tell_presence();
            self.link.flush();
            self.publish_status();
            self.tell_available();
        }
        self.end();
    }

    /// Returns the time by the servers' clock.
    pub(super) fn wall_clock(&self) -> Nanos {
        Nanos(self.now.0.saturating_add(self.to_wall_clock))
    }

    /// Returns the limit of time of what begins now.
    pub(super) fn time_limit(&self) -> Nanos {
        self.now.plus(self.options.timeout)
    }

    /// Sends an operation, if there is a link.
    pub(super) fn send(&self, operation: NatsOperation) {
        self.link.send(operation);
    }

    /// Calls the sink. Its panic concerns this call alone: the panic hook has told of it.
    pub(super) fn tell(&self, call: impl FnOnce(&dyn EngineSink)) {
        if let Some(sink) = &self.sink {
            let _ = catch_unwind(AssertUnwindSafe(|| call(&**sink)));
        }
    }

    /// Tells the sink of a gap.
    pub(super) fn tell_gap(&self, gap: Option<GapAfter>) {
        if let Some(GapAfter(last)) = gap {
            self.tell(|sink| sink.on_gap(last));
        }
    }

    fn tell_changes(&self, changes: Vec<PresenceChange>) {
        for PresenceChange { topic, member, is_present } in changes {
            self.tell(|sink| sink.on_presence(&topic, &member, is_present));
        }
    }

    /// Takes a message of another gateway about its clients.
    pub(super) fn take_presence(&mut self, message: &NatsMessage) {
        if let Some(gateway) = self.names.gateway_of(&message.subject) {
            let changes = self.presence.take_message(gateway, &message.payload, self.now);
            self.tell_changes(changes);
        } else {
            self.presence.take_question(&message.payload);
        }
    }

    /// Returns an error if the engine cannot answer.
    pub(super) fn check_available(&self, wanted: NatsLinkState) -> Result<(), EngineError> {
        if self.closing.is_some() {
            return Err(unavailable("it is being closed"));
        }
        match self.link.state >= wanted {
            true => Ok(()),
            false => Err(unavailable(self.link.description())),
        }
    }

    fn take_event(&mut self, event: EngineEvent) {
        match event {
            EngineEvent::Call(call) => self.take_call(call),
            EngineEvent::Connected(link, outcome) => self.take_connected(link, outcome),
            EngineEvent::Greeted(link, info) => self.take_greeting(link, *info),
            EngineEvent::Operations(link, operations) => self.take_operations(link, operations),
            EngineEvent::Lost(link, cause) if self.link.number == link => self.lose_link(&cause),
            EngineEvent::Lost(..) => {}
        }
    }

    fn take_call(&mut self, call: EngineCall) {
        match call {
            EngineCall::Publish(publications, promise) => self.publish(publications, promise),
            EngineCall::Subscribe(filter, promise) => {
                // Before the position is known, so that nothing after it is left out.
                self.log.interest.insert(&filter);
                self.wait_for_end(WaitingCall::Subscribe(filter, promise));
            }
            EngineCall::Unsubscribe(filter) => self.log.interest.remove(&filter),
            EngineCall::History(query, promise) => {
                self.wait_for_end(WaitingCall::History(query, promise));
            }
            EngineCall::Enter(topic, member) => {
                let change = self.presence.enter(&topic, &member);
                self.tell_changes(Vec::from_iter(change));
            }
            EngineCall::Leave(topic, client) => {
                let change = self.presence.leave(&topic, &client);
                self.tell_changes(Vec::from_iter(change));
            }
            EngineCall::Presence(topic, limit, promise) => {
                let available = self.check_available(NatsLinkState::Loading);
                promise.set_success(available.map(|()| self.presence.page(&topic, limit)));
            }
            EngineCall::Topics(limit, promise) => {
                self.wait_for_end(WaitingCall::Topics(limit, promise));
            }
            EngineCall::WaitAvailable(promise) => {
                self.until_available.push((self.time_limit(), promise));
            }
            EngineCall::Close(promise) => {
                let until = self.time_limit();
                let closing = self.closing.get_or_insert(Closing { promises: Vec::new(), until });
                closing.promises.extend(promise);
            }
        }
    }

    fn wait_for_end(&mut self, call: WaitingCall) {
        let available = self.check_available(NatsLinkState::Loading).and_then(|()| {
            match self.calls.len() < MAX_WAITING_CALLS {
                true => Ok(()),
                false => Err(unavailable("too many calls wait for an answer")),
            }
        });
        match available {
            Ok(()) => self.calls.push(self.time_limit(), call),
            Err(error) => self.fail_call(call, error),
        }
    }

    /// Ends a call with an error.
    pub(super) fn fail_call(&mut self, call: WaitingCall, error: EngineError) {
        match call {
            WaitingCall::Subscribe(filter, promise) => {
                self.log.interest.remove(&filter);
                promise.set_success(Err(error));
            }
            WaitingCall::History(_, promise) => {
                promise.set_success(Err(error));
            }
            WaitingCall::Topics(_, promise) => {
                promise.set_success(Err(error));
            }
        }
    }

    /// Asks for the end of the stream if calls wait for it, and answers those whose end was read.
    fn answer_calls(&mut self) {
        let may_ask = self.link.state >= NatsLinkState::Loading && !self.is_preparing();
        if may_ask && self.calls.begin_question() {
            self.ask_for_end();
        }
        while let Some(call) = self.calls.take_ready(self.log.last().sequence) {
            let wall_clock = self.wall_clock();
            match call {
                WaitingCall::Subscribe(_, promise) => promise.set_success(Ok(self.log.last())),
                WaitingCall::History(query, promise) => {
                    promise.set_success(Ok(self.log.read(&query, wall_clock)))
                }
                WaitingCall::Topics(limit, promise) => {
                    promise.set_success(Ok(self.log.facts(limit, wall_clock)))
                }
            };
        }
    }

    fn look_at_clock(&mut self) {
        self.watch_link();
        while let Some(awaited) = self.requests.take_expired(self.now) {
            self.fail_request(awaited, "NATS did not answer in time");
        }
        while let Some(call) = self.calls.take_expired(self.now) {
            self.fail_call(call, unavailable("the stream was not read in time"));
        }
        let dead = match self.link.state == NatsLinkState::Ready {
            true => self.presence.expire(self.now),
            false => Vec::new(), // Nobody can be heard.
        };
        self.tell_changes(dead);
    }

    /// Tells those that wait for the engine that it is available, or that their time is over.
    fn tell_available(&mut self) {
        let is_ready = self.link.state == NatsLinkState::Ready;
        let now = self.now;
        let ended = |(until, _): &mut (Nanos, _)| is_ready || *until <= now;
        let ended: Vec<_> = self.until_available.extract_if(.., ended).collect();
        for (_, promise) in ended {
            promise.set_success(self.check_available(NatsLinkState::Ready));
        }
    }

    fn tell_presence(&mut self) {
        if self.link.state < NatsLinkState::Loading {
            return;
        }
        let subject = self.names.presence_of(self.presence.me());
        for payload in self.presence.messages(self.now) {
            self.send(NatsOperation::Publish(NatsMessage::new(subject.clone(), payload)));
        }
        if let Some(gateway) = self.presence.next_question() {
            let subject = self.names.presence_question();
            self.send(NatsOperation::Publish(NatsMessage::new(subject, gateway)));
        }
    }

    fn publish_status(&self) {
        let (topics, held_publications, held_bytes) = self.log.totals();
        let is_available = self.check_available(NatsLinkState::Ready).is_ok();
        let status = EngineStatus {
            is_available,
            description: self.link.description(),
            reconnects: self.link.reconnects,
            in_flight: (self.requests.load().0 + self.calls.len()) as u64,
            lag: is_available.then(|| self.lag()).flatten(),
            topics: topics as u64,
            held_publications: held_publications as u64,
            held_bytes: held_bytes as u64,
        };
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    /// Returns how long NATS takes to answer; see [`EngineStatus::lag`].
    fn lag(&self) -> Option<Duration> {
        // What began first ends first, because everything has the same limit of time.
        let limit = self.requests.oldest_limit().into_iter().chain(self.calls.oldest_limit()).min();
        let waited = limit.map(|until| self.options.timeout.saturating_sub(until.since(self.now)));
        waited.max(self.link.answer_time(self.now))
    }

    /// Takes the difference of the clocks anew, after a step of the system's clock.
    pub(super) fn set_wall_clock(&mut self) {
        self.now = Clock::Monotonic.now();
        #[allow(clippy::disallowed_methods, reason = "servers tell the time of day of a message")]
        let wall_clock =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let wall_clock = u64::try_from(wall_clock.as_nanos()).unwrap_or(u64::MAX);
        self.to_wall_clock = wall_clock.saturating_sub(self.now.0);
    }
}

impl std::fmt::Debug for EngineTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineTask").field("engine", &NAME).finish_non_exhaustive()
    }
}
