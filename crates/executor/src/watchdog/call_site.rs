//! Call sites: names for handlers that are called again and again, readable from other threads.
//!
//! A loop publishes what it is doing with plain stores of numbers
//! ([`activity_cell`](crate::watchdog::activity_cell)). A call site is a number that stands for names, which
//! are in one table as long as the call site lives, for the watchdog to look up. Numbers are never reused, so a
//! look-up finds the right names or none.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::raw::origin::Origin;

/// A named place that a layer above calls into, such as a handler. While it is called, a
/// [`Watchdog`](crate::Watchdog) can name the call site and the method.
///
/// A call site costs an entry in a table: make it for loops that are
/// [watched](crate::CommandSender::is_watched).
pub struct CallSite {
    number: u64,
    pub(crate) origin: Origin,
}

/// The names of a call site, and the method that was called.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallSiteInfo {
    /// The name of the call site.
    pub name: Arc<str>,
    /// The object that the call site is a part of, such as a connection.
    pub owner: Arc<str>,
    /// The method that was called.
    pub method: &'static str,
}

struct CallSiteNames {
    name: Arc<str>,
    owner: Arc<str>,
    methods: &'static [&'static str],
}

/// The low bits of a published value identify the method; the others are the number of the call site.
const METHOD_BITS: u64 = 0xff;

fn table() -> MutexGuard<'static, HashMap<u64, CallSiteNames>> {
    static TABLE: LazyLock<Mutex<HashMap<u64, CallSiteNames>>> = LazyLock::new(Mutex::default);
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CallSite {
    /// Registers a call site with this name, which is a part of `owner`. A method is identified by its index in
    /// `methods`, at most 256. `type_name` is the type of the code.
    #[must_use]
    pub fn new(
        name: impl Into<Arc<str>>,
        owner: impl Into<Arc<str>>,
        type_name: &'static str,
        methods: &'static [&'static str],
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let names = CallSiteNames { name: name.into(), owner: owner.into(), methods };
        table().insert(number, names);
        Self { number, origin: Origin::labelled(type_name) }
    }

    /// Returns the value that a loop publishes while this method runs.
    pub(crate) fn encode_call(&self, call: u8) -> Option<u64> {
        Some(self.number * (METHOD_BITS + 1) + u64::from(call))
    }
}

impl CallSiteInfo {
    /// Looks up a published value; `None` if the call site was dropped.
    pub(crate) fn decode(published: u64) -> Option<Self> {
        let table = table();
        let names = table.get(&(published / (METHOD_BITS + 1)))?;
        let method =
            names.methods.get((published & METHOD_BITS) as usize).copied().unwrap_or("unknown");
        Some(Self { name: names.name.clone(), owner: names.owner.clone(), method })
    }
}

impl Drop for CallSite {
    fn drop(&mut self) {
        table().remove(&self.number);
    }
}

impl fmt::Display for CallSiteInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` of {}, in {}", self.name, self.owner, self.method)
    }
}

impl fmt::Debug for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallSite({}, {})", self.number, self.origin)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn o02_a_call_site_is_found_by_its_published_value_until_it_is_dropped() {
        let call_site = CallSite::new("app", "line 7", "App", &["on_read", "write"]);
        let published = call_site.encode_call(1).unwrap();
        let place = CallSiteInfo::decode(published).unwrap();
        assert_eq!(place.to_string(), "`app` of line 7, in write");
        assert_eq!(call_site.origin.label(), Some("App"));
        let other = CallSite::new("app", "line 8", "App", &["on_read"]);
        assert_ne!(other.encode_call(1), call_site.encode_call(1));
        assert_eq!(CallSiteInfo::decode(other.encode_call(0).unwrap()).unwrap().method, "on_read");
        drop(call_site);
        assert_eq!(CallSiteInfo::decode(published), None);
    }
}
