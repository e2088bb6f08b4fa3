//! The operations that sessions and the HTTP API have in common. Their futures run on loops.

use std::future::Future;
use std::sync::Arc;

use waterwheel::channel::timeout;

use super::command::PublishItem;
use super::core::{GatewayCore, limited_address, unix_time};
use super::reply::{GatewayReply, TopicReport};
use super::requester::Requester;
use crate::engine::position::Position;
use crate::engine::publication::NewPublication;
use crate::engine::{EngineError, HistoryPage, HistoryQuery, PresencePage};
use crate::error_code::{ErrorCode, GatewayError};
use crate::topic::filter::TopicFilter;
use crate::topic::name::Topic;

impl GatewayCore {
    /// Publishes.
    ///
    /// # Errors
    /// `not_permitted`, `message_too_large`, `rate_exceeded`, `engine_unavailable`, `closing`.
    pub async fn publish(
        &self,
        requester: &Requester,
        item: PublishItem,
    ) -> Result<GatewayReply, GatewayError> {
        let _operation = self.begin_operation()?;
        let publication = self.check_publication(requester, item)?;
        let (topic, bytes) = (publication.topic.clone(), publication.payload.len());
        let results = self.call_engine(self.engine().publish(vec![publication])).await?;
        let position = results.into_iter().next().unwrap_or_else(|| Err(no_answer()));
        let position = position.map_err(|error| refusal(&error))?;
        self.counters().on_this_loop().count_publication(bytes);
        Ok(GatewayReply::Published { position, receivers: self.hub().count_subscriptions(&topic) })
    }

    /// Publishes a batch in order. Each entry succeeds or fails on its own.
    ///
    /// # Errors
    /// `batch_too_large`, `engine_unavailable`, `closing`.
    pub async fn publish_batch(
        &self,
        requester: &Requester,
        items: Vec<Result<PublishItem, GatewayError>>,
    ) -> Result<GatewayReply, GatewayError> {
        let _operation = self.begin_operation()?;
        let limit = self.limits().batch;
        if items.len() > limit {
            return Err(GatewayError::new(
                ErrorCode::BatchTooLarge,
                format!("a batch has at most {limit} publications"),
            ));
        }
        let (mut publications, mut sizes) = (Vec::new(), Vec::new());
        let check = |item: Result<PublishItem, GatewayError>| {
            let publication = self.check_publication(requester, item?)?;
            sizes.push(publication.payload.len());
            publications.push(publication);
            Ok(())
        };
        let checked: Vec<Result<(), GatewayError>> = items.into_iter().map(check).collect();
        let published = match publications.is_empty() {
            true => Vec::new(),
            false => self.call_engine(self.engine().publish(publications)).await?,
        };
        let counters = self.counters().on_this_loop();
        let mut published = published.into_iter().zip(sizes).map(|(result, bytes)| match result {
            Ok(position) => {
                counters.count_publication(bytes);
                Ok(position)
            }
            Err(error) => Err(refusal(&error)),
        });
        let merge = |checked: Result<(), GatewayError>| -> Result<Position, GatewayError> {
            checked?;
            published.next().unwrap_or_else(|| Err(refusal(&no_answer())))
        };
        Ok(GatewayReply::PublishedBatch(checked.into_iter().map(merge).collect()))
    }

    /// Reads the history. `limit` is reduced to the limit of the gateway. The position of the page is the one to read on from.
    ///
    /// # Errors
    /// `not_permitted`, `engine_unavailable`, `closing`.
    pub async fn history(
        &self,
        requester: &Requester,
        filter: TopicFilter,
        since: Option<Position>,
        limit: Option<usize>,
    ) -> Result<HistoryPage, GatewayError> {
        let _operation = self.begin_operation()?;
        check_subscribe(requester, &filter)?;
        let limit = limit.unwrap_or(usize::MAX).min(self.limits().history);
        let query = HistoryQuery { filter, since, limit };
        let mut page = self.call_engine(self.engine().history(query)).await?;
        cut_page(&mut page, self.limits().history_bytes);
        Ok(page)
    }

    /// Returns who is present in a topic.
    ///
    /// # Errors
    /// `not_permitted`, `engine_unavailable`, `closing`.
    pub async fn presence(
        &self,
        requester: &Requester,
        topic: &Topic,
    ) -> Result<PresencePage, GatewayError> {
        let _operation = self.begin_operation()?;
        check_subscribe(requester, &TopicFilter::from(topic.clone()))?;
        self.call_engine(self.engine().presence(topic, self.limits().presence)).await
    }

