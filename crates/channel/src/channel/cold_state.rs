//! What most channels never need, and do not pay for until they do.

use std::cell::{Ref, RefCell, RefMut};

/// A value that is made, in a box, when it is first needed.
pub(crate) struct ColdState<T>(RefCell<Option<Box<T>>>);

impl<T: Default> ColdState<T> {
    /// It, made now if it was not before.
    pub(crate) fn get_or_create(&self) -> RefMut<'_, T> {
        RefMut::map(self.0.borrow_mut(), |value| &mut **value.get_or_insert_default())
    }

    /// True if it was made.
    #[inline]
    pub(crate) fn is_created(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// It, if it was made.
    #[inline]
    pub(crate) fn get(&self) -> Option<Ref<'_, T>> {
        Ref::filter_map(self.0.borrow(), |value| value.as_deref()).ok()
    }
}

impl<T> Default for ColdState<T> {
    fn default() -> Self {
        Self(RefCell::new(None))
    }
}
