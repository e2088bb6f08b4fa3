//! The counters of the gateway: a block for each loop, added up when they are read.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waterwheel::executor::LoopLocal;

use crate::client_protocol::ClientProtocol;
use crate::error_code::ErrorCode;

const PROTOCOLS: usize = ClientProtocol::ALL.len();
const ERRORS: usize = ErrorCode::ALL.len();

/// The counters of a gateway.
///
/// Every loop counts in a block of its own ([`on_this_loop`](Self::on_this_loop)); the list of blocks is locked when a loop
/// counts for the first time, and for a snapshot.
#[derive(Debug, Default)]
pub struct GatewayCounters {
    blocks: Mutex<Vec<Arc<ClientCounters>>>,
}

/// The counters of the clients of one loop. Only the loop's thread writes, by a load and a store; any thread reads, with Relaxed
/// ordering: a count orders nothing.
#[derive(Debug, Default)]
pub struct ClientCounters {
    opened: [AtomicU64; PROTOCOLS],
    closed: [AtomicU64; PROTOCOLS],
    commands: [AtomicU64; PROTOCOLS],
    delivered: [AtomicU64; PROTOCOLS],
    missed: [AtomicU64; PROTOCOLS],
    subscribed: AtomicU64,
    unsubscribed: AtomicU64,
    published: AtomicU64,
    published_bytes: AtomicU64,
    recovered: AtomicU64,
    gaps: AtomicU64,
    refused: [AtomicU64; ERRORS],
}

/// The sums of the counters of all loops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayCounts {
    /// Clients that were opened, by protocol, in the order of [`ClientProtocol::ALL`]; as all arrays of protocols here.
    pub opened: [u64; PROTOCOLS],
    /// Clients that are open.
    pub clients: [u64; PROTOCOLS],
    /// Commands that were received.
    pub commands: [u64; PROTOCOLS],
    /// Publications that were queued for a client.
    pub delivered: [u64; PROTOCOLS],
    /// Publications that were dropped because their client was too slow.
    pub missed: [u64; PROTOCOLS],
    /// Subscriptions that there are.
    pub subscriptions: u64,
    /// Publications of clients of this gateway that the engine has acknowledged.
    pub published: u64,
    /// The bytes of those publications.
    pub published_bytes: u64,
    /// Publications that subscriptions recovered from the history.
    pub recovered: u64,
    /// Subscriptions that were told of a gap.
    pub gaps: u64,
    /// Refused commands, by error, in the order of [`ErrorCode::ALL`].
    pub refused: [u64; ERRORS],
}

/// The blocks of a loop: of each gateway that uses it, found by the address of its counters.
type LoopBlocks = RefCell<Vec<(Arc<GatewayCounters>, Arc<ClientCounters>)>>;

static BLOCKS: LoopLocal<LoopBlocks> = LoopLocal::new(LoopBlocks::default);

impl GatewayCounters {
    /// Returns the block of the loop that calls, creating it if absent. Sessions keep it: the way here has a look-up and,
    /// once, a lock. A thread that runs no loop gets another block with each call.
    #[must_use]
    pub fn on_this_loop(self: &Arc<Self>) -> Arc<ClientCounters> {
        let found = BLOCKS.with(|blocks| {
            let blocks = blocks.borrow();
            blocks.iter().find(|(of, _)| Arc::ptr_eq(of, self)).map(|(_, block)| block.clone())
        });
        if let Some(block) = found.flatten() {
            return block;
        }
        let block = Arc::new(ClientCounters::default());
        self.lock().push(block.clone());
        BLOCKS.with(|blocks| blocks.borrow_mut().push((self.clone(), block.clone())));
        block
    }

