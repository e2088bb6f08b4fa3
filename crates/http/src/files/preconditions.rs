//! Conditional requests (RFC 9110 section 13): which answer the conditions of a GET or HEAD request lead to.

use std::time::SystemTime;

use http::HeaderMap;
use http::header::{
    HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
};

use crate::files::entity_tag::{EntityTag, lists_a_match};
use crate::files::validators::FileValidators;

/// The outcome of the conditions of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConditionOutcome {
    /// The file is to be sent.
    Send,
    /// The client has the file already: 304.
    NotModified,
    /// A condition that the client insists on is false: 412.
    Failed,
}

/// Evaluates the conditions of a GET or HEAD request in the order of RFC 9110 section 13.2.2: an entity tag outweighs
/// the date beside it. Dates that cannot be read, and those of repeated headers, are ignored.
pub(crate) fn evaluate(headers: &HeaderMap, file: &FileValidators) -> ConditionOutcome {
    if headers.contains_key(IF_MATCH) {
        if !lists_a_match(headers, IF_MATCH, |tag| tag.matches_strongly(file.entity_tag())) {
            return ConditionOutcome::Failed;
        }
    } else if is_modified_since(headers, IF_UNMODIFIED_SINCE, file) == Some(true) {
        return ConditionOutcome::Failed;
    }
    if headers.contains_key(IF_NONE_MATCH) {
        if lists_a_match(headers, IF_NONE_MATCH, |tag| tag.matches_weakly(file.entity_tag())) {
            return ConditionOutcome::NotModified;
        }
    } else if is_modified_since(headers, IF_MODIFIED_SINCE, file) == Some(false) {
        return ConditionOutcome::NotModified;
    }
    ConditionOutcome::Send
}

/// True if a `Range` header counts: there is no `If-Range`, or it has the file's strong entity tag or its exact date.
///
/// A date cannot tell two changes within one second. Clients that have the entity tag send that.
pub(crate) fn may_use_range(headers: &HeaderMap, file: &FileValidators) -> bool {
    let mut lines = headers.get_all(IF_RANGE).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return !headers.contains_key(IF_RANGE);
    };
    if let Some((tag, rest)) = EntityTag::parse_prefix(line.as_bytes()) {
        return rest.is_empty() && tag.matches_strongly(file.entity_tag());
    }
    let date = parse_date(headers, IF_RANGE);
    date.is_some() && date == file.last_modified()
}

/// Compares the file with the date of a header; `None` if either has no date.
fn is_modified_since(headers: &HeaderMap, name: HeaderName, file: &FileValidators) -> Option<bool> {
    let date = parse_date(headers, name)?;
    Some(file.last_modified()? > date)
}

