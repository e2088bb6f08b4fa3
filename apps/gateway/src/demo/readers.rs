//! The readers of the demo: sessions without a connection.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use waterwheel::channel::interval;

use crate::client_protocol::ClientProtocol;
use crate::error_code::GatewayError;
use crate::session::command::GatewayCommand;
use crate::session::connection::{ClientConnection, CommandId};
use crate::session::core::GatewayCore;
use crate::session::reply::{GatewayReply, Push};
use crate::session::{Session, SessionStart};
use crate::topic::filter::TopicFilter;

/// The filters of the readers of a loop.
const FILTERS: [&str; 8] = [
    "prices.*",
    "prices.*",
    "prices.eur-usd",
    "sensors.>",
    "weather.*",
    "chat.lobby",
    "news.*",
    ">",
];

/// How often readers look whether the gateway drains.
const LOOK: Duration = Duration::from_millis(250);

/// Reads until the gateway drains. On a gateway that requires tokens there are no readers: they have none.
pub(super) async fn read(core: Arc<GatewayCore>) {
    let closed = Rc::new(Cell::new(false));
    let open = |(number, filter): (usize, &&str)| {
        let filter = TopicFilter::parse(filter, &core.limits().topic).ok()?;
        let protocol = match number % 4 {
            0 => ClientProtocol::Lines,
            1 => ClientProtocol::Events,
            _ => ClientProtocol::WebSocket,
        };
        let start = SessionStart { protocol, peer: None, credential: None, name: None };
        let session = Session::open(&core, start, Rc::new(DemoReader(closed.clone()))).ok()?;
        session
            .execute(None, Ok(GatewayCommand::Subscribe { filter, since: None, presence: false }));
        Some(session)
    };
    let sessions: Vec<Session> = FILTERS.iter().enumerate().filter_map(open).collect();
    let mut ticks = interval(LOOK);
    while !sessions.is_empty() && !closed.get() && !core.is_draining() {
        ticks.tick().await;
    }
}

/// A connection that throws away what it is to write.
struct DemoReader(Rc<Cell<bool>>);

impl ClientConnection for DemoReader {
    fn answer(&self, _id: Option<CommandId>, _answer: Result<&GatewayReply, &GatewayError>) {}

    fn push(&self, _push: &Push) {}

    fn is_ready(&self) -> bool {
        true
    }

    fn pause_commands(&self, _is_paused: bool) {}

    fn close(&self, _error: GatewayError, _may_reconnect: bool) {
        self.0.set(true);
    }
}
