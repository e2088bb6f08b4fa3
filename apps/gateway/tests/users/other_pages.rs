//! Pages of other hosts in Chromium.

use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::tools::{Player, installed, node_script};

#[test]
fn g03_a_page_of_another_host_is_refused_by_every_way_unless_it_is_listed() {
    installed("chromium");
    let mut command = node_script("browser_clients.js", &["playwright-core"]);
    let mut page = Player::start(command.arg("origins"));
    let origin = page.line();
    let mut attempt = |gateway: &Gateway| -> Value {
        page.say(&gateway.url("/"));
        serde_json::from_str(&page.line()).unwrap()
    };
    let published = |gateway: &Gateway| {
        let history = gateway.curl("/api/history?topic=pages", &[]);
        history["publications"].as_array().map(Vec::len)
    };
    let strict = Gateway::start(&["--origins-allowed", "http://localhost:1"]);
    let refused = json!({
        "get": "refused", "simplePost": "refused", "blindPost": "opaque", "preflightPost": "refused",
        "key": "refused", "events": "refused", "webSocket": "refused",
    });
    assert_eq!(attempt(&strict), refused);
    // The browser sends what needs no preflight, and hides the answer: the gateway must not carry it out.
    assert_eq!(published(&strict), Some(0));
    // What operators see is refused too, although the browser would hide it. The refusal names the key to set.
    for path in ["/api/history?topic=pages", "/api/topics", "/api/live", "/metrics"] {
        let told = strict.curl(path, &["-H", "origin: http://elsewhere"]);
        let told = told["error"]["message"].as_str().unwrap_or_default();
        assert!(told.contains("origins.allowed"), "{path}: {told}");
    }
    let listing = Gateway::start(&["--origins-allowed", &origin]);
    let permitted = json!({
        "get": "200", "simplePost": "200", "blindPost": "opaque", "preflightPost": "200",
        "key": "401", "events": "open", "webSocket": "open",
    });
    assert_eq!(attempt(&listing), permitted);
    assert_eq!(published(&listing), Some(3));
    assert!(page.finish().is_empty());
}
