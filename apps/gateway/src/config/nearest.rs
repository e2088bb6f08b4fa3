//! Finds the known name that is most like an unknown one.

/// Returns the name with the fewest letters to insert, remove, replace or swap; `None` if more than a third of the letters
/// differ. A name whose last part is the unknown one counts as near: `certificate` for `tls.certificate`.
pub(super) fn nearest_name<S: AsRef<str>>(
    unknown: &str,
    known: impl Iterator<Item = S>,
) -> Option<S> {
    let unknown: String = unknown.chars().take(MAX_CHARS).collect();
    let limit = unknown.chars().count().div_ceil(3);
    let distance = |name: &S| {
        let name = name.as_ref();
        let parts = name.rsplit(['.', '-', '_']).next();
        if parts == Some(unknown.as_str()) { 1 } else { edit_distance(&unknown, name) }
    };
    let near = known.map(|name| (distance(&name), name)).min_by_key(|(distance, _)| *distance);
    near.filter(|(distance, _)| *distance <= limit).map(|(_, name)| name)
}

/// Longer names are compared by their beginning.
const MAX_CHARS: usize = 64;

/// Returns the distance of two names (optimal string alignment).
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // Three rows: the one before the last is for swaps.
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let is_same = a[i - 1] == b[j - 1];
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + usize::from(!is_same));
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        (before, last) = (last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g06_the_nearest_name_is_found_and_nothing_far_away() {
        let known = ["port", "bind", "tls.certificate", "tls.client_ca", "drain"];
        let of = [
            ("prot", Some("port")),
            ("tls.certficate", Some("tls.certificate")),
            ("certificate", Some("tls.certificate")),
            ("drian", Some("drain")),
            ("zzzz", None),
            ("", None),
        ];
        for (unknown, nearest) in of {
            let found = nearest_name(unknown, known.into_iter());
            assert_eq!(found, nearest, "{unknown}");
        }
        let long = "x".repeat(1_000_000);
        assert_eq!(nearest_name(&long, known.into_iter()), None);
    }

    #[test]
    fn g06_a_swap_counts_once() {
        assert_eq!(edit_distance("prot", "port"), 1);
        assert_eq!(edit_distance("abc", "abc"), 0);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }
}
