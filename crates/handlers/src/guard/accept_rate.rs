//! The guard that limits the new connections of an address per time.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use waterwheel_channel::{AcceptGuard, AcceptVerdict, AcceptedConnection};
use waterwheel_executor::Nanos;

use super::bucket_table::BucketTable;
use super::error::InvalidGuard;
use super::prefix_lengths::PrefixLengths;

/// The default for the addresses that an [`AcceptRate`] keeps a bucket for: 65,536. An entry takes
/// about 110 bytes, and at most 150: 9.8 MB in all.
pub const DEFAULT_TRACKED_ADDRESSES: usize = 1 << 16;

/// An accept guard that limits the new connections of each address, or of each network of a
/// [prefix length](PrefixLengths), by a token bucket: a burst at once, then a steady rate.
///
/// Refused connections take no token: a peer that keeps trying is admitted at the rate. A connection that a later guard
/// refuses has taken one. This is a handle; servers that share it count together, on loops with one clock. A peer
/// without an IP address (of a Unix or local socket) is admitted.
///
/// # Under an address flood
///
/// The guard keeps a bucket for at most [`max_addresses`](AcceptRateBuilder::max_addresses) addresses, and only while
/// it is not full: an address that has been quiet for `burst / rate` is forgotten, and loses nothing by it. No timer
/// runs. If more addresses connect within that time than the table holds, a new address replaces the one that misses the
/// fewest tokens:
///
/// - An address that the guard does not know is always admitted, so a flood does not keep others out.
/// - An address that has used up its burst stays known while addresses that connect once or twice come and go. To be
///   forgotten, an attacker has to fill the whole table with addresses that each miss as many tokens; that takes
///   `max_addresses × burst` connections.
/// - While every address of the table misses two tokens or more, addresses that take turns replace each other, and are
///   not limited. That takes `2 × max_addresses` connections within the time of a token, from as many addresses as the
///   table holds. Who owns so many IPv6 networks of 64 bits usually owns one of 48:
///   [`prefixes`](AcceptRateBuilder::prefixes) can give it one bucket.
/// - A flood from more addresses than the table holds is itself not limited by this guard: each of them is within
///   its rate. [`ConnectionLimit`](waterwheel_channel::ConnectionLimit) limits the sum.
///
/// ```
/// use std::net::SocketAddr;
/// use std::time::Duration;
/// use waterwheel_channel::{AcceptGuard, AcceptVerdict, AcceptedConnection};
/// use waterwheel_executor::Nanos;
/// use waterwheel_handlers::AcceptRate;
///
/// let rate = AcceptRate::builder(10, Duration::from_secs(1)).burst(2).build()?;
/// let peer: SocketAddr = "192.0.2.1:5000".parse()?;
/// let admits = |at: Duration| {
///     let connection = AcceptedConnection::new(Some(peer.into()), None, Nanos::default().plus(at));
///     matches!(rate.check(&connection), AcceptVerdict::Admit)
/// };
/// let millis = Duration::from_millis;
/// assert!(admits(millis(0)) && admits(millis(0)) && !admits(millis(0)), "the burst");
/// assert!(!admits(millis(99)) && admits(millis(100)) && !admits(millis(100)), "ten a second");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct AcceptRate {
    shared: Arc<AcceptRateShared>,
}

/// The buckets that all servers with this guard share. The lock is held for a few searches of the table, by a loop that
/// accepts a connection or by a user of the handle.
struct AcceptRateShared {
    prefixes: PrefixLengths,
    buckets: Mutex<BucketTable>,
}

/// Configures an [`AcceptRate`].
#[derive(Clone, Debug)]
#[must_use = "call build"]
pub struct AcceptRateBuilder {
    connections: u32,
    period: Duration,
    burst: u32,
    prefixes: PrefixLengths,
    max_addresses: usize,
}

impl AcceptRateBuilder {
    /// Sets how many connections an address may open at once after it was quiet. Default: those of one period.
    pub fn burst(mut self, connections: u32) -> Self {
        self.burst = connections;
        self
    }

