//! Values by filter, found by the topics that the filters match.

use std::collections::HashMap;

use super::filter_trie::FilterTrie;
use crate::topic::filter::TopicFilter;
use crate::topic::name::Topic;

/// A value for each filter. Filters without wildcards are found by one look-up; the others in a trie, which is not entered
/// if there are none.
#[derive(Debug)]
pub(super) struct FilterTable<V> {
    exact: HashMap<Box<str>, V>,
    wildcards: FilterTrie<V>,
}

impl<V> FilterTable<V> {
    /// Returns the value of a filter.
    pub(super) fn get(&self, filter: &TopicFilter) -> Option<&V> {
        match filter.has_wildcards() {
            false => self.exact.get(filter.as_str()),
            true => self.wildcards.get(filter.segments()),
        }
    }

    /// Returns the value of a filter, to change it.
    pub(super) fn get_mut(&mut self, filter: &TopicFilter) -> Option<&mut V> {
        match filter.has_wildcards() {
            false => self.exact.get_mut(filter.as_str()),
            true => self.wildcards.get_mut(filter.segments()),
        }
    }

    /// Returns the value of a filter, creating it if absent.
    pub(super) fn get_or_insert_with(
        &mut self,
        filter: &TopicFilter,
        make: impl FnOnce() -> V,
    ) -> &mut V {
        match filter.has_wildcards() {
            false => self.exact.entry(filter.as_str().into()).or_insert_with(make),
            true => self.wildcards.get_or_insert_with(filter.segments(), make),
        }
    }

    /// Removes the value of a filter.
    pub(super) fn remove(&mut self, filter: &TopicFilter) -> Option<V> {
        match filter.has_wildcards() {
            false => self.exact.remove(filter.as_str()),
            true => self.wildcards.remove(filter.segments()),
        }
    }

    /// Calls `visit` with the value of each filter that matches a topic.
    pub(super) fn for_each_match<'a>(&'a self, topic: &Topic, mut visit: impl FnMut(&'a V)) {
        if let Some(value) = self.exact.get(topic.as_str()) {
            visit(value);
        }
        if !self.wildcards.is_empty() {
            self.wildcards.for_each_match(topic.as_str(), &mut visit);
        }
    }
}

impl<V> Default for FilterTable<V> {
    fn default() -> Self {
        Self { exact: HashMap::new(), wildcards: FilterTrie::default() }
    }
}
