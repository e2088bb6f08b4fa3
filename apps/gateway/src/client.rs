//! A client, as others see it: somebody to whom lines can be delivered, from any thread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waterwheel::bytes::Bytes;
use waterwheel::channel::{Channel, ChannelId, Message};

use crate::outbox::{Offered, Outbox};
use crate::traffic::Traffic;

/// A client: its channel, and the lines that wait for it. Business threads find it in the registry and
/// deliver; the lock is held to put a line in, never while a channel is told.
#[derive(Debug)]
pub struct Client {
    channel: Channel,
    outbox: Arc<Mutex<Outbox>>,
    traffic: Arc<Traffic>,
}

/// There is something in the outbox: an event for the client's own loop.
#[derive(Clone, Copy, Debug)]
pub struct Deliver;

/// The client reads too slowly and is to be disconnected: an event for its own loop.
#[derive(Clone, Copy, Debug)]
pub struct TooSlow;

impl Message for Deliver {}
impl Message for TooSlow {}

/// What became of a line for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It will get it, unless it overflows later.
    Accepted,
    /// Its queue is full.
    Full,
    /// It has left.
    Gone,
}

impl Client {
    /// A client whose outbox is emptied by its own loop.
    #[must_use]
    pub fn new(channel: Channel, outbox: Arc<Mutex<Outbox>>, traffic: Arc<Traffic>) -> Self {
        Self { channel, outbox, traffic }
    }

    /// Names its connection.
    #[must_use]
    pub fn id(&self) -> ChannelId {
        self.channel.id()
    }

    /// Delivers a line. This is where a business thread reaches a loop: at most one event for all the
    /// lines that wait.
    pub fn deliver(&self, line: Bytes) -> Delivery {
        let (offered, missed) = {
            let mut outbox = locked(&self.outbox);
            let before = outbox.missed();
            (outbox.offer(line), outbox.missed() - before)
        };
        self.traffic.missed(missed);
        match offered {
            Offered::Wake => self.channel.fire_user_event(Deliver),
            Offered::Queued => {}
            Offered::Full => return Delivery::Full,
            Offered::Disconnect => {
                self.channel.fire_user_event(TooSlow);
                return Delivery::Full;
            }
            Offered::Closed => return Delivery::Gone,
        }
        self.traffic.line_out();
        Delivery::Accepted
    }
}

/// Nothing that is done under it can be left half done.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
