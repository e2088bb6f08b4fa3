//! The filters of a gateway, and the channels of Redis that it has to subscribe to for them.
//!
//! A publication is sent to three channels: that of its topic, that of its first segment, and that of everything. A filter
//! without wildcards needs the first, `chat.*` the second, `*.news` the third. So a gateway has one subscription for each
//! filter at most, and patterns, which Redis would compare with each publication one after the other, are not used.

use std::collections::{HashMap, HashSet};

use crate::topic::filter::TopicFilter;

/// The filters, and how many of them need each channel.
#[derive(Debug, Default)]
pub(super) struct SubscriptionTable {
    filters: HashSet<TopicFilter>,
    channels: HashMap<String, usize>,
}

impl SubscriptionTable {
    /// Adds a filter. Returns the channel to subscribe to, if no other filter needs it.
    pub(super) fn add(&mut self, filter: &TopicFilter) -> Option<String> {
        if !self.filters.insert(filter.clone()) {
            return None;
        }
        let channel = channel_of(filter);
        let filters = self.channels.entry(channel.clone()).or_default();
        *filters += 1;
        (*filters == 1).then_some(channel)
    }

    /// Removes a filter. Returns the channel to unsubscribe from, if no other filter needs it.
    pub(super) fn remove(&mut self, filter: &TopicFilter) -> Option<String> {
        if !self.filters.remove(filter) {
            return None;
        }
        let channel = channel_of(filter);
        let filters = self.channels.get_mut(&channel)?;
        *filters -= 1;
        if *filters > 0 {
            return None;
        }
        self.channels.remove(&channel);
        Some(channel)
    }

    /// Returns all channels.
    pub(super) fn channels(&self) -> impl Iterator<Item = &str> {
        self.channels.keys().map(String::as_str)
    }
}

/// Returns the channel of a filter, without the prefix of the engine.
fn channel_of(filter: &TopicFilter) -> String {
    match filter.segments().next() {
        _ if !filter.has_wildcards() => format!("c:{}", filter.as_str()),
        Some(first) if first != "*" && first != ">" => format!("s:{first}"),
        _ => "a".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topic::limits::TopicLimits;

    #[test]
    fn g08_a_channel_is_subscribed_to_once_however_many_filters_need_it() {
        let filter = |text| TopicFilter::parse(text, &TopicLimits::default()).unwrap();
        let mut table = SubscriptionTable::default();
        let channel = |name: &str| Some(name.to_owned());
        assert_eq!(table.add(&filter("chat.a")), channel("c:chat.a"));
        assert_eq!(table.add(&filter("chat.a")), None, "the same again");
        assert_eq!(table.add(&filter("chat.*")), channel("s:chat"));
        assert_eq!(table.add(&filter("chat.>")), None);
        assert_eq!(table.add(&filter("*")), channel("a"));
        assert_eq!(table.add(&filter(">")), None);
        assert_eq!(table.remove(&filter("chat.*")), None);
        assert_eq!(table.remove(&filter("chat.*")), None, "not there any more");
        assert_eq!(table.channels().count(), 3);
        assert_eq!(table.remove(&filter("chat.>")), channel("s:chat"));
        assert_eq!(table.remove(&filter("chat.a")), channel("c:chat.a"));
        assert_eq!(table.remove(&filter("never")), None);
        assert_eq!(table.channels().collect::<Vec<_>>(), ["a"]);
    }
}
