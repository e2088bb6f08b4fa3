//! A place that events are logged from, with a level and a target chosen at run time.
//!
//! The macros of `tracing` fix both at compile time. A [`LogSite`] is the same thing as a value: `tracing` registers
//! it, and each subscriber is asked once whether it is interested. While none is, a check is one load of the global
//! maximum level.
//!
//! `tracing` keeps sites for ever. They are therefore shared: one for each pair of level and target in the process.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use tracing::field::Value;
use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, dispatcher};
use tracing_core::callsite::{self, Callsite, Identifier};
use tracing_core::field::FieldSet;
use tracing_core::metadata::Kind;

/// The fields of a log line, in the order in which they are recorded. The message is last, because a hex dump has
/// several lines.
const FIELDS: [&str; 4] = ["channel", "local", "peer", "message"];

/// The values of the [`FIELDS`]; an absent one is not recorded.
pub(super) type FieldValues<'a> = [Option<&'a dyn Value>; FIELDS.len()];

/// A place that events are logged from.
///
/// `interest` is written by whichever thread installs a subscriber, and read by every thread that logs. A stale value
/// only means that a subscriber's first or last line comes an event late, as with the macros.
pub(super) struct LogSite {
    level: Level,
    interest: AtomicU8,
    /// Set once, before the site is shared. The metadata point to the site, so it cannot be a plain field.
    metadata: OnceLock<Metadata<'static>>,
}

const NEVER: u8 = 0;
const SOMETIMES: u8 = 1;
const ALWAYS: u8 = 2;

impl LogSite {
    /// Returns the site with this level and target, creating it if absent.
    pub(super) fn with(level: Level, target: &str) -> &'static LogSite {
        static SITES: Mutex<Vec<&'static LogSite>> = Mutex::new(Vec::new());
        let mut sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |site: &&&LogSite| site.level == level && site.metadata().target() == target;
        if let Some(site) = sites.iter().find(is_same) {
            return site;
        }
        let site = LogSite::leak(level, target);
        sites.push(site);
        drop(sites);
        // Outside of the lock: this calls the subscribers. Until it returns, a subscriber is asked for every event.
        callsite::register(site);
        site
    }

    fn leak(level: Level, target: &str) -> &'static LogSite {
        let site: &'static LogSite = Box::leak(Box::new(LogSite {
            level,
            interest: AtomicU8::new(SOMETIMES),
            metadata: OnceLock::new(),
        }));
        let target: &'static str = Box::leak(target.into());
        let fields = FieldSet::new(&FIELDS, Identifier(site));
        site.metadata.get_or_init(|| {
            Metadata::new("wire log", target, level, None, None, None, fields, Kind::EVENT)
        });
        site
    }

    /// True if a subscriber of this thread wants the events of this site.
    #[inline]
    pub(super) fn is_enabled(&'static self) -> bool {
        self.level <= STATIC_MAX_LEVEL
            && self.level <= LevelFilter::current()
            && match self.interest.load(Ordering::Relaxed) {
                NEVER => false,
                ALWAYS => true,
                _ => dispatcher::get_default(|subscriber| subscriber.enabled(self.metadata())),
            }
    }

    /// Passes an event to the subscriber of this thread.
    pub(super) fn log(&'static self, [channel, local, peer, message]: FieldValues<'_>) {
        let metadata = self.metadata();
        let mut fields = metadata.fields().iter();
        let mut next = || match fields.next() {
            Some(field) => field,
            None => unreachable!("there is a field for each value"),
        };
        let fields = [next(), next(), next(), next()];
        let [a, b, c, d] = &fields;
        let values = [(a, channel), (b, local), (c, peer), (d, message)];
        Event::dispatch(metadata, &metadata.fields().value_set(&values));
    }
}

impl Callsite for LogSite {
    fn set_interest(&self, interest: Interest) {
        let interest = match interest {
            never if never.is_never() => NEVER,
            always if always.is_always() => ALWAYS,
            _ => SOMETIMES,
        };
        self.interest.store(interest, Ordering::Relaxed);
    }

    fn metadata(&self) -> &Metadata<'static> {
        match self.metadata.get() {
            Some(metadata) => metadata,
            None => unreachable!("the metadata are set before the site is shared"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k06_a_level_and_target_share_one_site() {
        let site = LogSite::with(Level::INFO, "site test");
        assert!(std::ptr::eq(site, LogSite::with(Level::INFO, &String::from("site test"))));
        assert!(!std::ptr::eq(site, LogSite::with(Level::DEBUG, "site test")));
        assert!(!std::ptr::eq(site, LogSite::with(Level::INFO, "another site test")));
        assert_eq!(
            (site.metadata().target(), *site.metadata().level()),
            ("site test", Level::INFO)
        );
    }
}
