//! A trie of filters with wildcards, by segment.

use std::collections::HashMap;

/// Values by filter. A node stands for the segments on the way to it.
///
/// A search enters, at each segment of a topic, the child of this text and the child `*`: at most as many nodes as filters
/// with this beginning were inserted.
#[derive(Debug)]
pub(super) struct FilterTrie<V> {
    root: TrieNode<V>,
    len: usize,
}

#[derive(Debug)]
struct TrieNode<V> {
    /// The nodes of the next segment, `*` and `>` among them: a topic has no such segments.
    children: HashMap<Box<str>, TrieNode<V>>,
    value: Option<V>,
}

impl<V> FilterTrie<V> {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn get<'a>(&self, mut segments: impl Iterator<Item = &'a str>) -> Option<&V> {
        let mut node = &self.root;
        segments.try_for_each(|segment| {
            node = node.children.get(segment)?;
            Some(())
        })?;
        node.value.as_ref()
    }

    pub(super) fn get_mut<'a>(
        &mut self,
        segments: impl Iterator<Item = &'a str>,
    ) -> Option<&mut V> {
        let mut node = &mut self.root;
        for segment in segments {
            node = node.children.get_mut(segment)?;
        }
        node.value.as_mut()
    }

    pub(super) fn get_or_insert_with<'a>(
        &mut self,
        segments: impl Iterator<Item = &'a str>,
        make: impl FnOnce() -> V,
    ) -> &mut V {
        let mut node = &mut self.root;
        for segment in segments {
            node = node.children.entry(segment.into()).or_default();
        }
        if node.value.is_none() {
            self.len += 1;
        }
        node.value.get_or_insert_with(make)
    }

    pub(super) fn remove<'a>(&mut self, segments: impl Iterator<Item = &'a str>) -> Option<V> {
        let segments: Vec<&str> = segments.collect();
        let removed = self.root.remove(&segments)?;
        self.len -= 1;
        Some(removed)
    }

    pub(super) fn for_each_match<'a>(&'a self, topic: &str, visit: &mut impl FnMut(&'a V)) {
        self.root.visit_matches(Some(topic), visit);
    }
}

impl<V> TrieNode<V> {
    /// Removes a value below this node, and the nodes that are then empty. The depth is limited as the segments of filters
    /// are.
    fn remove(&mut self, segments: &[&str]) -> Option<V> {
        let Some((first, rest)) = segments.split_first() else { return self.value.take() };
        let child = self.children.get_mut(*first)?;
        let removed = child.remove(rest)?;
        if child.value.is_none() && child.children.is_empty() {
            self.children.remove(*first);
        }
        Some(removed)
    }

    /// Visits the values below this node that match the rest of a topic; `None`: nothing of it is left.
    fn visit_matches<'a>(&'a self, rest: Option<&str>, visit: &mut impl FnMut(&'a V)) {
        let Some(rest) = rest else {
            self.value.iter().for_each(visit);
            return;
        };
        let (segment, rest) = match rest.split_once('.') {
            Some((segment, rest)) => (segment, Some(rest)),
            None => (rest, None),
        };
        if let Some(value) = self.children.get(">").and_then(|node| node.value.as_ref()) {
            visit(value);
        }
        for child in [segment, "*"] {
            if let Some(node) = self.children.get(child) {
                node.visit_matches(rest, visit);
            }
        }
    }
}

impl<V> Default for FilterTrie<V> {
    fn default() -> Self {
        Self { root: TrieNode::default(), len: 0 }
    }
}

impl<V> Default for TrieNode<V> {
    fn default() -> Self {
        Self { children: HashMap::new(), value: None }
    }
}
