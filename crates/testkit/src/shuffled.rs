//! A driver driven by hand whose events come in an order drawn from a seed (O04).
//!
//! No kernel promises in which order it names what is ready. [`Manual`] has one order, the same in every
//! run: what leans on it passes there and fails elsewhere. [`Shuffled`] opens the same drivers, but lets
//! those who have something to say in a round speak in another order, and interrupt each other.
//!
//! Rules:
//!
//! 1. The events of one registration keep their order; those of different registrations are mixed.
//! 2. The order depends on the seed, on how many drivers were opened before, and on what has happened so
//!    far; on nothing else. The same seed over the same test is the same order.
//!
//! ```
//! use waterwheel_channel::Token;
//! use waterwheel_channel::driver::{IoEvent, OpenDriver, ReadPlan, Role};
//! use waterwheel_testkit::manual::Manual;
//! use waterwheel_testkit::shuffled::Shuffled;
//!
//! // Who is read first, second and third?
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
//! With faults on top of it: `Faulty::new(Shuffled::new(manual, seed))`.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use waterwheel_channel::driver::{Driver, OpenDriver};

use crate::manual::Manual;

/// Opens manual drivers whose events come in an order drawn from a seed.
#[derive(Debug)]
pub struct Shuffled {
    manual: Manual,
    seed: u64,
    /// How many drivers were opened: each has an order of its own.
    opened: AtomicU64,
}

impl Shuffled {
    /// The drivers of this one, which stays the test's hand in them.
    #[must_use]
    pub fn new(manual: Manual, seed: u64) -> Self {
        Self { manual, seed, opened: AtomicU64::new(0) }
    }

    /// The seed, for the message of a test that fails.
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
        Ok(Box::new(self.manual.open_in_order(SplitMix64::new(seeds.next()))))
    }
}

/// Numbers that look random, the same for the same seed: SplitMix64.
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

    /// One of so many; there is at least one.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        // The remainder favours the low ones by less than one in a thousand million.
        (self.next() % n as u64) as usize
    }
}
