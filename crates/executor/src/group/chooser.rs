//! Choosers: which child of a group gets the next piece of work (E18).

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Picks a child of a group. Called on the submitting thread for every submission, so it should be quick.
///
/// An index out of range, or a panic, is reported, and the group picks the next child in round-robin order.
///
/// ```
/// use waterwheel_executor::{Choice, Chooser, EventExecutorGroup};
///
/// struct AlwaysFirst;
/// impl Chooser for AlwaysFirst {
///     fn choose(&self, _: &Choice<'_>) -> usize {
///         0
///     }
/// }
///
/// let group = EventExecutorGroup::builder().threads(2).chooser(AlwaysFirst).build()?;
/// assert_eq!(group.next(), group.next());
/// # Ok::<(), waterwheel_executor::BuildError>(())
/// ```
pub trait Chooser: Send + Sync {
    /// Returns the index of the child to use.
    fn choose(&self, choice: &Choice<'_>) -> usize;
}

/// The information that a chooser gets about the children and the work.
pub struct Choice<'a> {
    children: usize,
    load: &'a dyn Fn(usize) -> usize,
    key: Option<u64>,
}

impl<'a> Choice<'a> {
    pub(crate) fn new(children: usize, load: &'a dyn Fn(usize) -> usize, key: Option<u64>) -> Self {
        Self { children, load, key }
    }

    /// Returns how many children there are: at least one.
    #[must_use]
    pub fn children(&self) -> usize {
        self.children
    }

    /// Returns how much a child has to do: its queued commands plus its lasting load, as the layer above counts
    /// it ([`ExecutorAttachment::load`](crate::ExecutorAttachment::load)).
    #[must_use]
    pub fn load(&self, child: usize) -> usize {
        (self.load)(child)
    }

    /// Returns the hash of the key that the work belongs to, if the submitter gave one.
    #[must_use]
    pub fn key(&self) -> Option<u64> {
        self.key
    }
}

impl fmt::Debug for Choice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Choice(1 of {}, key {:?})", self.children, self.key)
    }
}

/// Picks one child after the other. The default.
#[derive(Debug, Default)]
pub struct RoundRobin {
    turn: AtomicUsize,
}

impl Chooser for RoundRobin {
    fn choose(&self, choice: &Choice<'_>) -> usize {
        let children = choice.children();
        if children.is_power_of_two() {
            // The counter may wrap: a power of two divides its range.
            return self.turn.fetch_add(1, Ordering::Relaxed) & (children - 1);
        }
        // Counted modulo the number of children, so that the counter never wraps.
        let step = |turn: usize| Some((turn + 1) % children);
        let turn = self.turn.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        turn.unwrap_or_else(|turn| turn) % children
    }
}

/// Picks the child with the least load ([`Choice::load`]); among equals, one after the other.
#[derive(Debug, Default)]
pub struct LeastLoaded {
    ties: RoundRobin,
}

impl Chooser for LeastLoaded {
    fn choose(&self, choice: &Choice<'_>) -> usize {
        let (children, start) = (choice.children(), self.ties.choose(choice));
        let in_turn = (start..children).chain(0..start);
        in_turn.min_by_key(|child| choice.load(*child)).unwrap_or(start)
    }
}

/// Picks the same child for all work with the same key; for work without a key, one after the other.
#[derive(Debug, Default)]
pub struct ByKey {
    keyless: RoundRobin,
}

impl Chooser for ByKey {
    fn choose(&self, choice: &Choice<'_>) -> usize {
        match choice.key() {
            Some(key) => (key % choice.children() as u64) as usize,
            None => self.keyless.choose(choice),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn picks(chooser: &dyn Chooser, children: usize, n: usize) -> Vec<usize> {
        (0..n).map(|_| chooser.choose(&Choice::new(children, &|_| 0, None))).collect()
    }

    #[test]
    fn e18_round_robin_takes_turns() {
        for children in [1, 2, 3, 4, 5, 8] {
            let expected: Vec<_> = (0..children).cycle().take(20).collect();
            assert_eq!(picks(&RoundRobin::default(), children, 20), expected, "{children}");
        }
    }

    #[test]
    fn e18_round_robin_is_right_when_its_counter_overflows() {
        let chooser = RoundRobin { turn: AtomicUsize::new(usize::MAX - 1) };
        assert_eq!(picks(&chooser, 4, 5), [2, 3, 0, 1, 2]);
        let chooser = RoundRobin { turn: AtomicUsize::new(2) };
        assert_eq!(picks(&chooser, 3, 5), [2, 0, 1, 2, 0]);
    }

    #[test]
    fn e18_least_loaded_takes_the_shortest_queue_and_turns_among_equals() {
        let chooser = LeastLoaded::default();
        let loads = [5, 2, 9];
        for _ in 0..4 {
            assert_eq!(chooser.choose(&Choice::new(3, &|child| loads[child], None)), 1);
        }
        let mut even = picks(&LeastLoaded::default(), 3, 3);
        even.sort_unstable();
        assert_eq!(even, [0, 1, 2]);
    }

    #[test]
    fn e18_by_key_is_stable() {
        let chooser = ByKey::default();
        let pick = |key| chooser.choose(&Choice::new(3, &|_| 0, Some(key)));
        for key in [0, 1, 7, u64::MAX] {
            assert_eq!(pick(key), pick(key));
        }
        assert_eq!(picks(&chooser, 3, 4), [0, 1, 2, 0], "without a key, in turn");
    }
}