    /// Returns the topics, for admins. `limit` is reduced to the limit of the gateway.
    ///
    /// # Errors
    /// `not_permitted`, `engine_unavailable`, `closing`.
    pub async fn topics(
        &self,
        requester: &Requester,
        limit: Option<usize>,
    ) -> Result<TopicReport, GatewayError> {
        let _operation = self.begin_operation()?;
        if !requester.identity.permissions.is_admin {
            return Err(GatewayError::new(ErrorCode::NotPermitted, "topics are listed for admins"));
        }
        self.list_topics(limit.unwrap_or(usize::MAX).min(self.limits().topics)).await
    }

    /// Returns at most `limit` topics, for the operator's page and metrics.
    ///
    /// # Errors
    /// `engine_unavailable`.
    pub async fn list_topics(&self, limit: usize) -> Result<TopicReport, GatewayError> {
        let page = self.call_engine(self.engine().topics(limit)).await?;
        let count = |facts: crate::engine::TopicFacts| {
            let subscriptions = self.hub().count_subscriptions(&facts.topic);
            (facts, subscriptions)
        };
        let topics = page.topics.into_iter().map(count).collect();
        Ok(TopicReport { topics, has_more: page.has_more })
    }

    /// Waits for the engine, but not longer than the limit.
    pub(super) async fn call_engine<T>(
        &self,
        call: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, GatewayError> {
        let limit = self.limits().engine_timeout;
        match timeout(limit, call).await {
            Ok(answer) => answer.map_err(|error| refusal(&error)),
            Err(_) => Err(GatewayError::new(
                ErrorCode::EngineUnavailable,
                format!("the engine {} has not answered within {limit:?}", self.engine().name()),
            )),
        }
    }

    /// Takes a publication, or a text for a user, from the rate of the requester's address.
    pub(super) fn take_from_address(&self, requester: &Requester) -> Result<(), GatewayError> {
        let is_admin = requester.identity.permissions.is_admin;
        match limited_address(requester.peer).filter(|_| !is_admin) {
            Some(address) if !self.may_publish_from(address) => Err(GatewayError::new(
                ErrorCode::RateExceeded,
                "the rate of publications of this address is exceeded",
            )),
            _ => Ok(()),
        }
    }

    /// Checks that a publication is permitted, and completes it.
    fn check_publication(
        &self,
        requester: &Requester,
        item: PublishItem,
    ) -> Result<NewPublication, GatewayError> {
        let PublishItem { topic, payload } = item;
        let permissions = &requester.identity.permissions;
        if !permissions.may_publish(&topic) {
            return Err(GatewayError::new(
                ErrorCode::NotPermitted,
                format!("no permission to publish to {topic}"),
            ));
        }
        let limit = self.limits().message_bytes;
        if payload.len() > limit {
            return Err(GatewayError::new(
                ErrorCode::MessageTooLarge,
                format!("a publication has at most {limit} bytes; this one has {}", payload.len()),
            ));
        }
        self.take_from_address(requester)?;
        let from: Option<Arc<str>> = requester.user().cloned();
        let time = u64::try_from(unix_time().as_millis()).unwrap_or(u64::MAX);
        Ok(NewPublication { topic, payload, from, time })
    }
}

/// Cuts a page behind this number of bytes, but not before the end of its first publication. With publications missing at the
/// end, its position becomes that of the last one that it has.
fn cut_page(page: &mut HistoryPage, max_bytes: usize) {
    let mut bytes = 0_usize;
    let fits = page.publications.iter().take_while(|publication| {
        bytes = bytes.saturating_add(publication.payload.len());
        bytes <= max_bytes
    });
    let count = fits.count().max(1);
    if count < page.publications.len() {
        page.publications.truncate(count);
        page.has_more = true;
    }
    if let (true, Some(last)) = (page.has_more, page.publications.last()) {
        page.position = last.position;
    }
}

/// Checks that a client may subscribe to a filter, and read its history and presence.
pub(super) fn check_subscribe(
    requester: &Requester,
    filter: &TopicFilter,
) -> Result<(), GatewayError> {
    match requester.identity.permissions.may_subscribe(filter) {
        true => Ok(()),
        false => Err(GatewayError::new(
            ErrorCode::NotPermitted,
            format!("no permission to subscribe to {filter}"),
        )),
    }
}

/// Returns the error for a client whose operation the engine has refused.
fn refusal(error: &EngineError) -> GatewayError {
    GatewayError::new(ErrorCode::EngineUnavailable, error.to_string())
}

/// Returns the error of an engine whose answer has too few entries.
fn no_answer() -> EngineError {
    EngineError::Unavailable { engine: "", reason: String::from("an answer is incomplete") }
}
