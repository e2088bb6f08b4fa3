//! Publishing: one script for each batch, many on their way at a time.

use std::future::ready;
use std::ops::Range;
use std::sync::Arc;

use waterwheel::executor::PromiseFuture;

use super::connection::call_queue::Answer;
use super::history::millis_of;
use super::limits::{MAX_PUBLICATION_BYTES, PUBLICATION_BYTES_PER_CALL, PUBLICATIONS_PER_CALL};
use super::scripts::RedisScript;
use super::scripts::error_reply::refused;
use super::scripts::message::encode_entry;
use super::scripts::reply::ReplyValues;
use super::shared::{RedisShared, answer_of};
use crate::engine::position::Position;
use crate::engine::publication::NewPublication;
use crate::engine::{EngineError, EngineFuture};

/// The greatest limit that a number of Lua holds exactly.
const MAX_LIMIT: usize = 1 << 53;

/// The result of each publication of a batch.
type PublishResults = Vec<Result<Position, EngineError>>;

/// A call that publishes, if there is anything to publish, and the places of its publications in the batch.
type BatchCall = (Range<usize>, Result<Option<PromiseFuture<Answer>>, EngineError>);

impl RedisShared {
    /// Publishes a batch. The calls are in the queue when this returns.
    pub(super) fn publish(
        self: &Arc<Self>,
        publications: &[NewPublication],
    ) -> EngineFuture<PublishResults> {
        if let Err(error) = self.lock().check_available() {
            return Box::pin(ready(Err(error)));
        }
        let mut results: PublishResults = Vec::with_capacity(publications.len());
        let mut calls = Vec::new();
        let mut batch: Vec<(&NewPublication, Vec<u8>)> = Vec::new();
        let mut bytes = 0;
        let mut begin = 0;
        for (i, new) in publications.iter().enumerate() {
            let entry = encode_entry(new);
            let is_too_long = entry.len() > MAX_PUBLICATION_BYTES;
            let is_full =
                batch.len() == PUBLICATIONS_PER_CALL || bytes > PUBLICATION_BYTES_PER_CALL;
            if is_full || is_too_long {
                calls.push((begin..i, self.publish_batch(&batch)));
                (begin, bytes) = (i, 0);
                batch.clear();
            }
            // Replaced by the answer to the call; what is too long is in none.
            results.push(Err(refused(format!(
                "a publication has at most {MAX_PUBLICATION_BYTES} bytes; this one has {}",
                entry.len()
            ))));
            if is_too_long {
                begin = i + 1;
                continue;
            }
            bytes += entry.len();
            batch.push((new, entry));
        }
        calls.push((begin..publications.len(), self.publish_batch(&batch)));
        Box::pin(Arc::clone(self).collect_results(calls, results))
    }

    fn publish_batch(
        self: &Arc<Self>,
        batch: &[(&NewPublication, Vec<u8>)],
    ) -> Result<Option<PromiseFuture<Answer>>, EngineError> {
        if batch.is_empty() {
            return Ok(None);
        }
        let limits = &self.limits;
        let number = |limit: usize| limit.min(MAX_LIMIT).to_string();
        let head = [
            number(limits.topic_publications),
            number(limits.topic_bytes),
            millis_of(limits.max_age),
            number(limits.total_bytes),
            number(limits.topics),
        ];
        let mut arguments: Vec<&[u8]> = head.iter().map(String::as_bytes).collect();
        for (new, entry) in batch {
            arguments.extend([new.topic.as_str().as_bytes(), entry]);
        }
        self.call(RedisScript::Publish, &arguments).map(Some)
    }

    async fn collect_results(
        self: Arc<Self>,
        calls: Vec<BatchCall>,
        mut results: PublishResults,
    ) -> Result<PublishResults, EngineError> {
        for (range, call) in calls {
            let first = match call {
                Ok(None) => continue,
                Ok(Some(answer)) => answer_of(answer).await,
                Err(error) => Err(error),
            };
            let first = first.and_then(|answer| ReplyValues::of(answer)?.position());
            for (offset, result) in results[range].iter_mut().enumerate() {
                *result = first
                    .clone()
                    .map(|first| Position { sequence: first.sequence + offset as u64, ..first });
                if let Ok(position) = result {
                    self.lock().progress.on_acknowledged(*position);
                }
            }
        }
        Ok(results)
    }
}
