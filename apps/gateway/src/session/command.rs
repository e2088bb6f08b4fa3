//! The commands of clients, parsed.

use crate::engine::position::Position;
use crate::engine::publication::PublicationPayload;
use crate::error_code::GatewayError;
use crate::topic::filter::TopicFilter;
use crate::topic::name::Topic;

/// A command of a client, with fields that were checked.
#[derive(Clone, Debug, PartialEq)]
pub enum GatewayCommand {
    /// Says who the client is. With a later token of the same user, renews the identity.
    Connect {
        /// The token.
        token: Option<String>,
        /// The name that other clients see.
        name: Option<String>,
    },
    /// Subscribes to a filter.
    Subscribe {
        /// The filter.
        filter: TopicFilter,
        /// The position after which publications are recovered from the history.
        since: Option<Position>,
        /// True if the client wants to be told who enters and leaves.
        presence: bool,
    },
    /// Ends a subscription.
    Unsubscribe {
        /// The filter, as it was subscribed to.
        filter: TopicFilter,
    },
    /// Publishes.
    Publish(PublishItem),
    /// Publishes a batch: each entry succeeds or fails on its own.
    PublishBatch(Vec<Result<PublishItem, GatewayError>>),
    /// Reads the history.
    History {
        /// The topics.
        filter: TopicFilter,
        /// The position after which to read.
        since: Option<Position>,
        /// Maximum number of publications; `None`: the limit of the gateway.
        limit: Option<usize>,
    },
    /// Asks who is present in a topic.
    Presence {
        /// The topic.
        topic: Topic,
    },
    /// Sends a text to the client with a name, on this gateway. A command of lines.
    PushToUser {
        /// The name.
        user: String,
        /// The text.
        text: String,
    },
    /// Asks for an answer.
    Ping,
}

/// A publication, as a client asks for it.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishItem {
    /// The topic.
    pub topic: Topic,
    /// The content.
    pub payload: PublicationPayload,
}
