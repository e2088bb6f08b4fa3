//! A tree of patterns, searched by the segments of a path.
//!
//! At each segment a literal is tried first, then a parameter, then a tail; a branch without a match is left for the
//! next one. Every node is at the end of one path from the root, so a search visits it at most once, and only nodes as
//! deep as the path is long: the work does not grow with what a client can send beyond the routes that exist.

use super::route_pattern::PatternPart;

/// A tree of values by pattern.
pub(super) struct RouteTree<T> {
    /// The first node is the root.
    nodes: Vec<RouteNode<T>>,
}

struct RouteNode<T> {
    /// The nodes behind literal segments, sorted by the segment.
    literals: Vec<(Box<str>, usize)>,
    /// The node behind a parameter.
    parameter: Option<usize>,
    /// The value of paths that end here.
    end: Option<T>,
    /// The value of paths that go on from here.
    tail: Option<T>,
}

impl<T> RouteTree<T> {
    pub(super) fn new() -> Self {
        Self { nodes: vec![RouteNode::new()] }
    }

    /// Returns the place of a pattern's value, making it if it is missing.
    pub(super) fn place(&mut self, parts: &[PatternPart]) -> &mut Option<T> {
        let mut at = 0;
        for part in parts {
            let next = self.nodes.len();
            let node = &mut self.nodes[at];
            at = match part {
                // The last part: see `RoutePattern::parse`.
                PatternPart::Tail => break,
                PatternPart::Parameter => *node.parameter.get_or_insert(next),
                PatternPart::Literal(segment) => match node.position(segment) {
                    Ok(found) => node.literals[found].1,
                    Err(place) => {
                        node.literals.insert(place, (segment.clone(), next));
                        next
                    }
                },
            };
            if at == next {
                self.nodes.push(RouteNode::new());
            }
        }
        let node = &mut self.nodes[at];
        if parts.last() == Some(&PatternPart::Tail) { &mut node.tail } else { &mut node.end }
    }

    /// Returns the value of the pattern that matches a path and takes precedence. Does not allocate.
    pub(super) fn find(&self, path: &str) -> Option<&T> {
        self.find_below(0, Some(path.strip_prefix('/')?))
    }

    /// Searches from a node on; `rest` is `None` behind the last segment.
    fn find_below(&self, node: usize, rest: Option<&str>) -> Option<&T> {
        let node = &self.nodes[node];
        let Some(rest) = rest else { return node.end.as_ref() };
        let (segment, next) = match memchr::memchr(b'/', rest.as_bytes()) {
            Some(slash) => (&rest[..slash], Some(&rest[slash + 1..])),
            None => (rest, None),
        };
        let literal = node.position(segment).ok();
        literal
            .and_then(|found| self.find_below(node.literals[found].1, next))
            .or_else(|| {
                let parameter = node.parameter.filter(|_| !segment.is_empty())?;
                self.find_below(parameter, next)
            })
            .or(node.tail.as_ref())
    }

    /// Iterates over all values.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.nodes.iter_mut().flat_map(|node| node.end.iter_mut().chain(node.tail.iter_mut()))
    }
}

impl<T> RouteNode<T> {
    const fn new() -> Self {
        Self { literals: Vec::new(), parameter: None, end: None, tail: None }
    }

    fn position(&self, segment: &str) -> Result<usize, usize> {
        self.literals.binary_search_by(|(literal, _)| (**literal).cmp(segment))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::service::route_pattern::RoutePattern;

    fn parse(pattern: &str) -> Vec<PatternPart> {
        RoutePattern::parse(pattern).unwrap().parts
    }

    /// Returns the choices of a pattern along a path, 0 for a literal, 1 for a parameter, 2 for a tail, if it matches.
    fn choices(pattern: &str, path: &str) -> Option<Vec<u8>> {
        let mut choices = Vec::new();
        let mut segments = path[1..].split('/');
        for part in parse(pattern) {
            let segment = segments.next();
            choices.push(match part {
                PatternPart::Tail => {
                    segment?;
                    choices.push(2);
                    return Some(choices);
                }
                PatternPart::Parameter if !segment?.is_empty() => 1,
                PatternPart::Literal(literal) if *literal == *segment? => 0,
                _ => return None,
            });
        }
        segments.next().is_none().then_some(choices)
    }

    proptest! {
        #[test]
        fn h07_a_search_finds_the_match_with_the_highest_precedence(
            patterns in prop::collection::vec("(/(a|b|\\{x[0-9]\\})){0,3}/(a|b||\\{y\\}|\\{\\*z\\})", 0..12),
            path in "(/(a|b|c|)){1,5}",
        ) {
            let patterns: Vec<_> = patterns.into_iter().filter(|p| RoutePattern::parse(p).is_ok()).collect();
            let mut tree = RouteTree::new();
            for pattern in &patterns {
                let choices = choices(pattern, &path);
                let place = tree.place(&parse(pattern));
                prop_assert!(place.as_ref().is_none_or(|other| *other == choices));
                *place = Some(choices);
            }
            let best = patterns.iter().filter_map(|pattern| choices(pattern, &path)).min();
            prop_assert_eq!(tree.find(&path).cloned().flatten(), best);
        }
    }

    #[test]
    fn h07_a_path_that_does_not_begin_with_a_slash_is_not_found() {
        let mut tree = RouteTree::new();
        *tree.place(&parse("/{*all}")) = Some(());
        assert!(tree.find("/").is_some());
        assert!(tree.find("").is_none() && tree.find("*").is_none());
    }
}
