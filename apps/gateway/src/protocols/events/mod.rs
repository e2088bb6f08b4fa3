//! `GET /events`: publications as server-sent events.

mod connection;
mod opening;
mod stream;

use std::sync::Arc;

use waterwheel::http::{EventStream, IntoResponse, Request, Response, last_event_id};

use self::opening::open_events;
use super::http_api::answers::error_response;
use super::http_api::request::RequestFacts;
use super::json::fields::invalid;
use super::json::items;
use super::options::ProtocolOptions;
use crate::client_protocol::ClientProtocol;
use crate::engine::position::Position;
use crate::error_code::{ErrorCode, GatewayError};
use crate::session::SessionStart;
use crate::session::core::GatewayCore;
use crate::topic::filter::TopicFilter;

/// Opens streams of events.
#[derive(Clone)]
pub(super) struct EventsRoute {
    core: Arc<GatewayCore>,
    options: Arc<ProtocolOptions>,
}

/// A request for a stream.
struct EventsRequest {
    start: SessionStart,
    filters: Vec<TopicFilter>,
    since: Option<Position>,
}

impl EventsRoute {
    pub(super) fn new(core: &Arc<GatewayCore>, options: &Arc<ProtocolOptions>) -> Self {
        Self { core: core.clone(), options: options.clone() }
    }

    /// Answers a request: with a stream once all subscriptions have been made, or with the first error.
    pub(super) async fn open(&self, request: Request) -> Response {
        let opened = match self.read(&request) {
            Ok(EventsRequest { start, filters, since }) => {
                open_events(&self.core, &self.options, start, filters, since).await
            }
            Err(error) => {
                self.core.counters().on_this_loop().count_refusal(error.code);
                Err(error)
            }
        };
        match opened {
            Ok(events) => {
                EventStream::new(events).heartbeat(self.options.event_heartbeat).into_response()
            }
            Err(error) => error_response(&error),
        }
    }

    fn read(&self, request: &Request) -> Result<EventsRequest, GatewayError> {
        let facts = RequestFacts::of(request);
        let limits = self.core.limits();
        let mut filters: Vec<TopicFilter> = Vec::new();
        for text in facts.all("topic") {
            let filter = items::filter(text, limits)?;
            if filters.len() == limits.subscriptions {
                let message =
                    format!("a client has at most {} subscriptions", limits.subscriptions);
                return Err(GatewayError::new(ErrorCode::TooManySubscriptions, message));
            }
            filters.push(filter);
        }
        if filters.is_empty() {
            return Err(invalid("the parameter `topic` is missing"));
        }
        // A browser that connects again sends the id, and the address with the older position.
        let since = last_event_id(request).or_else(|| facts.first("since"));
        let start = SessionStart {
            protocol: ClientProtocol::Events,
            peer: facts.peer(),
            credential: facts.credential()?.map(str::to_owned),
            name: None,
        };
        Ok(EventsRequest { start, filters, since: since.map(items::position).transpose()? })
    }
}
