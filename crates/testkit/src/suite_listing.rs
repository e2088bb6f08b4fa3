//! Checks that a suite's list names each of its tests.

/// Panics unless every public function of these files occurs in `listing` exactly once, on a line of its own.
pub(crate) fn assert_listed_once(files: &[&str], listing: &str) {
    let names = files
        .iter()
        .flat_map(|file| file.lines())
        .filter_map(|line| line.strip_prefix("pub fn ")?.split_once('(').map(|(name, _)| name));
    for name in names {
        let listed = listing.lines().filter(|line| line.trim() == name);
        assert_eq!(listed.count(), 1, "{name}");
    }
}
