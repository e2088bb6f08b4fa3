//! T03: names with wildcards, against a slow reference.

use proptest::prelude::*;
use waterwheel_tls::ServerNameMap;

/// Compares label by label.
fn matches(pattern: &str, name: &str) -> bool {
    let labels = |text: &str| {
        let text = text.strip_suffix('.').unwrap_or(text).to_lowercase();
        text.split('.').map(str::to_owned).collect::<Vec<_>>()
    };
    let (pattern, name) = (labels(pattern), labels(name));
    pattern.len() == name.len()
        && pattern.iter().zip(&name).all(|(wanted, label)| wanted == "*" || wanted == label)
}

fn find<'a>(patterns: &'a [String], name: &str) -> Option<&'a String> {
    let exact = patterns.iter().rev().find(|it| !it.starts_with('*') && matches(it, name));
    exact.or_else(|| patterns.iter().rev().find(|it| it.starts_with('*') && matches(it, name)))
}

fn name() -> impl Strategy<Value = String> {
    "([abAB]\\.){0,3}[abAB]\\.?"
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn t03_the_map_finds_what_a_comparison_of_labels_finds(
        patterns in proptest::collection::vec(("(\\*\\.)?", name()).prop_map(|(a, b)| a + &b), 0..12),
        asked in proptest::collection::vec(name(), 20),
    ) {
        let mut map = ServerNameMap::new();
        for pattern in &patterns {
            map.insert(pattern, pattern.clone()).unwrap();
        }
        for name in asked {
            prop_assert_eq!(map.get(&name), find(&patterns, &name), "{} in {:?}", name, patterns);
        }
    }

    #[test]
    fn t03_any_text_can_be_asked_for_and_inserted(name in any::<String>(), asked in any::<String>()) {
        let mut map = ServerNameMap::new();
        let is_valid = map.insert(&name, ()).is_ok();
        prop_assert_eq!(map.len(), usize::from(is_valid));
        prop_assert!(is_valid || map.get(&asked).is_none());
    }
}

#[test]
fn t03_a_wildcard_stands_for_one_label() {
    let mut map = ServerNameMap::new();
    assert!(map.is_empty() && map.get("").is_none());
    assert_eq!(map.insert("*.example.org", 1).unwrap(), None);
    assert_eq!(map.insert("*.EXAMPLE.org.", 2).unwrap(), Some(1));
    assert_eq!(map.get("a.example.org"), Some(&2));
    for name in ["example.org", ".example.org", "a.b.example.org", "org", ".", ""] {
        assert_eq!(map.get(name), None, "{name}");
    }
    let longest = format!("{}.example.org", "a".repeat(63));
    assert_eq!(map.insert(&longest, 3).unwrap(), None);
    assert_eq!(map.get(&longest), Some(&3));
    for name in ["", ".", "*", "*.", "*.*.org", "a.*.org", "a..org", "-a.org", "::1", "10.0.0.1"] {
        map.insert(name, 4).unwrap_err();
    }
    map.insert(&format!("{}.org", "a".repeat(64)), 4).unwrap_err();
    let mut names: Vec<_> = map.names().collect();
    names.sort();
    assert_eq!(names, ["*.example.org".to_owned(), longest]);
}
