//! What most channels never need, and do not pay for until they do.

use std::cell::{Ref, RefCell, RefMut};

/// A value that is made, in a box, when it is first needed.
pub(crate) struct Rarely<T>(RefCell<Option<Box<T>>>);

impl<T: Default> Rarely<T> {
    /// It, made now if it was not before.
    pub(crate) fn make(&self) -> RefMut<'_, T> {
        RefMut::map(self.0.borrow_mut(), |value| &mut **value.get_or_insert_default())
    }

    /// True if it was made.
    #[inline]
    pub(crate) fn has_value(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// It, if it was made.
    #[inline]
    pub(crate) fn look(&self) -> Option<Ref<'_, T>> {
        Ref::filter_map(self.0.borrow(), |value| value.as_deref()).ok()
    }
}

impl<T> Default for Rarely<T> {
    fn default() -> Self {
        Self(RefCell::new(None))
    }
}
