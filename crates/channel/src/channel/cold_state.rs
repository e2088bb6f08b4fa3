//! State that most channels never need, allocated on first use.

use std::cell::{Ref, RefCell, RefMut};

/// A value that is boxed and created on first use.
pub(crate) struct ColdState<T>(RefCell<Option<Box<T>>>);

impl<T: Default> ColdState<T> {
    /// Returns the value, creating it if absent.
    pub(crate) fn get_or_create(&self) -> RefMut<'_, T> {
        RefMut::map(self.0.borrow_mut(), |value| &mut **value.get_or_insert_default())
    }

    /// True once the value was created.
    #[inline]
    pub(crate) fn is_created(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Returns the value, if it was created.
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
