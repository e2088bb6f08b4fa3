//! The list of the futures that are ready to be polled.

use std::cell::{Cell, RefCell};

use crate::base::queue_capacity::KEPT_CAPACITY;
use crate::base::token::Token;

/// The futures that are queued for polling, in the order of their wakes. Only the loop's thread uses the list, and no
/// borrow outlives a call.
///
/// A future is in the list at most once, so a list with room for all futures never allocates in a wake: `reserve` makes
/// the room when a future is spawned, `take_all` when it begins another list.
#[derive(Default)]
pub(crate) struct ReadyList {
    tokens: RefCell<Vec<Token>>,
    /// The length of `tokens`, because every turn asks for it.
    len: Cell<usize>,
    /// The buffer of the last batch, empty.
    spare: Cell<Vec<Token>>,
}

impl ReadyList {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.get()
    }

    /// Makes room for this many futures.
    pub(crate) fn reserve(&self, futures: usize) {
        self.tokens.borrow_mut().reserve(futures);
    }

    #[inline]
    pub(crate) fn push(&self, token: Token) {
        let mut tokens = self.tokens.borrow_mut();
        tokens.push(token);
        self.len.set(tokens.len());
    }

    /// Removes all tokens and calls `f` with each, in their order. Tokens that `f` adds are kept in the list, which has
    /// room for this many futures.
    #[inline]
    pub(crate) fn take_all(&self, futures: usize, mut f: impl FnMut(Token)) {
        let mut next = self.spare.take();
        next.reserve(futures);
        let mut batch = self.tokens.replace(next);
        self.len.set(0);
        for token in &batch {
            f(*token);
        }
        batch.clear();
        // The buffer of a burst of futures is freed once most of them have ended.
        if batch.capacity() <= KEPT_CAPACITY.max(4 * futures) {
            self.spare.set(batch);
        }
    }
}
