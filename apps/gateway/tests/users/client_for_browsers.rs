//! `waterwheel.js` over a socket and a clock that its tests move.

use crate::tools::{node, script, succeed};

#[test]
fn g02_the_client_for_browsers_reconnects_resumes_and_keeps_its_limits() {
    let file = script("waterwheel.test.mjs");
    let printed = succeed(node().args(["--test", "--test-reporter=tap"]).arg(file));
    let count = |name: &str| {
        let line = printed.lines().find_map(|line| line.strip_prefix(&format!("# {name} ")));
        line.and_then(|count| count.parse::<u32>().ok())
    };
    assert_eq!(count("fail"), Some(0), "{printed}");
    assert!(count("pass") >= Some(29), "{printed}");
}