    /// Adds up the blocks.
    #[must_use]
    pub fn counts(&self) -> GatewayCounts {
        let mut sum = GatewayCounts::default();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let add_all = |sums: &mut [u64], counters: &[AtomicU64]| {
            sums.iter_mut().zip(counters).for_each(|(sum, counter)| *sum += read(counter));
        };
        let mut closed = [0; PROTOCOLS];
        let (mut subscribed, mut unsubscribed) = (0, 0);
        for block in self.lock().iter() {
            // Ends before beginnings: what ends meanwhile is not counted as ended only.
            add_all(&mut closed, &block.closed);
            add_all(&mut sum.opened, &block.opened);
            unsubscribed += read(&block.unsubscribed);
            subscribed += read(&block.subscribed);
            add_all(&mut sum.commands, &block.commands);
            add_all(&mut sum.delivered, &block.delivered);
            add_all(&mut sum.missed, &block.missed);
            add_all(&mut sum.refused, &block.refused);
            sum.published += read(&block.published);
            sum.published_bytes += read(&block.published_bytes);
            sum.recovered += read(&block.recovered);
            sum.gaps += read(&block.gaps);
        }
        sum.clients = std::array::from_fn(|at| sum.opened[at].saturating_sub(closed[at]));
        sum.subscriptions = subscribed.saturating_sub(unsubscribed);
        sum
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<ClientCounters>>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientCounters {
    /// Counts a client that has come.
    pub fn count_open(&self, protocol: ClientProtocol) {
        add(&self.opened[protocol as usize], 1);
    }

    /// Counts a client that has left, on the loop on which it came.
    pub fn count_close(&self, protocol: ClientProtocol) {
        add(&self.closed[protocol as usize], 1);
    }

    /// Counts a command, whatever its answer is.
    pub fn count_command(&self, protocol: ClientProtocol) {
        add(&self.commands[protocol as usize], 1);
    }

    /// Counts publications that were queued for clients of this protocol.
    pub fn count_deliveries(&self, protocol: ClientProtocol, deliveries: u64) {
        add(&self.delivered[protocol as usize], deliveries);
    }

    /// Counts publications that were dropped because their client was too slow.
    pub fn count_missed(&self, protocol: ClientProtocol, missed: u64) {
        add(&self.missed[protocol as usize], missed);
    }

    /// Counts a subscription.
    pub fn count_subscription(&self) {
        add(&self.subscribed, 1);
    }

    /// Counts subscriptions that have ended.
    pub fn count_ended_subscriptions(&self, subscriptions: u64) {
        add(&self.unsubscribed, subscriptions);
    }

    /// Counts a publication that the engine has acknowledged.
    pub fn count_publication(&self, bytes: usize) {
        add(&self.published, 1);
        add(&self.published_bytes, bytes as u64);
    }

    /// Counts publications that a subscription recovered from the history.
    pub fn count_recovered(&self, publications: u64) {
        add(&self.recovered, publications);
    }

    /// Counts a subscription that was told of a gap.
    pub fn count_gap(&self) {
        add(&self.gaps, 1);
    }

    /// Counts a command, or a client, that was refused.
    pub fn count_refusal(&self, code: ErrorCode) {
        let at = ErrorCode::ALL.iter().position(|known| *known == code);
        add(&self.refused[at.unwrap_or_else(|| unreachable!("all codes are in the list"))], 1);
    }
}

impl GatewayCounts {
    /// Returns the refusals that have happened, with the names of their errors.
    pub fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let all = ErrorCode::ALL.iter().zip(self.refused);
        all.filter(|(_, count)| *count > 0).map(|(code, count)| (code.name(), count))
    }
}

/// Adds to a counter that only this thread writes.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use waterwheel::executor::EventExecutor;

    use super::*;

    #[test]
    fn g05_each_loop_counts_in_its_own_block_and_a_snapshot_adds_them_up() {
        let counters = Arc::new(GatewayCounters::default());
        for name in ["one", "two"] {
            let executor = EventExecutor::builder().name(name).build().unwrap();
            let counters = counters.clone();
            let count = move || {
                let block = counters.on_this_loop();
                assert!(Arc::ptr_eq(&block, &counters.on_this_loop()));
                block.count_open(ClientProtocol::WebSocket);
                block.count_open(ClientProtocol::Lines);
                block.count_close(ClientProtocol::Lines);
                block.count_subscription();
                block.count_deliveries(ClientProtocol::WebSocket, 20);
                block.count_publication(7);
                block.count_refusal(ErrorCode::Closing);
            };
            executor.submit(count).unwrap().join().unwrap();
            executor.shutdown().join().unwrap();
        }
        assert_eq!(counters.lock().len(), 2);
        let counts = counters.counts();
        assert_eq!(counts.opened, [2, 0, 2, 0]);
        assert_eq!((counts.clients, counts.delivered), ([2, 0, 0, 0], [40, 0, 0, 0]));
        assert_eq!((counts.subscriptions, counts.published, counts.published_bytes), (2, 2, 14));
        assert_eq!(counts.refusals().collect::<Vec<_>>(), [("closing", 2)]);
    }

    #[test]
    fn g05_two_gateways_on_one_loop_count_for_themselves() {
        let executor = EventExecutor::builder().build().unwrap();
        let gateways = [Arc::new(GatewayCounters::default()), Arc::default()];
        let both = gateways.clone();
        let count = move || {
            both[0].on_this_loop().count_gap();
            both[1].on_this_loop().count_recovered(3);
        };
        executor.submit(count).unwrap().join().unwrap();
        let [first, second] = gateways.map(|each| each.counts());
        assert_eq!((first.gaps, first.recovered), (1, 0));
        assert_eq!((second.gaps, second.recovered), (0, 3));
        executor.shutdown().join().unwrap();
    }
}
