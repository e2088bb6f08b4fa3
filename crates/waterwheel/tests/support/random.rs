//! Random numbers from a printed seed.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// A SplitMix64 generator: small, and good enough to split data at random.
pub(crate) struct SeededRng(u64);

impl SeededRng {
    /// Creates a generator with the seed in `WATERWHEEL_SEED`, or a random one, and prints the seed.
    pub(crate) fn new() -> Self {
        let given = std::env::var("WATERWHEEL_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0) >> 16);
        println!("WATERWHEEL_SEED={seed}");
        Self::from_seed(seed)
    }

    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number less than `end`, which must not be zero.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn bytes(&mut self, len: usize) -> bytes::Bytes {
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// Cuts data into pieces of at most `max` bytes.
    pub(crate) fn cut(&mut self, mut data: bytes::Bytes, max: usize) -> Vec<bytes::Bytes> {
        let mut pieces = Vec::new();
        while !data.is_empty() {
            let len = (1 + self.below(max)).min(data.len());
            pieces.push(data.split_to(len));
        }
        pieces
    }
}
