//! Patterns of routes, such as `/users/{id}/files/{*path}`, and what is wrong with them.

use std::sync::Arc;

use http::Method;
use http::uri::PathAndQuery;

/// A pattern that is valid.
pub(super) struct RoutePattern {
    pub(super) parts: Vec<PatternPart>,
    /// The parameters in their order; `None` without parameters.
    pub(super) parameters: Option<Arc<[PathParameter]>>,
}

/// A segment of a pattern, or all segments from here on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PatternPart {
    Literal(Box<str>),
    /// One segment that is not empty.
    Parameter,
    /// The rest of the path, which may be empty.
    Tail,
}

/// A parameter of a pattern.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PathParameter {
    pub(super) name: Box<str>,
    /// The number of segments before it.
    pub(super) segment: usize,
    pub(super) is_tail: bool,
}

/// The reason why routes cannot be served.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidRoute {
    /// A pattern, or the prefix of a nested router, does not begin with a slash.
    #[error("the route `{pattern}` does not begin with a slash")]
    NoSlash {
        /// The pattern.
        pattern: String,
    },
    /// A segment can match no path, or has a brace that is not at its ends.
    #[error(
        "the segment `{segment}` of the route `{pattern}` is neither text of a path, `{{name}}` nor `{{*name}}`, \
         with names of letters, digits and `_`"
    )]
    Segment {
        /// The pattern.
        pattern: String,
        /// The segment.
        segment: String,
    },
    /// A segment follows a parameter that takes the rest of the path.
    #[error("the route `{pattern}` goes on behind `{segment}`, which takes the rest of the path")]
    TailNotLast {
        /// The pattern.
        pattern: String,
        /// The segment that takes the rest.
        segment: String,
    },
    /// Two parameters of a pattern have one name.
    #[error("the route `{pattern}` has two parameters named `{name}`")]
    RepeatedParameter {
        /// The pattern.
        pattern: String,
        /// The name.
        name: String,
    },
    /// Two routes of one method match the same paths.
    #[error("the routes `{pattern}` and `{other}` match the same paths with the method {method}")]
    Conflict {
        /// The method, or `any`.
        method: String,
        /// The pattern that was added second.
        pattern: String,
        /// The pattern that was added first.
        other: String,
    },
    /// The prefix of a nested router ends with a slash, or with a parameter that takes the rest.
    #[error("the prefix `{prefix}` of a nested router ends with a slash")]
    PrefixEndsWithSlash {
        /// The prefix.
        prefix: String,
    },
    /// A nested router has a fallback.
    #[error(
        "the router nested at `{prefix}` has a fallback, which only the outermost router may have: add a route \
         `{{*rest}}` for any method to it"
    )]
    NestedFallback {
        /// The prefix.
        prefix: String,
    },
    /// A router has two fallbacks.
    #[error("the router has two fallbacks")]
    SecondFallback,
    /// A route for CONNECT, whose requests have no path.
    #[error("the route `{pattern}` is for CONNECT, whose requests have no path")]
    Connect {
        /// The pattern.
        pattern: String,
    },
}

impl RoutePattern {
    /// Parses a pattern.
    pub(super) fn parse(pattern: &str) -> Result<Self, InvalidRoute> {
        let text = || pattern.to_owned();
        let segments =
            pattern.strip_prefix('/').ok_or_else(|| InvalidRoute::NoSlash { pattern: text() })?;
        let (mut parts, mut parameters) = (Vec::new(), Vec::<PathParameter>::new());
        for (index, segment) in segments.split('/').enumerate() {
            if let Some(PatternPart::Tail) = parts.last() {
                let segment = segments.split('/').nth(index - 1).unwrap_or_default().to_owned();
                return Err(InvalidRoute::TailNotLast { pattern: text(), segment });
            }
            let Some((part, name)) = parse_segment(segment) else {
                return Err(InvalidRoute::Segment { pattern: text(), segment: segment.to_owned() });
            };
            if let Some(name) = name {
                if parameters.iter().any(|other| *other.name == *name) {
                    let name = name.to_owned();
                    return Err(InvalidRoute::RepeatedParameter { pattern: text(), name });
                }
                let is_tail = part == PatternPart::Tail;
                parameters.push(PathParameter { name: name.into(), segment: index, is_tail });
            }
            parts.push(part);
        }
        let parameters = (!parameters.is_empty()).then(|| parameters.into());
        Ok(Self { parts, parameters })
    }
}