fn parse_date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next()?;
    if lines.next().is_some() {
        return None;
    }
    httpdate::parse_http_date(line.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::ConditionOutcome::{Failed, NotModified, Send};
    use super::*;

    const BEFORE: &str = "Tue, 15 Nov 1994 12:45:25 GMT";
    const SAME: &str = "Tue, 15 Nov 1994 12:45:26 GMT";
    const SAME_RFC_850: &str = "Tuesday, 15-Nov-94 12:45:26 GMT";
    const SAME_ASCTIME: &str = "Tue Nov 15 12:45:26 1994";
    const AFTER: &str = "Tue, 15 Nov 1994 12:45:27 GMT";

    fn headers(lines: &[(HeaderName, &'static str)]) -> HeaderMap {
        let line = |(name, value): &(HeaderName, &'static str)| {
            (name.clone(), HeaderValue::from_static(value))
        };
        let mut headers = HeaderMap::new();
        for (name, value) in lines.iter().map(line) {
            headers.append(name, value);
        }
        headers
    }

    fn file(weak: bool) -> FileValidators {
        FileValidators::of_test("x", weak, Some(httpdate::parse_http_date(SAME).unwrap()))
    }

    #[test]
    fn h08_conditions_are_evaluated_in_the_order_of_the_rfc() {
        const MATCH: HeaderName = IF_MATCH;
        const NONE: HeaderName = IF_NONE_MATCH;
        const SINCE: HeaderName = IF_MODIFIED_SINCE;
        const UNMODIFIED: HeaderName = IF_UNMODIFIED_SINCE;
        let rows: &[(&[(HeaderName, &'static str)], ConditionOutcome)] = &[
            (&[], Send),
            // If-Match: strong.
            (&[(MATCH, "\"x\"")], Send),
            (&[(MATCH, "\"a\", \"x\"")], Send),
            (&[(MATCH, "\"a\""), (MATCH, "\"x\"")], Send),
            (&[(MATCH, "*")], Send),
            (&[(MATCH, "\"a\"")], Failed),
            (&[(MATCH, "W/\"x\"")], Failed),
            (&[(MATCH, "x")], Failed),
            (&[(MATCH, "")], Failed),
            // If-Unmodified-Since, only without If-Match.
            (&[(UNMODIFIED, BEFORE)], Failed),
            (&[(UNMODIFIED, SAME)], Send),
            (&[(UNMODIFIED, AFTER)], Send),
            (&[(UNMODIFIED, "yesterday")], Send),
            (&[(UNMODIFIED, BEFORE), (UNMODIFIED, BEFORE)], Send),
            (&[(MATCH, "\"x\""), (UNMODIFIED, BEFORE)], Send),
            (&[(MATCH, "\"a\""), (UNMODIFIED, AFTER)], Failed),
            // If-None-Match: weak.
            (&[(NONE, "\"x\"")], NotModified),
            (&[(NONE, "W/\"x\"")], NotModified),
            (&[(NONE, "\"a\", \"x\"")], NotModified),
            (&[(NONE, "*")], NotModified),
            (&[(NONE, "\"a\"")], Send),
            (&[(NONE, "x")], Send),
            // If-Modified-Since, only without If-None-Match.
            (&[(SINCE, BEFORE)], Send),
            (&[(SINCE, SAME)], NotModified),
            (&[(SINCE, SAME_RFC_850)], NotModified),
            (&[(SINCE, SAME_ASCTIME)], NotModified),
            (&[(SINCE, AFTER)], NotModified),
            (&[(SINCE, "0")], Send),
            (&[(SINCE, SAME), (SINCE, SAME)], Send),
            (&[(NONE, "\"a\""), (SINCE, AFTER)], Send),
            (&[(NONE, "\"x\""), (SINCE, BEFORE)], NotModified),
            // Both kinds: 412 comes first.
            (&[(MATCH, "\"a\""), (NONE, "\"x\"")], Failed),
            (&[(MATCH, "\"x\""), (NONE, "\"x\"")], NotModified),
            (&[(UNMODIFIED, BEFORE), (SINCE, AFTER)], Failed),
            (&[(UNMODIFIED, AFTER), (SINCE, AFTER)], NotModified),
        ];
        for (lines, expected) in rows {
            assert_eq!(evaluate(&headers(lines), &file(false)), *expected, "{lines:?}");
        }
    }

    #[test]
    fn h08_a_weak_entity_tag_only_saves_a_transfer() {
        assert_eq!(evaluate(&headers(&[(IF_NONE_MATCH, "\"x\"")]), &file(true)), NotModified);
        assert_eq!(evaluate(&headers(&[(IF_MATCH, "W/\"x\"")]), &file(true)), Failed);
        assert_eq!(evaluate(&headers(&[(IF_MATCH, "*")]), &file(true)), Send);
    }

    #[test]
    fn h08_dates_are_ignored_for_a_file_without_one() {
        let file = FileValidators::of_test("x", false, None);
        for name in [IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE] {
            assert_eq!(evaluate(&headers(&[(name, BEFORE)]), &file), Send);
        }
        assert!(!may_use_range(&headers(&[(IF_RANGE, BEFORE)]), &file));
    }

    #[test]
    fn h08_if_range_wants_the_strong_tag_or_the_exact_date() {
        let rows = [
            ("\"x\"", true),
            ("\"a\"", false),
            ("W/\"x\"", false),
            ("\"x\", \"a\"", false),
            ("*", false),
            ("x", false),
            ("", false),
            (SAME, true),
            (SAME_RFC_850, true),
            (BEFORE, false),
            (AFTER, false),
        ];
        for (value, expected) in rows {
            assert_eq!(
                may_use_range(&headers(&[(IF_RANGE, value)]), &file(false)),
                expected,
                "{value}"
            );
        }
        assert!(may_use_range(&HeaderMap::new(), &file(true)));
        assert!(!may_use_range(&headers(&[(IF_RANGE, "\"x\"")]), &file(true)), "ours is weak");
        let twice = headers(&[(IF_RANGE, "\"x\""), (IF_RANGE, "\"x\"")]);
        assert!(!may_use_range(&twice, &file(false)));
    }
}
