//! Attributes: values of any type that users and upper layers attach to a channel.

use std::any::{Any, TypeId};
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use waterwheel_executor::UserCode;

use crate::channel::handle::Channel;
use crate::channel::handle::shared_state::ChannelShared;
use crate::channel::panics::catch_user_panic;

/// The key of an attribute: a name and a type. Keys with the same name and type are the same key.
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
    /// The notification of the value; only keys of a [`ChannelCompanion`] have one.
    on_closed: Option<OnClosed>,
}

impl<T: Send + Sync + 'static> AttrKey<T> {
    /// Creates a key.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, of: PhantomData, on_closed: None }
    }

    /// Returns the name of the key.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    fn matches(&self, entry: &AttributeEntry) -> bool {
        entry.name == self.name && entry.type_id == TypeId::of::<T>()
    }
}

/// A value that an upper layer attaches to a channel. The value is notified of the channel's close, and dropped
/// when the loop has removed the channel.
pub(crate) trait ChannelCompanion: Send + Sync + 'static {
    /// Called on the channel's loop when the channel is closed, before anybody else is notified. Not called for
    /// a channel that was never registered.
    fn on_closed(&self, _channel: &Channel) {}
}

/// Calls `on_closed` of a value. Each function of this type is for values of one concrete type.
type OnClosed = fn(&AttributeValue, &Channel);

type AttributeValue = dyn Any + Send + Sync;

/// Creates the key of a companion.
pub(crate) const fn companion_key<T: ChannelCompanion>(name: &'static str) -> AttrKey<T> {
    let on_closed: OnClosed = |value, channel| {
        if let Some(companion) = value.downcast_ref::<T>() {
            companion.on_closed(channel);
        }
    };
    AttrKey { name, of: PhantomData, on_closed: Some(on_closed) }
}

impl<T> fmt::Debug for AttrKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AttrKey({})", self.name)
    }
}

/// The attributes of a channel. A channel has few, so a list is enough. Any thread may use the list; no user code runs
/// while the list is locked.
#[derive(Default)]
pub(crate) struct Attributes(Mutex<Option<Box<AttributeList>>>);

/// The values of a channel. Allocated with the first value: most channels have none.
#[derive(Clone, Default)]
struct AttributeList {
    list: Vec<AttributeEntry>,
}

impl Clone for Attributes {
    /// Clones the list; the values are shared.
    fn clone(&self) -> Self {
        Self(Mutex::new(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()))
    }
}

/// The last handle of a channel may be dropped on any thread, also on its loop: a value whose destructor panics
/// affects neither the other values nor the code that drops the handle.
impl Drop for Attributes {
    fn drop(&mut self) {
        let entries = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        for AttributeEntry { name, value, .. } in
            entries.into_iter().flat_map(|entries| entries.list)
        {
            let _ = catch_user_panic(UserCode::Destructor, name, || drop(value));
        }
    }
}

#[derive(Clone)]
struct AttributeEntry {
    name: &'static str,
    type_id: TypeId,
    value: Arc<AttributeValue>,
    on_closed: Option<OnClosed>,
}

impl AttributeEntry {
    fn new<T: 'static>(key: &AttrKey<T>, value: Arc<AttributeValue>) -> Self {
        Self { name: key.name, type_id: TypeId::of::<T>(), value, on_closed: key.on_closed }
    }
}

impl Attributes {
    /// Notifies the companions that their channel is closed. Called on the channel's loop, with nothing locked.
    pub(in crate::channel) fn notify_closed(&self, shared: &Arc<ChannelShared>) {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(list) = entries.as_ref().map(|entries| entries.list.iter()) else { return };
        let told: Vec<_> =
            list.filter_map(|entry| Some((entry.on_closed?, entry.value.clone()))).collect();
        drop(entries);
        let channel = Channel::new(shared.clone());
        for (on_closed, value) in told {
            on_closed(&*value, &channel);
        }
    }

    /// Drops the companions after the loop has removed their channel, with nothing locked.
    pub(in crate::channel) fn drop_companions(&self) {
        let is_companion = |entry: &mut AttributeEntry| entry.on_closed.is_some();
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(list) = entries.as_mut().map(|entries| &mut entries.list) else { return };
        let gone: Vec<_> = list.extract_if(.., is_companion).collect();
        drop(entries);
        drop(gone);
    }

    pub(crate) fn get<T: Send + Sync + 'static>(&self, key: &AttrKey<T>) -> Option<Arc<T>> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.as_ref()?.list.iter().find(|entry| key.matches(entry))?;
        entry.value.clone().downcast().ok()
    }

    pub(crate) fn set<T: Send + Sync + 'static>(
        &self,
        key: &AttrKey<T>,
        value: T,
    ) -> Option<Arc<T>> {
        let value: Arc<AttributeValue> = Arc::new(value);
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = &mut entries.get_or_insert_default().list;
        match entries.iter_mut().find(|entry| key.matches(entry)) {
            Some(entry) => std::mem::replace(&mut entry.value, value).downcast().ok(),
            None => {
                entries.push(AttributeEntry::new(key, value));
                None
            }
        }
    }

    /// Adds the values of `others` for keys that have none here.
    pub(crate) fn add(&self, others: &Attributes) {
        let Some(others) = others.0.lock().unwrap_or_else(PoisonError::into_inner).clone() else {
            return;
        };
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = &mut entries.get_or_insert_default().list;
        for other in &others.list {
            let same =
                |entry: &AttributeEntry| (entry.name, entry.type_id) == (other.name, other.type_id);
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
        let found = entries.iter().find(|entry| key.matches(entry));
        if let Some(value) = found.and_then(|entry| entry.value.clone().downcast().ok()) {
            return value;
        }
        let value = Arc::new(make());
        entries.push(AttributeEntry::new(key, value.clone()));
        value
    }

    pub(crate) fn remove<T: Send + Sync + 'static>(&self, key: &AttrKey<T>) -> Option<Arc<T>> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = &mut entries.as_mut()?.list;
        let at = entries.iter().position(|entry| key.matches(entry))?;
        entries.swap_remove(at).value.downcast().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::TaskOnly;
    use crate::{EventLoopGroup, local};

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

    /// Counts the calls of `on_closed`; the count is shared as long as the value lives.
    struct CountingCompanion(Arc<Mutex<u32>>);

    impl ChannelCompanion for CountingCompanion {
        fn on_closed(&self, channel: &Channel) {
            assert!(!channel.is_open(), "closed, and before others are notified");
            *self.0.lock().unwrap() += 1;
        }
    }

    #[test]
    fn c12_a_companion_is_notified_of_the_close_and_dropped_with_the_channel() {
        static COMPANION: AttrKey<CountingCompanion> = companion_key("told");
        static KEPT: AttrKey<u32> = AttrKey::new("kept");
        let group = EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap();
        let (new, _peer) = local::pair();
        let count = Arc::new(Mutex::new(0));
        let new = new.attribute(&COMPANION, CountingCompanion(count.clone())).attribute(&KEPT, 7);
        let channel = group.register(new).join().unwrap();
        assert_eq!((*count.lock().unwrap(), Arc::strong_count(&count)), (0, 2));
        channel.close().join().unwrap();
        group.next().submit(|| ()).unwrap().join().unwrap();
        assert_eq!((*count.lock().unwrap(), Arc::strong_count(&count)), (1, 1));
        assert_eq!(channel.attribute(&KEPT).as_deref(), Some(&7), "a user's value stays");
    }
}
