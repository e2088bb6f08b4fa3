//! A connected client: lines can be delivered to it from any thread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waterwheel::bytes::Bytes;
use waterwheel::channel::{Channel, ChannelId, Message};

use crate::line_counters::LineCounters;
use crate::outbox::{OfferOutcome, Outbox};

/// A client: its channel and its outbox. Business threads look it up in the registry and deliver lines. The lock
/// of the outbox is held while a line is queued, never while an event is fired into the channel.
#[derive(Debug)]
pub struct GatewayClient {
    channel: Channel,
    outbox: Arc<Mutex<Outbox>>,
    traffic: Arc<LineCounters>,
}

/// User event for the client's loop: the outbox has lines to write.
#[derive(Clone, Copy, Debug)]
pub struct OutboxReady;

/// User event for the client's loop: the client reads too slowly, and its channel must be closed.
#[derive(Clone, Copy, Debug)]
pub struct DisconnectSlowClient;

impl Message for OutboxReady {}
impl Message for DisconnectSlowClient {}

/// The outcome of delivering a line to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The line is in the outbox. The client receives it unless the outbox overflows later.
    Accepted,
    /// The outbox is full.
    Full,
    /// The client has disconnected.
    Gone,
}

impl GatewayClient {
    /// Creates a client whose outbox is written by its own loop.
    #[must_use]
    pub fn new(channel: Channel, outbox: Arc<Mutex<Outbox>>, traffic: Arc<LineCounters>) -> Self {
        Self { channel, outbox, traffic }
    }

    /// Returns the id of the client's channel.
    #[must_use]
    pub fn id(&self) -> ChannelId {
        self.channel.id()
    }

    /// Queues a line and wakes the client's loop if needed: at most one event for all lines queued meanwhile.
    pub fn deliver(&self, line: Bytes) -> DeliveryOutcome {
        let (offered, missed) = {
            let mut outbox = locked(&self.outbox);
            let before = outbox.missed();
            (outbox.offer(line), outbox.missed() - before)
        };
        self.traffic.missed(missed);
        match offered {
            OfferOutcome::Wake => self.channel.fire_user_event(OutboxReady),
            OfferOutcome::Queued => {}
            OfferOutcome::Full => return DeliveryOutcome::Full,
            OfferOutcome::Disconnect => {
                self.channel.fire_user_event(DisconnectSlowClient);
                return DeliveryOutcome::Full;
            }
            OfferOutcome::Closed => return DeliveryOutcome::Gone,
        }
        self.traffic.line_out();
        DeliveryOutcome::Accepted
    }
}

/// Locks a mutex, ignoring poison: no critical section of this crate can leave its data half changed.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
