//! The session of a client: carries out its commands, one after the other, and holds its subscriptions.

mod commands;
mod identity;
mod subscriptions;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use waterwheel::channel::{LocalJoin, LocalLoop, yield_now};

use self::subscriptions::ClientSubscription;
use super::command::GatewayCommand;
use super::connection::{ClientConnection, CommandId};
use super::core::{ClientPlace, GatewayCore, closing};
use super::hub::loop_table::LoopTable;
use super::hub::subscriber::Subscriber;
use super::requester::Requester;
use crate::access::rate::TokenBucket;
use crate::client_protocol::ClientProtocol;
use crate::error_code::{ErrorCode, GatewayError};
use crate::metrics::counters::ClientCounters;

/// Commands for which an empty queue keeps room.
const KEPT_COMMANDS: usize = 4;

/// Commands after which the loop turns to its other work: 64 reads of the history take some milliseconds.
const COMMANDS_PER_TURN: usize = 64;

/// The facts that are known of a client when its session is opened.
#[derive(Clone, Debug)]
pub struct SessionStart {
    /// The protocol that it speaks.
    pub protocol: ClientProtocol,
    /// The address of the client; `None` for local sockets.
    pub peer: Option<IpAddr>,
    /// The token or the admin key that came with the request.
    pub credential: Option<String>,
    /// The name that came with the request.
    pub name: Option<String>,
}

/// A client that is connected. It lives on the loop of its connection; dropping it ends all of its subscriptions.
///
/// Commands wait in a queue while one is carried out, or while the client does not take its answers; answers are written in
/// the order of the commands. A command that needs nothing of the engine is carried out inside of
/// [`execute`](Self::execute), if none waits.
pub struct Session(Rc<SessionState>);

/// The state of a session; the task that carries out commands shares it.
struct SessionState {
    core: Arc<GatewayCore>,
    table: Rc<LoopTable>,
    counters: Arc<ClientCounters>,
    connection: Rc<dyn ClientConnection>,
    subscriber: Rc<Subscriber>,
    /// The identity; `None` until the client has sent the token that the gateway requires.
    requester: RefCell<Option<Requester>>,
    /// The name under which texts reach the client.
    registered_name: RefCell<Option<Arc<str>>>,
    peer: Option<IpAddr>,
    publish_rate: RefCell<TokenBucket>,
    subscriptions: RefCell<Vec<ClientSubscription>>,
    waiting: RefCell<VecDeque<WaitingCommand>>,
    /// True while a task carries out the commands that wait.
    is_running: Cell<bool>,
    /// The task that carries out commands, once it waits for the engine.
    runner: RefCell<Option<LocalJoin<()>>>,
    /// The task that ends the session when its token expires, or has not come.
    expiry: RefCell<Option<LocalJoin<()>>>,
    /// True once a command other than `connect` was carried out.
    has_begun: Cell<bool>,
    is_paused: Cell<bool>,
    has_ended: Cell<bool>,
    place: ClientPlace,
}

struct WaitingCommand {
    id: Option<CommandId>,
    command: Result<GatewayCommand, GatewayError>,
}

impl Session {
    /// Opens a session, on the loop of the connection.
    ///
    /// A client of WebSocket or lines without a credential may send the token later, where the gateway requires one.
    ///
    /// # Errors
    /// `too_many_clients`, `closing`, `name_taken`, `invalid_field`; `token_required`, `token_invalid` and `token_expired`.
    ///
    /// # Panics
    /// If the calling thread runs no loop.
    pub fn open(
        core: &Arc<GatewayCore>,
        start: SessionStart,
        connection: Rc<dyn ClientConnection>,
    ) -> Result<Self, GatewayError> {
        let counters = core.counters().on_this_loop();
        Self::open_counted(core, start, connection)
            .inspect_err(|error| counters.count_refusal(error.code))
    }

    fn open_counted(
        core: &Arc<GatewayCore>,
        start: SessionStart,
        connection: Rc<dyn ClientConnection>,
    ) -> Result<Self, GatewayError> {
        let SessionStart { protocol, peer, credential, name } = start;
        let place = core.admit(peer)?;
        let requester = match core.authenticate(credential.as_deref(), peer) {
            Ok(requester) => Some(requester),
            Err(error) => {
                let may_connect_later =
                    matches!(protocol, ClientProtocol::WebSocket | ClientProtocol::Lines);
                match error.code == ErrorCode::TokenRequired && may_connect_later {
                    true => None,
                    false => return Err(error),
                }
            }
        };
        let table = LoopTable::of_this_loop(core.hub());
        let subscriber = table.join(place.number, place.id.clone(), protocol, connection.clone());
        let counters = table.counters().clone();
        counters.count_open(protocol);
        let state = SessionState {
            core: core.clone(),
            table,
            counters,
            connection,
            subscriber,
            requester: RefCell::new(None),
            registered_name: RefCell::default(),
            peer,
            publish_rate: RefCell::new(TokenBucket::new(core.limits().publish_rate)),
            subscriptions: RefCell::default(),
            waiting: RefCell::default(),
            is_running: Cell::new(false),
            runner: RefCell::default(),
            expiry: RefCell::default(),
            has_begun: Cell::new(false),
            is_paused: Cell::new(false),
            has_ended: Cell::new(false),
            place,
        };
        let session = Self(Rc::new(state));
        match requester {
            Some(requester) => session.0.introduce(requester, name)?,
            None => session.0.await_token(),
        }
        // A drain sets the flag, then closes the clients of the tables that there are: this may be the first one of its
        // loop, and none of them.
        match core.is_draining() {
            false => Ok(session),
            true => Err(closing()),
        }
    }

