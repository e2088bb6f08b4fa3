//! Tokens: names of registrations that cannot be mistaken for an earlier registration (L07).
//!
//! A token is an index and a generation. The index is reused after its registration has ended, the generation is
//! not: a stale token finds nothing. After 2³² generations an index is retired, so that no token is issued twice.

use std::fmt;

/// The name of a registration on a loop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token {
    /// The generation in the upper half, the index in the lower half: one word to compare and to pass on.
    bits: u64,
}

impl Token {
    /// The token of no registration: its index is beyond the end of every table.
    pub(crate) const NONE: Token = Token { bits: u64::MAX };

    fn new(index: u32, generation: u32) -> Self {
        Self { bits: u64::from(generation) << 32 | u64::from(index) }
    }

    /// Returns the index into a table of registrations.
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        self.bits as u32 as usize
    }

    fn generation(self) -> u32 {
        (self.bits >> 32) as u32
    }

    /// Returns the token as one word, which the kernel returns with each event of the registration.
    #[inline]
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.bits
    }

    /// Returns the token that [`to_bits`](Self::to_bits) encoded.
    #[inline]
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self { bits }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}.{})", self.index(), self.generation())
    }
}

/// A map from tokens that were issued elsewhere to values, such as the state that a driver keeps for each
/// registration. A token of another generation finds nothing.
#[derive(Debug)]
pub struct TokenMap<T> {
    entries: Vec<Option<(Token, T)>>,
    len: usize,
}

impl<T> TokenMap<T> {
    /// Creates an empty map.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: Vec::new(), len: 0 }
    }

    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the map has no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Inserts a value. Returns the previous value at the token's index, of any generation.
    pub fn insert(&mut self, token: Token, value: T) -> Option<T> {
        if self.entries.len() <= token.index() {
            self.entries.resize_with(token.index() + 1, || None);
        }
        let previous = self.entries[token.index()].replace((token, value));
        self.len += usize::from(previous.is_none());
        previous.map(|(_, value)| value)
    }

    /// Returns the value of exactly this token, generation included.
    #[must_use]
    pub fn get(&self, token: Token) -> Option<&T> {
        let entry = self.entries.get(token.index())?.as_ref();
        entry.filter(|(own, _)| *own == token).map(|(_, value)| value)
    }

    /// Returns the value of exactly this token, generation included.
    pub fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        let entry = self.entries.get_mut(token.index())?.as_mut();
        entry.filter(|(own, _)| *own == token).map(|(_, value)| value)
    }

    /// Removes and returns the value of exactly this token, generation included.
    pub fn remove(&mut self, token: Token) -> Option<T> {
        self.get(token)?;
        self.len -= 1;
        self.entries[token.index()].take().map(|(_, value)| value)
    }

    /// Iterates over all tokens and values, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Token, &T)> {
        self.entries.iter().flatten().map(|(token, value)| (*token, value))
    }

    /// Iterates over all tokens and values, in no particular order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Token, &mut T)> {
        self.entries.iter_mut().flatten().map(|(token, value)| (*token, value))
    }
}

impl<T> Default for TokenMap<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// A table that issues a token for each value it stores.
#[derive(Debug)]
pub struct Slab<T> {
    values: TokenMap<T>,
    /// The generation of the next token of each index.
    generations: Vec<u32>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    /// Creates an empty slab.
    #[must_use]
    pub const fn new() -> Self {
        Self { values: TokenMap::new(), generations: Vec::new(), free: Vec::new() }
    }

    /// Makes the next generation of every index the last one, as if all others had been used.
    #[cfg(test)]
    pub(crate) fn exhaust(&mut self) {
        self.generations.fill(u32::MAX);
    }

    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// True if the slab has no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Stores a value under a new token.
    ///
    /// # Panics
    /// If the slab already uses 2³² indices.
    pub fn insert(&mut self, value: T) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            let index = u32::try_from(self.generations.len()).expect("a slab has 2³² indices");
            self.generations.push(0);
            index
        });
        let token = Token::new(index, self.generations[index as usize]);
        self.values.insert(token, value);
        token
    }

    /// Returns the value of this token, if it was not removed.
    #[must_use]
    pub fn get(&self, token: Token) -> Option<&T> {
        self.values.get(token)
    }

    /// Returns the value of this token, if it was not removed.
    pub fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        self.values.get_mut(token)
    }

    /// Removes and returns a value. The removed token finds nothing afterwards.
    pub fn remove(&mut self, token: Token) -> Option<T> {
        let value = self.values.remove(token)?;
        // An index without an unused generation is retired: otherwise its first token would find a new value.
        if let Some(next) = token.generation().checked_add(1) {
            self.generations[token.index()] = next;
            self.free.push(token.bits as u32);
        }
        Some(value)
    }

    /// Iterates over the tokens in use.
    pub fn tokens(&self) -> impl Iterator<Item = Token> {
        self.values.iter().map(|(token, _)| token)
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l07_a_token_that_outlived_its_value_finds_nothing() {
        let mut slab = Slab::new();
        let first = slab.insert('a');
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert('b');
        assert_eq!(second.index(), first.index(), "indices are reused");
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&'b'));
    }

    #[test]
    fn l07_an_index_without_unused_generations_is_retired() {
        let mut slab = Slab::new();
        let mut given = Vec::new();
        for n in 0..4 {
            let token = slab.insert(n);
            assert!(!given.contains(&token), "{token:?} was issued before: {given:?}");
            assert_eq!(slab.remove(token), Some(n));
            given.push(token);
            slab.exhaust();
        }
        assert_eq!(given.iter().map(|token| token.index()).collect::<Vec<_>>(), [0, 0, 1, 1]);
        assert!(slab.is_empty() && given.iter().all(|stale| slab.get(*stale).is_none()));
    }

    #[test]
    fn l07_a_token_map_distinguishes_generations() {
        let (old, new) = (Token::from_bits(7), Token::from_bits((1 << 32) | 7));
        let mut map = TokenMap::new();
        map.insert(old, 1);
        assert_eq!(map.get(new), None);
        assert_eq!(map.insert(new, 2), Some(1));
        assert_eq!((map.get(old), map.get(new), map.len()), (None, Some(&2), 1));
        assert_eq!((map.remove(old), map.remove(new), map.len()), (None, Some(2), 0));
    }

    #[test]
    fn a_token_survives_its_encoding_as_one_word() {
        let token = Token::new(u32::MAX, 17);
        assert_eq!(Token::from_bits(token.to_bits()), token);
    }
}
