//! That the suites forget none of their own tests.

/// Fails unless every public function of these files stands once, on a line of its own, in `listing`.
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
