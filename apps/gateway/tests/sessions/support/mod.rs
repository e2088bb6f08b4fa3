//! A gateway on a loop, and clients that write down what they are told.

mod scripted_engine;

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use waterwheel::channel::LocalLoop;
use waterwheel::executor::{LogReporter, Reporter};
use waterwheel_gateway::access::config::{AccessConfig, Exposure};
use waterwheel_gateway::access::control::AccessControl;
use waterwheel_gateway::client_protocol::ClientProtocol;
use waterwheel_gateway::engine::position::Position;
use waterwheel_gateway::engine::publication::PublicationPayload;
use waterwheel_gateway::error_code::GatewayError;
use waterwheel_gateway::metrics::counters::GatewayCounters;
use waterwheel_gateway::session::command::{GatewayCommand, PublishItem};
use waterwheel_gateway::session::connection::{ClientConnection, CommandId};
use waterwheel_gateway::session::core::{CoreParts, GatewayCore};
use waterwheel_gateway::session::limits::GatewayLimits;
use waterwheel_gateway::session::reply::{GatewayReply, Push};
use waterwheel_gateway::session::{Session, SessionStart};
use waterwheel_gateway::topic::filter::TopicFilter;
use waterwheel_gateway::topic::limits::TopicLimits;
use waterwheel_gateway::topic::name::Topic;
use waterwheel_testkit::embedded::Embedded;

use self::scripted_engine::{EngineHandle, ScriptedEngine};

const EPOCH: u32 = 1;

/// A gateway on one loop.
pub(crate) struct Bench {
    pub(crate) core: Arc<GatewayCore>,
    pub(crate) engine: Arc<ScriptedEngine>,
    pub(crate) event_loop: Embedded,
}

impl Bench {
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    /// Starts a gateway with changed limits.
    pub(crate) fn with(change: impl FnOnce(&mut GatewayLimits)) -> Self {
        let mut limits = GatewayLimits::default();
        change(&mut limits);
        Self::with_access(limits, AccessConfig::default())
    }

    /// Starts a gateway with these limits and this configuration of access.
    pub(crate) fn with_access(limits: GatewayLimits, access: AccessConfig) -> Self {
        let reporter: Arc<dyn Reporter> = Arc::new(LogReporter);
        let access = AccessControl::new(&access, Exposure::Loopback, &reporter).unwrap();
        let counters = Arc::new(GatewayCounters::default());
        let parts = CoreParts { access: Arc::new(access), counters, limits };
        let mut script = None;
        let core = GatewayCore::new(parts, |sink| {
            let engine = script.insert(Arc::new(ScriptedEngine::new(sink)));
            Ok(Arc::new(EngineHandle(engine.clone())))
        });
        let event_loop = Embedded::new(|_| Ok(())).unwrap();
        Self { core: core.unwrap(), engine: script.unwrap(), event_loop }
    }

    /// Opens a client.
    pub(crate) fn client(&mut self) -> TestClient {
        self.named_client(None).unwrap()
    }

    pub(crate) fn named_client(&mut self, name: Option<&str>) -> Result<TestClient, GatewayError> {
        self.open(name, None)
    }

    /// Opens a client with an address.
    pub(crate) fn client_of(&mut self, peer: &str) -> Result<TestClient, GatewayError> {
        self.open(None, Some(peer.parse().unwrap()))
    }

    fn open(
        &mut self,
        name: Option<&str>,
        peer: Option<IpAddr>,
    ) -> Result<TestClient, GatewayError> {
        let start = SessionStart {
            protocol: ClientProtocol::WebSocket,
            peer,
            credential: None,
            name: name.map(str::to_owned),
        };
        let notes = Rc::new(ClientNotes { is_ready: Cell::new(true), told: RefCell::default() });
        let core = self.core.clone();
        let connection = notes.clone();
        let session = self.event_loop.on_loop(|_| Session::open(&core, start, connection))?;
        Ok(TestClient { session: Some(session), notes })
    }

    /// Lets a client execute a command, and runs the loop until nothing is to be done.
    pub(crate) fn execute(&mut self, client: &TestClient, id: u64, command: GatewayCommand) {
        self.event_loop.on_loop(|_| client.session().execute(Some(id), Ok(command)));
        self.event_loop.run();
    }

    /// Subscribes, and returns what the client was told.
    pub(crate) fn subscribe(&mut self, client: &TestClient, topic: &str) -> Vec<String> {
        self.execute(client, 0, subscribe(topic, None));
        client.told()
    }

    /// Adds publications to a topic, and runs the loop.
    pub(crate) fn publish(&mut self, topic: &str, count: usize) {
        for _ in 0..count {
            self.engine.add(topic, false);
        }
        self.event_loop.run();
    }

