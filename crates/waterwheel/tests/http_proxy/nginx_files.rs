//! The reverse proxy in front of nginx: files, ranges, uploads, load.

use std::process::Command;

use crate::program::Program;
use crate::support::nginx::Nginx;
use crate::support::{curl, curl_text, field, run, start_proxy, unequal_bytes};

/// Files; parts of responses that have no length (`/chunked`); uploads (`/put/NAME`); a counter of connections.
const SERVER: &str = "
    location / { }
    location /chunked/ { alias www/; ssi on; ssi_types *; }
    location /put/ { alias www/; dav_methods PUT; }
    location /count { return 200 \"$connection $connection_requests\"; }
    location /moved { return 302 /small; }";

fn start() -> Option<(Nginx, Program, impl Fn(&str) -> String)> {
    let nginx = Nginx::start(SERVER)?;
    let proxy = start_proxy(nginx.address, &[]);
    let address = proxy.address();
    Some((nginx, proxy, move |path: &str| format!("http://{address}{path}")))
}

#[test]
fn h15_files_of_nginx_pass_the_proxy_as_they_are() {
    let Some((nginx, _proxy, url)) = start() else { return };
    nginx.write("small", b"hello from a file");
    let direct = curl_text(&["--include", &nginx.url("/small")]);
    let Some(direct) = direct else { return };
    let passed = curl_text(&["--include", &url("/small")]).unwrap();
    assert!(passed.starts_with("HTTP/1.1 200 OK\r\n"), "{passed}");
    assert!(passed.ends_with("\r\n\r\nhello from a file"), "{passed}");
    for name in ["etag", "last-modified", "content-length", "content-type", "accept-ranges"] {
        assert_eq!(field(&passed, name), field(&direct, name), "{name}");
        assert!(field(&direct, name).is_some(), "{direct}");
    }
    assert_eq!(field(&passed, "via"), Some("1.1 waterwheel"));
    assert_eq!(field(&passed, "date").map(str::len), field(&direct, "date").map(str::len));

    let etag = field(&passed, "etag").unwrap();
    let condition = format!("if-none-match: {etag}");
    let unchanged = curl_text(&["--include", "--header", &condition, &url("/small")]).unwrap();
    assert!(unchanged.starts_with("HTTP/1.1 304 Not Modified\r\n"), "{unchanged}");
    assert!(unchanged.ends_with("\r\n\r\n"), "{unchanged}");
    let range = curl_text(&["--include", "--range", "6-9", &url("/small")]).unwrap();
    assert!(range.starts_with("HTTP/1.1 206 Partial Content\r\n"), "{range}");
    assert_eq!(field(&range, "content-range"), Some("bytes 6-9/17"));
    assert!(range.ends_with("\r\n\r\nfrom"), "{range}");
    let missing = curl_text(&["--include", &url("/none")]).unwrap();
    assert!(missing.starts_with("HTTP/1.1 404 Not Found\r\n"), "{missing}");
    let redirected = curl_text(&["--location", &url("/moved")]).unwrap();
    assert_eq!(redirected, "hello from a file");
}

#[test]
fn h04_the_length_of_a_body_that_head_does_not_get_is_kept() {
    let Some((nginx, _proxy, url)) = start() else { return };
    nginx.write("small", b"hello");
    let Some(head) = curl_text(&["--head", &url("/small")]) else { return };
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert_eq!(field(&head, "content-length"), Some("5"), "{head}");
    // A GET would be answered in chunks.
    let head = curl_text(&["--head", &url("/chunked/small")]).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert_eq!(field(&head, "content-length"), None, "{head}");
    // The connection is in order after both.
    let both = curl_text(&["--head", &url("/chunked/small"), &url("/small")]).unwrap();
    assert_eq!(both.matches("HTTP/1.1 200 OK").count(), 2, "{both}");
}

#[test]
fn h15_large_bodies_pass_the_proxy_byte_by_byte() {
    const LENGTH: usize = 50_000_000;
    let Some((nginx, _proxy, url)) = start() else { return };
    let bytes = unequal_bytes(LENGTH);
    nginx.write("large", &bytes);
    let Some(passed) = curl(&[&url("/large")]) else { return };
    assert!(passed == bytes, "{} bytes of {LENGTH}", passed.len());
    let chunked = curl(&[&url("/chunked/large")]).unwrap();
    assert!(chunked == bytes, "in chunks: {} bytes of {LENGTH}", chunked.len());
    let file = nginx.file("large").display().to_string();
    for (name, options) in [("sized", &[][..]), ("chunked", &["-H", "transfer-encoding: chunked"])]
    {
        let to = url(&format!("/put/{name}"));
        let args = [options, &["--write-out", "%{http_code}", "--upload-file", &file, &to]];
        assert_eq!(curl_text(&args.concat()).unwrap(), "201", "{name}");
        assert!(nginx.read(name) == bytes, "{name}");
    }
}

#[test]
fn h11_connections_to_the_upstream_are_used_again() {
    let Some((_nginx, _proxy, url)) = start() else { return };
    let count = url("/count");
    let Some(first) = curl_text(&[&count]) else { return };
    // Each of the two loops has a connection of its own.
    let mut connections = std::collections::BTreeSet::new();
    let mut most = 0;
    for answer in std::iter::once(first).chain((0..20).map(|_| curl_text(&[&count]).unwrap())) {
        let (connection, requests) = answer.split_once(' ').unwrap();
        connections.insert(connection.to_owned());
        most = most.max(requests.parse().unwrap());
    }
    assert!(connections.len() <= 2, "{connections:?}");
    assert!(most >= 10, "{most} requests over the busiest connection");
}

#[test]
fn h15_wrk_through_the_proxy_sees_no_error() {
    let Some((nginx, proxy, url)) = start() else { return };
    nginx.write("small", b"hello");
    for (connections, path) in [("50", "/small"), ("10", "/chunked/small")] {
        let fixed = ["--threads", "1", "--duration", "1s", "--timeout", "30s", "--connections"];
        let Some(output) = run("wrk", &[&fixed[..], &[connections, &url(path)]].concat()) else {
            return;
        };
        let report = String::from_utf8(output.stdout).unwrap();
        let requests = report.lines().find_map(|line| line.trim().split_once(" requests in "));
        let requests: u64 = requests.unwrap_or_else(|| panic!("{report}")).0.parse().unwrap();
        assert!(requests > 0, "{report}");
        assert!(!report.contains("Socket errors") && !report.contains("Non-2xx"), "{report}");
    }
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", proxy.child.id())).unwrap().count();
    assert!(descriptors < 300, "{descriptors} descriptors: 50 connections twice, and the loops'");
}

#[test]
fn h15_python_through_the_proxy() {
    let Some((nginx, proxy, _)) = start() else { return };
    nginx.write("small", b"hello");
    let script = "
import http.client, sys
c = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]))
for _ in range(3):
    c.request('GET', '/small'); r = c.getresponse(); assert (r.status, r.read()) == (200, b'hello')
def parts():
    for i in range(100): yield b'part %d;' % i
c.request('PUT', '/put/parts', body=parts(), encode_chunked=True, headers={'Transfer-Encoding': 'chunked'})
r = c.getresponse(); assert r.status == 201, r.status
r.read()
c.request('GET', '/chunked/parts'); r = c.getresponse(); body = r.read()
assert body == b''.join(parts()), body
";
    let port = proxy.address().port().to_string();
    let started = Command::new("python3").args(["-c", script, &port]).output();
    let Ok(output) = started else { return println!("not tested: python3 is not installed") };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
