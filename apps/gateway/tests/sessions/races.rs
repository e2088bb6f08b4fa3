//! Clients of two loops publish, subscribe, end their subscriptions and come back, all at once: each of them gets everything, in
//! order and once.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use waterwheel::channel::{EventLoopGroup, yield_now};
use waterwheel::executor::{LogReporter, Reporter};
use waterwheel::net::Auto;
use waterwheel_gateway::access::config::{AccessConfig, Exposure};
use waterwheel_gateway::access::control::AccessControl;
use waterwheel_gateway::client_protocol::ClientProtocol;
use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::memory::MemoryEngine;
use waterwheel_gateway::engine::position::Position;
use waterwheel_gateway::error_code::GatewayError;
use waterwheel_gateway::metrics::counters::GatewayCounters;
use waterwheel_gateway::session::command::GatewayCommand;
use waterwheel_gateway::session::connection::{ClientConnection, CommandId};
use waterwheel_gateway::session::core::{CoreParts, GatewayCore};
use waterwheel_gateway::session::limits::GatewayLimits;
use waterwheel_gateway::session::reply::{GatewayReply, Push};
use waterwheel_gateway::session::{Session, SessionStart};

use crate::support::{filter_of, publish};

const CLIENTS: usize = 6;
const ROUNDS: u64 = 60;
const PER_ROUND: u64 = 5;

/// Keeps the positions of what the client was sent.
#[derive(Default)]
struct Reader {
    first: Cell<Option<Position>>,
    known_to: Cell<Option<Position>>,
    seen: RefCell<Vec<u64>>,
    answers: Cell<u64>,
    problems: RefCell<Vec<String>>,
}

impl ClientConnection for Reader {
    fn answer(&self, id: Option<CommandId>, answer: Result<&GatewayReply, &GatewayError>) {
        self.answers.set(self.answers.get() + 1);
        match answer {
            Ok(GatewayReply::Subscribed { gap: true, .. }) => self.note("a gap".into()),
            Ok(GatewayReply::Subscribed { position, .. }) if self.first.get().is_none() => {
                self.first.set(Some(*position));
                self.known_to.set(Some(*position));
            }
            Ok(_) => {}
            Err(error) => self.note(format!("{id:?}: {error:?}")),
        }
    }

    fn push(&self, push: &Push) {
        match push {
            Push::Publication(delivery) => {
                let position = delivery.publication().position;
                self.seen.borrow_mut().push(position.sequence);
                self.known_to.set(Some(position));
            }
            other => self.note(format!("{other:?}")),
        }
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn pause_commands(&self, _: bool) {}

    fn close(&self, error: GatewayError, _: bool) {
        self.note(format!("closed: {error:?}"));
    }
}

impl Reader {
    fn note(&self, problem: String) {
        self.problems.borrow_mut().push(problem);
    }
}

/// A client: its session ends and begins again, what it has seen stays.
struct Client {
    core: Arc<GatewayCore>,
    reader: Rc<Reader>,
    session: Option<Session>,
    asked: u64,
}

impl Client {
    fn execute(&mut self, command: GatewayCommand) {
        let (core, reader) = (&self.core, &self.reader);
        let session = self.session.get_or_insert_with(|| {
            let protocol = ClientProtocol::WebSocket;
            let start = SessionStart { protocol, peer: None, credential: None, name: None };
            Session::open(core, start, reader.clone()).expect("there is room")
        });
        self.asked += 1;
        session.execute(Some(self.asked), Ok(command));
    }

    fn subscribe(&mut self) {
        let since = self.reader.known_to.get();
        let filter = filter_of(">");
        self.execute(GatewayCommand::Subscribe { filter, since, presence: false });
    }

    async fn all_answered(&self) {
        while self.reader.answers.get() < self.asked && self.reader.problems.borrow().is_empty() {
            yield_now().await;
        }
    }
}

/// Runs a client. Returns the position at which it began, what it has seen from then on, and what was wrong.
async fn run_client(
    core: Arc<GatewayCore>,
    number: usize,
    finished: Arc<AtomicUsize>,
) -> (u64, Vec<u64>, Vec<String>) {
    let mut client = Client { core, reader: Rc::default(), session: None, asked: 0 };
    let mut random = number as u64 + 1;
    let topic = format!("t{number}");
    client.subscribe();
    client.all_answered().await;
    for _ in 0..ROUNDS {
        for _ in 0..PER_ROUND {
            client.execute(publish(&topic));
        }
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        for _ in 0..(random >> 33) % 4 {
            yield_now().await;
        }
        // A session that ends with answers on the way does not know what was published.
        client.all_answered().await;
        match (random >> 40) % 3 {
            0 => drop(client.session.take()),
            1 => client.execute(GatewayCommand::Unsubscribe { filter: filter_of(">") }),
            _ => continue,
        }
        for _ in 0..(random >> 50) % 3 {
            yield_now().await;
        }
        client.subscribe();
    }
    client.all_answered().await;
    finished.fetch_add(1, Ordering::SeqCst);
    while finished.load(Ordering::SeqCst) < CLIENTS {
        yield_now().await;
    }
    // What was published at the end comes to this session, or is recovered by the next one.
    drop(client.session.take());
    client.subscribe();
    client.all_answered().await;
    let first = client.reader.first.get().map_or(0, |first| first.sequence);
    (first, client.reader.seen.take(), client.reader.problems.take())
}

#[test]
fn g02_clients_of_two_loops_that_come_and_go_get_everything_in_order_and_once() {
    let reporter: Arc<dyn Reporter> = Arc::new(LogReporter);
    let access = AccessControl::new(&AccessConfig::default(), Exposure::Loopback, &reporter);
    let parts = CoreParts {
        access: Arc::new(access.unwrap()),
        counters: Arc::new(GatewayCounters::default()),
        limits: GatewayLimits::default(),
    };
    let history = HistoryLimits::default();
    let core = GatewayCore::new(parts, |sink| Ok(Arc::new(MemoryEngine::new(history, sink))));
    let core = core.unwrap();
    let loops = EventLoopGroup::builder(Auto).threads(2).build().unwrap();
    let finished = Arc::new(AtomicUsize::new(0));
    let running: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (core, finished) = (core.clone(), finished.clone());
            loops.next().spawn_with(move || run_client(core, number, finished)).unwrap()
        })
        .collect();
    let last = CLIENTS as u64 * ROUNDS * PER_ROUND;
    for client in running {
        let (first, seen, problems) = client.join().unwrap();
        assert_eq!(problems, Vec::<String>::new());
        let wrong = seen.iter().zip(first + 1..).find(|(seen, expected)| *seen != expected);
        assert_eq!((wrong, seen.len() as u64), (None, last - first), "each once, in order");
    }
    let limit = Duration::from_secs(20);
    loops.shutdown_gracefully(Duration::ZERO, limit).unwrap().join().unwrap();
    assert_eq!(core.clients(), 0);
}
