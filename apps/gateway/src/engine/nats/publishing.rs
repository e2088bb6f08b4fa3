//! Publishing: every publication is a request, and all of a batch are sent at once.

use waterwheel::codec::NatsOperation;

use super::events::{BatchResults, CallPromise};
use super::link::states::NatsLinkState;
use super::requests::{Awaited, refused, unavailable};
use super::stream::envelope::to_message;
use super::task::EngineTask;
use crate::engine::EngineError;
use crate::engine::publication::NewPublication;

/// Maximum number of publications that wait for their acknowledgement: some 50 ms of what a server acknowledges.
const MAX_IN_FLIGHT: usize = 16_384;

/// Maximum number of their bytes.
const MAX_BYTES_IN_FLIGHT: usize = 32 << 20;

/// The bytes that a publication counts besides its payload.
const OVERHEAD: usize = 256;

impl EngineTask {
    /// Publishes a batch.
    pub(super) fn publish(
        &mut self,
        publications: Vec<NewPublication>,
        promise: CallPromise<BatchResults>,
    ) {
        if let Err(error) = self.check_available(NatsLinkState::Ready) {
            promise.set_success(Err(error));
            return;
        }
        if publications.is_empty() {
            promise.set_success(Ok(Vec::new()));
            return;
        }
        let batch = self.batches.open(publications.len(), promise);
        for (index, publication) in publications.iter().enumerate() {
            if let Err(error) = self.publish_one(batch, index, publication) {
                self.batches.set(batch, index, Err(error));
            }
        }
    }

    fn publish_one(
        &mut self,
        batch: u64,
        index: usize,
        publication: &NewPublication,
    ) -> Result<(), EngineError> {
        let mut message = to_message(self.names.of_topic(&publication.topic), publication);
        let headers = message.headers.as_ref().map_or(0, |headers| headers.wire().len());
        let (size, limit) = (headers + message.payload.len(), self.link.info.max_payload);
        if size > limit {
            let reason = format!(
                "a publication of {size} bytes with its headers; the server accepts {limit} (max_payload)"
            );
            return Err(refused(reason));
        }
        let (in_flight, in_flight_bytes) = self.requests.load();
        let bytes = size + OVERHEAD;
        if in_flight >= MAX_IN_FLIGHT || in_flight_bytes + bytes > MAX_BYTES_IN_FLIGHT {
            return Err(unavailable("too many publications wait to be acknowledged"));
        }
        let awaited = Awaited::Publish { batch, index, bytes };
        message.reply = Some(self.requests.begin(awaited, self.time_limit()).into());
        self.send(NatsOperation::Publish(message));
        Ok(())
    }
}
