//! How a stream begins: all subscriptions are made, and what they recover is put into one order.
//!
//! The id of the last event that a client has seen is all that it sends when it connects again. So publications come in the
//! order of their positions over all subscriptions, and each once: what was not seen is then what is after that id.

use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use waterwheel::http::{EncodedEvent, ServerEvent};

use super::connection::EventsConnection;
use super::stream::ClientEvents;
use crate::engine::position::Position;
use crate::error_code::GatewayError;
use crate::protocols::json::encoding;
use crate::protocols::options::ProtocolOptions;
use crate::session::command::GatewayCommand;
use crate::session::core::GatewayCore;
use crate::session::delivery::Delivery;
use crate::session::limits::GatewayLimits;
use crate::session::reply::GatewayReply;
use crate::session::{Session, SessionStart};
use crate::topic::filter::TopicFilter;

/// The id of the commands: answers come in their order, so that they need no other.
const SUBSCRIBE_ID: u64 = 0;

/// The subscriptions of a stream that is being opened.
#[derive(Debug)]
pub(super) struct EventsOpening {
    limits: GatewayLimits,
    /// The answer to the last subscription.
    answer: Option<Result<Position, GatewayError>>,
    /// The positions of the first answer and of the last one.
    positions: Option<(Position, Position)>,
    has_gap: bool,
    publications: Vec<Arc<Delivery>>,
    /// The bytes of their payloads.
    bytes: usize,
}

impl EventsOpening {
    fn new(limits: &GatewayLimits) -> Self {
        Self {
            limits: *limits,
            answer: None,
            positions: None,
            has_gap: false,
            publications: Vec::new(),
            bytes: 0,
        }
    }

    /// Notes the answer to a subscription.
    pub(super) fn on_answer(&mut self, answer: Result<&GatewayReply, &GatewayError>) {
        self.answer = match answer {
            Ok(GatewayReply::Subscribed { position, gap, .. }) => {
                self.has_gap |= gap;
                Some(Ok(*position))
            }
            Ok(_) => None,
            Err(error) => Some(Err(error.clone())),
        };
    }

    /// Notes a publication: recovered, or new for a subscription that has been made.
    pub(super) fn on_publication(&mut self, delivery: &Arc<Delivery>) {
        self.publications.push(delivery.clone());
        self.bytes += payload_bytes(delivery);
        // Twice the limits: so it is seldom, and each is sorted a few times.
        if self.publications.len() > self.limits.recovered.saturating_mul(2)
            || self.bytes > self.limits.recovered_bytes.saturating_mul(2)
        {
            self.settle();
        }
    }

    /// Notes that publications are missing.
    pub(super) fn on_missed(&mut self) {
        self.has_gap = true;
    }

    /// Takes the answer to the last subscription, once it has come.
    pub(super) fn take_answer(&mut self) -> Option<Result<(), GatewayError>> {
        Some(self.answer.take()?.map(|position| {
            let first = self.positions.map_or(position, |(first, _)| first);
            self.positions = Some((first, position));
            self.settle();
        }))
    }

    /// Sorts the publications, removes those that are there twice, and the oldest beyond the limits.
    fn settle(&mut self) {
        let mut epochs: HashMap<u32, usize> = HashMap::new();
        self.publications.sort_by_cached_key(|delivery| {
            let Position { epoch, sequence } = delivery.publication().position;
            // Epochs have no order but that in which they come.
            let next = epochs.len();
            (*epochs.entry(epoch).or_insert(next), sequence)
        });
        self.publications.dedup_by_key(|delivery| delivery.publication().position);
        let (mut count, mut bytes) = (0, 0_usize);
        let kept = self.publications.iter().rev().take_while(|delivery| {
            count += 1;
            bytes = bytes.saturating_add(payload_bytes(delivery));
            count <= self.limits.recovered && bytes <= self.limits.recovered_bytes
        });
        let excess = self.publications.len() - kept.count();
        self.publications.drain(..excess);
        self.bytes = self.publications.iter().map(payload_bytes).sum();
        self.has_gap |= excess > 0;
    }

    /// Returns the first event, the position up to which everything is known after the publications, and those.
    pub(super) fn into_beginning(
        mut self,
        client: &str,
        since: Option<Position>,
    ) -> Option<(EncodedEvent, Position, Vec<Arc<Delivery>>)> {
        self.settle();
        let (first, last) = self.positions?;
        let seen = match since {
            // Without them, the client has seen what it had before.
            Some(since) if !self.publications.is_empty() => since,
            _ => first,
        };
        let data = encoding::open_event(client, last, self.has_gap);
        let event =
            ServerEvent::new(data).name("open").and_then(|event| event.id(seen.to_string()));
        let event = event.unwrap_or_else(|_| unreachable!("neither has a line end")).encode();
        Some((event, last, self.publications))
    }
}

fn payload_bytes(delivery: &Arc<Delivery>) -> usize {
    delivery.publication().payload.len()
}

/// Opens the session of a stream, and makes its subscriptions.
pub(super) async fn open_events(
    core: &Arc<GatewayCore>,
    options: &ProtocolOptions,
    start: SessionStart,
    filters: Vec<TopicFilter>,
    since: Option<Position>,
) -> Result<ClientEvents, GatewayError> {
    let opening = EventsOpening::new(core.limits());
    let connection = Rc::new(EventsConnection::new(core, options, opening));
    let session = Session::open(core, start, connection.clone())?;
    for filter in filters {
        let command = GatewayCommand::Subscribe { filter, since, presence: false };
        session.execute(Some(SUBSCRIBE_ID), Ok(command));
        poll_fn(|cx| match connection.take_answer() {
            Some(answer) => Poll::Ready(answer),
            None => {
                connection.wait(cx);
                Poll::Pending
            }
        })
        .await?;
    }
    connection.begin(session.client_id(), since);
    Ok(ClientEvents::new(connection, session))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::publication::{Publication, PublicationPayload};
    use crate::topic::limits::TopicLimits;
    use crate::topic::name::Topic;

    #[test]
    fn r04_what_comes_while_a_stream_is_opened_is_limited_in_bytes_and_the_loss_is_told() {
        let limits = GatewayLimits { recovered_bytes: 1_000, ..GatewayLimits::default() };
        let mut opening = EventsOpening::new(&limits);
        for sequence in 1..=100 {
            let publication = Publication {
                topic: Topic::parse("a", &TopicLimits::default()).unwrap(),
                position: Position { epoch: 1, sequence },
                payload: PublicationPayload::Text("x".repeat(300).into()),
                from: None,
                time: 0,
            };
            opening.on_publication(&Arc::new(Delivery::new(Arc::new(publication))));
            assert!(opening.bytes <= 2_000, "{} bytes", opening.bytes);
        }
        opening.settle();
        let kept = opening.publications.iter();
        let kept = kept.map(|delivery| delivery.publication().position.sequence);
        assert!(kept.eq(98..=100) && opening.has_gap);
    }
}