    /// Sets the bits of an address by which peers are told apart. Default: 32 for IPv4, 64 for IPv6.
    pub fn prefixes(mut self, prefixes: PrefixLengths) -> Self {
        self.prefixes = prefixes;
        self
    }

    /// Sets how many addresses the guard keeps a bucket for. Default: [`DEFAULT_TRACKED_ADDRESSES`].
    pub fn max_addresses(mut self, max: usize) -> Self {
        self.max_addresses = max;
        self
    }

    /// Creates the guard.
    ///
    /// # Errors
    /// The rate or the burst admits nothing, the rate is beyond the clock's resolution or range, or there is room for no
    /// address.
    pub fn build(self) -> Result<AcceptRate, InvalidGuard> {
        let Self { connections, period, burst, prefixes, max_addresses } = self;
        if connections == 0 || burst == 0 {
            return Err(InvalidGuard::NothingAdmitted { connections, period, burst });
        }
        if max_addresses == 0 {
            return Err(InvalidGuard::NoAddresses);
        }
        if period.as_nanos() < u128::from(connections) {
            return Err(InvalidGuard::RateTooHigh { connections, period });
        }
        // Rounded up: the rate is never exceeded.
        let interval = period.as_nanos().div_ceil(u128::from(connections));
        let too_low = || InvalidGuard::RateTooLow { connections, period, burst };
        let refill = interval.checked_mul(u128::from(burst)).ok_or_else(too_low)?;
        let refill = u64::try_from(refill).map_err(|_| too_low())?;
        let interval = u64::try_from(interval).map_err(|_| too_low())?;
        let buckets = Mutex::new(BucketTable::new(interval, refill, max_addresses));
        Ok(AcceptRate { shared: Arc::new(AcceptRateShared { prefixes, buckets }) })
    }
}

impl AcceptRate {
    /// The reason of a refusal.
    pub const TOO_FAST: &'static str = "too many new connections from this address";

    /// Creates a builder for a guard that admits so many connections of an address in each period, evenly spread.
    pub fn builder(connections: u32, period: Duration) -> AcceptRateBuilder {
        AcceptRateBuilder {
            connections,
            period,
            burst: connections,
            prefixes: PrefixLengths::default(),
            max_addresses: DEFAULT_TRACKED_ADDRESSES,
        }
    }

    /// True if the guard would admit a connection of this address at this time. Takes nothing: for code that counts
    /// something else by address, such as failed logins, and asks first.
    ///
    /// ```
    /// use std::time::Duration;
    /// use waterwheel_channel::{AcceptGuard, AcceptedConnection, Address};
    /// use waterwheel_executor::Nanos;
    /// use waterwheel_handlers::AcceptRate;
    ///
    /// let failures = AcceptRate::builder(1, Duration::from_secs(60)).build()?;
    /// let (now, peer) = (Nanos::default(), std::net::SocketAddr::from(([192, 0, 2, 1], 5000)));
    /// assert!(failures.may_admit(peer.ip(), now) && failures.may_admit(peer.ip(), now));
    /// failures.check(&AcceptedConnection::new(Some(Address::Ip(peer)), None, now));
    /// assert!(!failures.may_admit(peer.ip(), now));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn may_admit(&self, address: IpAddr, now: Nanos) -> bool {
        let address = self.shared.prefixes.network_of(address.to_canonical());
        self.shared.lock().has_token(address, now)
    }

    /// Returns for how many addresses the guard keeps a bucket at present.
    #[must_use]
    pub fn tracked_addresses(&self) -> usize {
        self.shared.lock().len()
    }
}

impl AcceptRateShared {
    fn lock(&self) -> MutexGuard<'_, BucketTable> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AcceptGuard for AcceptRate {
    fn check(&self, connection: &AcceptedConnection) -> AcceptVerdict {
        let Some(address) = connection.peer_ip() else { return AcceptVerdict::Admit };
        let address = self.shared.prefixes.network_of(address);
        match self.shared.lock().try_take(address, connection.now()) {
            true => AcceptVerdict::Admit,
            false => AcceptVerdict::Refuse(Self::TOO_FAST),
        }
    }
}

impl fmt::Debug for AcceptRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AcceptRate({} addresses)", self.tracked_addresses())
    }
}
