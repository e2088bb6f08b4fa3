//! Answers to commands, and what clients are sent without having asked.

use std::sync::Arc;

use super::delivery::Delivery;
use crate::engine::position::Position;
use crate::engine::{HistoryPage, PresencePage, PresentClient, TopicFacts};
use crate::error_code::GatewayError;
use crate::topic::filter::TopicFilter;
use crate::topic::name::Topic;

/// The answer to a command that was carried out.
#[derive(Clone, Debug)]
pub enum GatewayReply {
    /// Nothing to tell.
    Done,
    /// The client is connected.
    Connected {
        /// The id of the client.
        client: Arc<str>,
        /// The user of the client, if it has one.
        user: Option<Arc<str>>,
    },
    /// The client is subscribed.
    Subscribed {
        /// The position up to which the client knows everything, with the recovered publications.
        position: Position,
        /// The number of recovered publications, which follow.
        recovered: usize,
        /// True if publications after the position of the client are missing.
        gap: bool,
    },
    /// The publication was acknowledged.
    Published {
        /// The position of the publication.
        position: Position,
        /// The subscriptions of clients of this gateway that match it.
        receivers: usize,
    },
    /// Each entry of the batch was acknowledged, or failed.
    PublishedBatch(Vec<Result<Position, GatewayError>>),
    /// A part of the history.
    History(HistoryPage),
    /// The clients that are present.
    Presence(PresencePage),
}

/// The topics of a gateway, at most a limit of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicReport {
    /// Topics in the order of their names, each with the number of subscriptions of this gateway that match it.
    pub topics: Vec<(TopicFacts, usize)>,
    /// True if there are more.
    pub has_more: bool,
}

/// A message that a client is sent without having asked.
#[derive(Clone, Debug)]
pub enum Push {
    /// A publication that one of its subscriptions matches.
    Publication(Arc<Delivery>),
    /// Publications were dropped because the client reads too slowly, or because the engine or a loop was behind.
    Missed {
        /// Their number; 0 if the gateway does not know it.
        count: u64,
        /// The position of the last one that the client was sent, to resume from.
        position: Option<Position>,
    },
    /// A client has entered a topic, or has left it.
    Presence {
        /// The topic.
        topic: Topic,
        /// The client.
        member: PresentClient,
        /// True if it has entered.
        is_present: bool,
    },
    /// A text of another client.
    Direct {
        /// The user who sent it.
        from: Arc<str>,
        /// The text.
        text: Arc<str>,
    },
    /// A subscription was ended.
    Unsubscribed {
        /// The filter of the subscription.
        filter: TopicFilter,
        /// The reason.
        error: GatewayError,
    },
    /// The connection is about to be closed.
    Closing {
        /// The reason.
        error: GatewayError,
        /// True if the client may connect again at once.
        may_reconnect: bool,
    },
}
