//! Values that users hang on a channel.

use std::any::{Any, TypeId};
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use waterwheel_executor::UserCode;

use super::core::guarded;

/// The key of a value that channels carry: a name and a type. Two keys with the same name and type are
/// the same key.
///
/// ```
/// use waterwheel_channel::AttrKey;
///
/// static USER: AttrKey<String> = AttrKey::new("user");
/// assert_eq!(USER.name(), "user");
/// ```
pub struct AttrKey<T> {
    name: &'static str,
    of: PhantomData<fn() -> T>,
}

impl<T: Send + Sync + 'static> AttrKey<T> {
    /// A key.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, of: PhantomData }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    fn is(&self, entry: &Entry) -> bool {
        entry.name == self.name && entry.type_id == TypeId::of::<T>()
    }
}

impl<T> fmt::Debug for AttrKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AttrKey({})", self.name)
    }
}

/// The values of a channel. Few, so a list does; any thread may use it, and nothing of the user's runs
/// while it is locked.
#[derive(Default)]
pub(crate) struct Attributes(Mutex<Option<Box<Entries>>>);

/// Made with the first value: most channels have none.
#[derive(Clone, Default)]
struct Entries {
    list: Vec<Entry>,
}

impl Clone for Attributes {
    /// The clone shares the values.
    fn clone(&self) -> Self {
        Self(Mutex::new(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()))
    }
}

/// The last handle of a channel may be dropped anywhere, on its loop too: a value whose destructor panics
/// harms neither the others nor whoever drops the handle.
impl Drop for Attributes {
    fn drop(&mut self) {
        let entries = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        for Entry { name, value, .. } in entries.into_iter().flat_map(|entries| entries.list) {
            let _ = guarded(UserCode::Destructor, name, || drop(value));
        }
    }
}

#[derive(Clone)]
struct Entry {
    name: &'static str,
    type_id: TypeId,
    value: Arc<dyn Any + Send + Sync>,
}

impl Attributes {
    pub(crate) fn get<T: Send + Sync + 'static>(&self, key: &AttrKey<T>) -> Option<Arc<T>> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.as_ref()?.list.iter().find(|entry| key.is(entry))?;
        entry.value.clone().downcast().ok()
    }

    pub(crate) fn set<T: Send + Sync + 'static>(
        &self,
        key: &AttrKey<T>,
        value: T,
    ) -> Option<Arc<T>> {
        let value: Arc<dyn Any + Send + Sync> = Arc::new(value);
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = &mut entries.get_or_insert_default().list;
        match entries.iter_mut().find(|entry| key.is(entry)) {
            Some(entry) => std::mem::replace(&mut entry.value, value).downcast().ok(),
            None => {
                entries.push(Entry { name: key.name, type_id: TypeId::of::<T>(), value });
                None
            }
        }
    }

    /// Adds the values of others, for keys that have none here.
    pub(crate) fn add(&self, others: &Attributes) {
        let Some(others) = others.0.lock().unwrap_or_else(PoisonError::into_inner).clone() else {
            return;
        };
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = &mut entries.get_or_insert_default().list;
        for other in &others.list {
            let same = |entry: &Entry| (entry.name, entry.type_id) == (other.name, other.type_id);
            if !entries.iter().any(same) {
                entries.push(other.clone());
            }
        }
    }

    /// Returns the value for this key, creating it if absent.
    pub(crate) fn get_or_set<T: Send + Sync + 'static>(
        &self,
        key: &AttrKey<T>,
        make: impl FnOnce() -> T,
    ) -> Arc<T> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = &mut entries.get_or_insert_default().list;
        let found = entries.iter().find(|entry| key.is(entry));
        if let Some(value) = found.and_then(|entry| entry.value.clone().downcast().ok()) {
            return value;
        }
        let value = Arc::new(make());
        let entry = Entry { name: key.name, type_id: TypeId::of::<T>(), value: value.clone() };
        entries.push(entry);
        value
    }

    pub(crate) fn remove<T: Send + Sync + 'static>(&self, key: &AttrKey<T>) -> Option<Arc<T>> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = &mut entries.as_mut()?.list;
        let at = entries.iter().position(|entry| key.is(entry))?;
        entries.swap_remove(at).value.downcast().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c12_attributes_are_told_apart_by_name_and_type() {
        let attributes = Attributes::default();
        let (text, number) = (AttrKey::<String>::new("it"), AttrKey::<u32>::new("it"));
        assert!(attributes.set(&text, "a".into()).is_none());
        assert!(attributes.set(&number, 1).is_none());
        assert_eq!(*attributes.set(&text, "b".into()).unwrap(), "a");
        assert_eq!((*attributes.get(&text).unwrap()).as_str(), "b");
        assert_eq!(*attributes.remove(&number).unwrap(), 1);
        assert!(attributes.get(&number).is_none());
        assert!(attributes.get(&AttrKey::<String>::new("other")).is_none());
    }
}
