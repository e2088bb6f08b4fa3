//! Pages of other hosts are refused, unless they are listed.

use serde_json::json;

use crate::support::bench::Bench;
use crate::support::http_client::request;
use crate::support::websocket_client::WebSocketClient;

const LISTED: &str = "https://app.example.org";

fn bench() -> Bench {
    Bench::with(|config| config.options.allowed_origins = vec![LISTED.to_owned()])
}

#[test]
fn g03_a_websocket_of_a_page_of_another_host_is_refused() {
    let bench = bench();
    for (origin, status) in
        [("http://gateway", 101), (LISTED, 101), ("https://evil.example.org", 403), ("null", 403)]
    {
        let opened =
            WebSocketClient::try_connect(bench.http, "/ws", &format!("Origin: {origin}\r\n"));
        assert_eq!(opened.err().unwrap_or(101), status, "{origin}");
    }
    bench.end();
}

#[test]
fn g03_requests_of_pages_of_other_hosts_are_refused_and_publish_nothing() {
    let bench = bench();
    let mut watcher = bench.websocket();
    watcher.ask(json!({"subscribe": {"topic": ">"}}));
    let requests = [
        ("POST", "/api/publish", "{\"topic\":\"a\",\"data\":1}"),
        ("POST", "/topics/a", "x"),
        ("GET", "/api/history?topic=a", ""),
        ("GET", "/api/presence?topic=a", ""),
        ("GET", "/api/topics", ""),
        ("GET", "/events?topic=a", ""),
    ];
    for (method, target, body) in requests {
        // Without a preflight: a simple request of a form or of a script.
        let fields = "Origin: https://evil.example.org\r\nContent-Type: text/plain\r\n";
        let answer = request(bench.http, method, target, fields, body);
        assert_eq!((answer.status, answer.error().as_str()), (403, "not_permitted"), "{target}");
        assert_eq!(answer.field("access-control-allow-origin"), None);
        let path = target.split('?').next().unwrap();
        let answer = request(bench.http, "OPTIONS", path, fields, "");
        assert_eq!((answer.status, answer.field("access-control-allow-methods")), (403, None));
    }
    watcher.expect_nothing();
    bench.end();
}

#[test]
fn g03_pages_that_are_listed_may_send_requests_and_read_the_answers() {
    let bench = bench();
    let fields = format!("Origin: {LISTED}\r\n");
    let preflight = format!(
        "{fields}Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\n"
    );
    let answer = request(bench.http, "OPTIONS", "/api/publish", &preflight, "");
    assert_eq!(answer.status, 204);
    assert_eq!(answer.field("access-control-allow-origin"), Some(LISTED));
    assert_eq!(answer.field("access-control-allow-methods"), Some("POST"));
    let allowed = answer.field("access-control-allow-headers").unwrap();
    assert!(allowed.contains("authorization") && allowed.contains("content-type"), "{allowed}");
    for body in ["{\"topic\":\"a\",\"data\":1}", "nonsense"] {
        let answer = request(bench.http, "POST", "/api/publish", &fields, body);
        assert_eq!(answer.field("access-control-allow-origin"), Some(LISTED), "errors too");
        assert_eq!(answer.field("vary"), Some("Origin"));
        assert_eq!(answer.field("access-control-allow-credentials"), None);
    }
    let own = request(bench.http, "GET", "/api/history?topic=a", "Origin: http://gateway\r\n", "");
    assert_eq!((own.status, own.field("access-control-allow-origin")), (200, None));
    bench.end();
}
