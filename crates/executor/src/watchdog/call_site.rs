//! Names for what is called again and again, readable from other threads.
//!
//! A loop says what it is doing with plain stores of numbers ([`pulse`](crate::watchdog::activity_cell)). A station is a
//! number that stands for names: they are in one table for as long as the station is there, for the
//! watchdog to look up. Numbers are never used again, so it finds the right names or none.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::raw::origin::Origin;

/// A station on the way of events: what a layer above calls, under a name of its own. While it is
/// called, a [`Watchdog`](crate::Watchdog) can tell which one it is, and which of its methods.
///
/// It costs an entry in a table: made for loops that are
/// [watched](crate::CommandSender::is_watched).
pub struct Station {
    number: u64,
    pub(crate) origin: Origin,
}

/// Which station, and what it was called for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The station's name.
    pub name: Arc<str>,
    /// What it is a part of.
    pub of: Arc<str>,
    /// The method that was called.
    pub call: &'static str,
}

struct Names {
    name: Arc<str>,
    of: Arc<str>,
    calls: &'static [&'static str],
}

/// The low bits of what a loop publishes say which method; the others are the station's number.
const CALLS: u64 = 0xff;

fn table() -> MutexGuard<'static, HashMap<u64, Names>> {
    static TABLE: LazyLock<Mutex<HashMap<u64, Names>>> = LazyLock::new(Mutex::default);
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Station {
    /// A station with this name, which is a part of `of`; a call is named by its place in `calls`, of
    /// which there are 256 at the most. `type_name` is what the code is called.
    #[must_use]
    pub fn new(
        name: impl Into<Arc<str>>,
        of: impl Into<Arc<str>>,
        type_name: &'static str,
        calls: &'static [&'static str],
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let names = Names { name: name.into(), of: of.into(), calls };
        table().insert(number, names);
        Self { number, origin: Origin::labelled(type_name) }
    }

    /// What a loop publishes while this call runs.
    pub(crate) fn at(&self, call: u8) -> Option<u64> {
        Some(self.number * (CALLS + 1) + u64::from(call))
    }
}

impl Place {
    /// What a loop has published; `None` if the station is gone.
    pub(crate) fn find(published: u64) -> Option<Self> {
        let table = table();
        let names = table.get(&(published / (CALLS + 1)))?;
        let call = names.calls.get((published & CALLS) as usize).copied().unwrap_or("unknown");
        Some(Self { name: names.name.clone(), of: names.of.clone(), call })
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        table().remove(&self.number);
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` of {}, in {}", self.name, self.of, self.call)
    }
}

impl fmt::Debug for Station {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Station({}, {})", self.number, self.origin)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn o02_a_station_is_found_by_what_is_published_until_it_is_gone() {
        let station = Station::new("app", "line 7", "App", &["on_read", "write"]);
        let published = station.at(1).unwrap();
        let place = Place::find(published).unwrap();
        assert_eq!(place.to_string(), "`app` of line 7, in write");
        assert_eq!(station.origin.label(), Some("App"));
        let other = Station::new("app", "line 8", "App", &["on_read"]);
        assert_ne!(other.at(1), station.at(1));
        assert_eq!(Place::find(other.at(0).unwrap()).unwrap().call, "on_read");
        drop(station);
        assert_eq!(Place::find(published), None);
    }
}
