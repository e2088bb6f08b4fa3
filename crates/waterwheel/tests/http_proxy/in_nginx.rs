//! The reverse proxy behind nginx, which is its client and keeps connections.

use crate::support::nginx::Nginx;
use crate::support::{curl, curl_text, field, run, start_proxy, unequal_bytes};

/// Starts nginx as a proxy for another server.
fn front(of: std::net::SocketAddr) -> Option<Nginx> {
    let around = format!("upstream back {{ server {of}; keepalive 8; }}");
    let server = "location / {
        proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Connection \"\";
        proxy_set_header Host $host; proxy_set_header X-Forwarded-For $remote_addr;
        proxy_buffering off; proxy_request_buffering off; }";
    Nginx::start_with(server, &around, None)
}

#[test]
fn h15_nginx_is_a_client_of_the_proxy_and_its_upstream_at_once() {
    const LENGTH: usize = 20_000_000;
    let back = "location / { dav_methods PUT; }
                location /chunked/ { alias www/; ssi on; ssi_types *; }
                location /who { return 200 \"$host $http_x_forwarded_for $http_via\"; }";
    let Some(back) = Nginx::start(back) else { return };
    let proxy = start_proxy(back.address, &[]);
    let front = front(proxy.address()).unwrap();
    let Some(who) = curl_text(&["-H", "Host: example.org", &front.url("/who")]) else { return };
    assert_eq!(who, "example.org 127.0.0.1, 127.0.0.1 1.1 waterwheel");

    let bytes = unequal_bytes(LENGTH);
    front.write("upload", &bytes);
    let file = front.file("upload").display().to_string();
    for (name, options) in [("sized", &[][..]), ("chunked", &["-H", "transfer-encoding: chunked"])]
    {
        let to = front.url(&format!("/{name}.bin"));
        let args = [options, &["--write-out", "%{http_code}", "--upload-file", &file, &to]];
        assert_eq!(curl_text(&args.concat()).unwrap(), "201", "{name}");
        assert!(back.read(&format!("{name}.bin")) == bytes, "{name}");
    }
    for path in ["/sized.bin", "/chunked/sized.bin"] {
        let passed = curl(&[&front.url(path)]).unwrap();
        assert!(passed == bytes, "{path}: {} bytes of {LENGTH}", passed.len());
    }
    let head = curl_text(&["--head", &front.url("/sized.bin")]).unwrap();
    assert_eq!(field(&head, "content-length"), Some("20000000"), "{head}");
}

#[test]
fn h15_wrk_through_nginx_and_the_proxy_sees_no_error() {
    let Some(back) = Nginx::start("location / { return 200 \"$connection\"; }") else { return };
    let proxy = start_proxy(back.address, &[]);
    let front = front(proxy.address()).unwrap();
    let fixed = ["--threads", "1", "--duration", "1s", "--timeout", "30s", "--connections", "20"];
    let Some(output) = run("wrk", &[&fixed[..], &[&front.url("/")]].concat()) else { return };
    let report = String::from_utf8(output.stdout).unwrap();
    let requests = report.lines().find_map(|line| line.trim().split_once(" requests in "));
    let requests: u64 = requests.unwrap_or_else(|| panic!("{report}")).0.parse().unwrap();
    assert!(requests > 0, "{report}");
    assert!(!report.contains("Socket errors") && !report.contains("Non-2xx"), "{report}");
}