    /// Adds publications of some bytes to a topic, and runs the loop.
    pub(crate) fn publish_large(&mut self, topic: &str, count: usize, bytes: usize) {
        for _ in 0..count {
            self.engine.add_text(topic, "x".repeat(bytes), false);
        }
        self.event_loop.run();
    }

    /// Begins the drain of the core on the loop. Returns whether it has ended.
    pub(crate) fn drain(&mut self) -> Rc<Cell<bool>> {
        let has_ended = Rc::new(Cell::new(false));
        let (core, ended) = (self.core.clone(), has_ended.clone());
        self.event_loop.on_loop(|_| {
            let here = LocalLoop::current().unwrap();
            drop(here.spawn_local(async move {
                core.drain().await;
                ended.set(true);
            }));
        });
        self.event_loop.run();
        has_ended
    }

    pub(crate) fn advance(&mut self, time: Duration) {
        self.event_loop.advance(time);
    }
}

/// A client that writes down what it is told.
pub(crate) struct TestClient {
    session: Option<Session>,
    notes: Rc<ClientNotes>,
}

struct ClientNotes {
    is_ready: Cell<bool>,
    told: RefCell<Vec<String>>,
}

impl TestClient {
    pub(crate) fn session(&self) -> &Session {
        self.session.as_ref().unwrap()
    }

    /// Returns what the client was told since the last call.
    pub(crate) fn told(&self) -> Vec<String> {
        self.notes.told.take()
    }

    /// Says whether the client takes what it is sent.
    pub(crate) fn set_ready(&self, is_ready: bool) {
        self.notes.is_ready.set(is_ready);
    }

    /// Ends the session.
    pub(crate) fn leave(mut self, bench: &mut Bench) {
        bench.event_loop.on_loop(|_| drop(self.session.take()));
        bench.event_loop.run();
    }
}

impl ClientNotes {
    fn note(&self, note: String) {
        self.told.borrow_mut().push(note);
    }
}

impl ClientConnection for ClientNotes {
    fn answer(&self, id: Option<CommandId>, answer: Result<&GatewayReply, &GatewayError>) {
        let id = id.map_or_else(|| "-".into(), |id| id.to_string());
        self.note(match answer {
            Ok(GatewayReply::Subscribed { position, recovered, gap }) => {
                let gap = if *gap { " gap" } else { "" };
                format!("{id} subscribed at {} with {recovered}{gap}", position.sequence)
            }
            Ok(GatewayReply::Published { position, receivers }) => {
                format!("{id} published at {} for {receivers}", position.sequence)
            }
            Ok(_) => format!("{id} ok"),
            Err(error) => format!("{id} {}", error.code.name()),
        });
    }

    fn push(&self, push: &Push) {
        self.note(match push {
            Push::Publication(delivery) => delivery.publication().position.sequence.to_string(),
            Push::Missed { count, position } => {
                let after = position.map_or(0, |position| position.sequence);
                format!("missed {count} after {after}")
            }
            Push::Presence { topic, member, is_present } => {
                format!(
                    "{} {topic} {}",
                    member.client,
                    if *is_present { "joins" } else { "leaves" }
                )
            }
            Push::Direct { from, text } => format!("{text:?} from {from}"),
            Push::Unsubscribed { filter, .. } => format!("unsubscribed {filter}"),
            Push::Closing { .. } => "closing".into(),
        });
    }

    fn is_ready(&self) -> bool {
        self.is_ready.get()
    }

    fn pause_commands(&self, is_paused: bool) {
        self.note(if is_paused { "pause".into() } else { "go on".into() });
    }

    fn close(&self, error: GatewayError, _: bool) {
        self.note(format!("close {}", error.code.name()));
    }
}

pub(crate) fn position(sequence: u64) -> Position {
    Position { epoch: EPOCH, sequence }
}

fn topic_of(text: &str) -> Topic {
    Topic::parse(text, &TopicLimits::default()).unwrap()
}

pub(crate) fn filter_of(text: &str) -> TopicFilter {
    TopicFilter::parse(text, &TopicLimits::default()).unwrap()
}

pub(crate) fn subscribe(topic: &str, since: Option<u64>) -> GatewayCommand {
    GatewayCommand::Subscribe {
        filter: filter_of(topic),
        since: since.map(position),
        presence: false,
    }
}

pub(crate) fn publish(topic: &str) -> GatewayCommand {
    let payload = PublicationPayload::Text("text".into());
    GatewayCommand::Publish(PublishItem { topic: topic_of(topic), payload })
}

pub(crate) fn subscribe_with_presence(topic: &str) -> GatewayCommand {
    GatewayCommand::Subscribe { filter: filter_of(topic), since: None, presence: true }
}