/// Returns a segment, with its name if it is a parameter.
fn parse_segment(segment: &str) -> Option<(PatternPart, Option<&str>)> {
    let inner = segment.strip_prefix('{').and_then(|segment| segment.strip_suffix('}'));
    if let Some(inner) = inner {
        let (name, part) = match inner.strip_prefix('*') {
            Some(name) => (name, PatternPart::Tail),
            None => (inner, PatternPart::Parameter),
        };
        let is_name = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        return is_name.then_some((part, Some(name)));
    }
    is_path_text(segment).then(|| (PatternPart::Literal(segment.into()), None))
}

/// True if a request can have this segment in its path.
fn is_path_text(segment: &str) -> bool {
    let has_path_bytes = segment
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}' | b'?' | b'#'));
    has_path_bytes && PathAndQuery::try_from(format!("/{segment}")).is_ok()
}

/// Returns the pattern of a route of a nested router.
pub(super) fn join_patterns(prefix: &str, pattern: &str) -> Result<String, InvalidRoute> {
    if prefix.ends_with('/') {
        return Err(InvalidRoute::PrefixEndsWithSlash { prefix: prefix.to_owned() });
    }
    if !pattern.is_empty() && !pattern.starts_with('/') {
        return Err(InvalidRoute::NoSlash { pattern: pattern.to_owned() });
    }
    Ok(format!("{prefix}{pattern}"))
}

/// Returns an error if requests of this method have no path.
pub(super) fn check_method(method: &Method, pattern: &str) -> Result<(), InvalidRoute> {
    if *method == Method::CONNECT {
        return Err(InvalidRoute::Connect { pattern: pattern.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pattern: &str) -> Vec<(String, usize, bool)> {
        let parameters = RoutePattern::parse(pattern).unwrap().parameters;
        let parameters = parameters.iter().flat_map(|parameters| parameters.iter());
        parameters.map(|p| (p.name.to_string(), p.segment, p.is_tail)).collect()
    }

    #[test]
    fn h07_a_pattern_has_literals_parameters_and_a_tail() {
        assert_eq!(names("/"), []);
        assert_eq!(names("/a//.%41~!$&'()*+,;=:@/"), []);
        assert_eq!(names("/{a}"), [("a".into(), 0, false)]);
        assert_eq!(
            names("/a/{id_1}/{*rest}"),
            [("id_1".into(), 1, false), ("rest".into(), 2, true)]
        );
    }

    #[test]
    fn h07_patterns_that_match_no_path_are_refused() {
        let segment = |pattern: &str, segment: &str| InvalidRoute::Segment {
            pattern: pattern.into(),
            segment: segment.into(),
        };
        let table = [
            ("", InvalidRoute::NoSlash { pattern: String::new() }),
            ("*", InvalidRoute::NoSlash { pattern: "*".into() }),
            ("a/b", InvalidRoute::NoSlash { pattern: "a/b".into() }),
            ("/{}", segment("/{}", "{}")),
            ("/{*}", segment("/{*}", "{*}")),
            ("/{a", segment("/{a", "{a")),
            ("/a}/b", segment("/a}/b", "a}")),
            ("/{a}.json", segment("/{a}.json", "{a}.json")),
            ("/{a-b}", segment("/{a-b}", "{a-b}")),
            ("/a b", segment("/a b", "a b")),
            ("/a?b", segment("/a?b", "a?b")),
            ("/a#b", segment("/a#b", "a#b")),
            ("/\u{e9}", segment("/\u{e9}", "\u{e9}")),
            ("/<a>", segment("/<a>", "<a>")),
        ];
        for (pattern, error) in table {
            assert_eq!(RoutePattern::parse(pattern).err(), Some(error), "{pattern}");
        }
        assert!(matches!(
            RoutePattern::parse("/{*a}/b"),
            Err(InvalidRoute::TailNotLast { segment, .. }) if segment == "{*a}"
        ));
        assert!(matches!(
            RoutePattern::parse("/{a}/{*a}"),
            Err(InvalidRoute::RepeatedParameter { name, .. }) if name == "a"
        ));
    }
}
