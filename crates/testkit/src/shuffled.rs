//! A manual driver that delivers its events in an order drawn from a seed (O04).
//!
//! No kernel promises the order in which it reports ready descriptors. [`Manual`] has one order, the same in every
//! run, and code that depends on it fails elsewhere. [`Shuffled`] opens the same drivers, but mixes the events of
//! different registrations within a round.
//!
//! Rules:
//!
//! 1. The events of one registration keep their order; those of different registrations are mixed.
//! 2. The order depends only on the seed, on how many drivers were opened before, and on the events so far. The same
//!    seed in the same test gives the same order.
//!
//! ```
//! use waterwheel_channel::Token;
//! use waterwheel_channel::driver::{IoEvent, OpenDriver, ReadPlan, Role};
//! use waterwheel_testkit::manual::Manual;
//! use waterwheel_testkit::shuffled::Shuffled;
//!
//! // The order in which three streams are read.
//! fn order(seed: u64) -> Vec<u64> {
//!     let manual = Manual::readiness();
//!     let mut driver = Shuffled::new(manual.clone(), seed).open().unwrap();
//!     let mut peers = Vec::new();
//!     for n in 0..3 {
//!         let (io, peer) = manual.pair();
//!         driver.attach(Token::from_bits(n), io, Role::Stream).unwrap();
//!         driver.set_read(Token::from_bits(n), Some(ReadPlan::default()));
//!         peer.send("x");
//!         peers.push(peer);
//!     }
//!     driver.wait(None).unwrap();
//!     let events = std::iter::from_fn(|| driver.next_event());
//!     let reads = events.filter(|event| matches!(event, IoEvent::LastRead(..)));
//!     reads.map(|event| event.token().to_bits()).collect()
//! }
//!
//! assert_eq!(order(7), order(7), "a seed is an order");
//! assert!((0..100).any(|seed| order(seed) != order(7)), "another seed may be another order");
//! ```
//!
//! Combined with injected faults: `Faulty::new(Shuffled::new(manual, seed))`.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use waterwheel_channel::driver::{Driver, OpenDriver};

use crate::manual::Manual;

/// A driver factory that opens manual drivers that deliver their events in an order drawn from a seed.
#[derive(Debug)]
pub struct Shuffled {
    manual: Manual,
    seed: u64,
    /// How many drivers were opened. Each has its own order.
    opened: AtomicU64,
}

impl Shuffled {
    /// Creates a factory over `manual`, with which the test still controls the drivers.
    #[must_use]
    pub fn new(manual: Manual, seed: u64) -> Self {
        Self { manual, seed, opened: AtomicU64::new(0) }
    }

    /// Returns the seed, for the message of a failing test.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

impl OpenDriver for Shuffled {
    fn open(&self) -> io::Result<Box<dyn Driver>> {
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let mut seeds = SplitMix64::new(self.seed);
        for _ in 0..number {
            seeds.next();
        }
        Ok(Box::new(self.manual.open_shuffled(SplitMix64::new(seeds.next()))))
    }
}

/// The SplitMix64 random number generator.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`, which must not be zero.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        // The bias of the remainder towards low numbers is below one in 10^9.
        (self.next() % n as u64) as usize
    }
}