    /// Carries out a command, or queues it behind those that wait; an error that the protocol found in it is answered in its
    /// place.
    pub fn execute(&self, id: Option<CommandId>, command: Result<GatewayCommand, GatewayError>) {
        self.0.accept(WaitingCommand { id, command });
    }

    /// Goes on with the commands that wait: the client has taken what it was sent.
    pub fn resume(&self) {
        let may_begin = !self.0.is_running.get() && self.0.connection.is_ready();
        if may_begin && !self.0.waiting.borrow().is_empty() {
            self.0.start_runner();
        }
    }

    /// Returns the id of the client.
    #[must_use]
    pub fn client_id(&self) -> &Arc<str> {
        &self.0.place.id
    }

    /// Returns the user that others see.
    #[must_use]
    pub fn user(&self) -> Option<Arc<str>> {
        self.0.requester.borrow().as_ref().and_then(|requester| requester.user().cloned())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Session").field(&self.0.place.id).finish()
    }
}

impl SessionState {
    fn accept(self: &Rc<Self>, command: WaitingCommand) {
        if self.has_ended.get() {
            return;
        }
        self.counters.count_command(self.subscriber.protocol);
        let may_begin = !self.is_running.get() && self.connection.is_ready();
        let is_first = may_begin && self.waiting.borrow().is_empty();
        if is_first && commands::is_immediate(&command.command) {
            let outcome = self.carry_out_now(command.command);
            self.answer(command.id, outcome);
            return;
        }
        let count = {
            let mut waiting = self.waiting.borrow_mut();
            waiting.push_back(command);
            waiting.len()
        };
        let limits = self.core.limits();
        if count > limits.waiting_commands.saturating_add(limits.batch) {
            // The connection did not pause, although it was told to.
            let message = "more commands wait than a client may have";
            self.close(GatewayError::new(ErrorCode::RateExceeded, message), true);
        } else if may_begin {
            self.start_runner();
        } else if count >= limits.waiting_commands && !self.is_paused.replace(true) {
            self.connection.pause_commands(true);
        }
    }

    /// Starts the task that carries out what waits, and lets it run until it waits for the engine.
    fn start_runner(self: &Rc<Self>) {
        let Some(here) = LocalLoop::current() else { return };
        self.is_running.set(true);
        let runner = here.spawn_local(self.clone().run());
        runner.poll_now(&here);
        if !runner.is_done() && !self.has_ended.get() {
            *self.runner.borrow_mut() = Some(runner);
        }
    }

    async fn run(self: Rc<Self>) {
        let mut carried_out = 0;
        while self.connection.is_ready()
            && let Some(WaitingCommand { id, command }) = self.next_command()
        {
            let outcome = self.carry_out(command).await;
            self.answer(id, outcome);
            carried_out += 1;
            if carried_out % COMMANDS_PER_TURN == 0 {
                yield_now().await;
            }
        }
        self.is_running.set(false);
        self.runner.take();
    }

    fn next_command(&self) -> Option<WaitingCommand> {
        if self.has_ended.get() {
            return None;
        }
        let (next, count) = {
            let mut waiting = self.waiting.borrow_mut();
            let next = waiting.pop_front();
            if waiting.is_empty() {
                waiting.shrink_to(KEPT_COMMANDS);
            }
            (next, waiting.len())
        };
        if self.is_paused.get() && count <= self.core.limits().waiting_commands / 2 {
            self.is_paused.set(false);
            self.connection.pause_commands(false);
        }
        next
    }

    /// Closes the connection, after what it is still to be sent.
    fn close(&self, error: GatewayError, may_reconnect: bool) {
        if !self.has_ended.get() {
            self.counters.count_refusal(error.code);
            self.end();
            self.connection.close(error, may_reconnect);
        }
    }

    /// Ends the subscriptions and the tasks.
    fn end(&self) {
        if self.has_ended.replace(true) {
            return;
        }
        for task in [&self.runner, &self.expiry] {
            if let Some(task) = task.take() {
                task.abort();
            }
        }
        let waiting = self.waiting.take();
        drop(waiting);
        let subscriptions = self.subscriptions.take();
        drop(subscriptions);
        self.release_name();
        self.table.leave(self.place.number);
        self.counters.count_close(self.subscriber.protocol);
    }
}
