//! The example `http_client`.

use std::process::Output;

use crate::certificates::Authority;
use crate::program::path_of;
use crate::support::nginx::Nginx;
use crate::support::scripted_server::ScriptedServer;
use crate::support::{run, unequal_bytes};

/// Runs the program, and returns its output.
fn fetch(args: &[&str]) -> Output {
    run(path_of("http_client").to_str().unwrap(), args).expect("the example is built")
}

#[test]
fn h11_the_program_prints_the_head_and_the_body() {
    let server = ScriptedServer::start(|connection| {
        while let Some(head) = connection.read_head() {
            let (method, _) = head.split_once(' ').unwrap();
            let is_full = head.contains("content-length: 4\r\n") && head.contains("x-mine: 1\r\n");
            assert_eq!(is_full, method != "GET", "{head}");
            if is_full {
                assert_eq!(connection.read_bytes(4), b"milk");
            }
            connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Mine: 2\r\n\r\n");
            let size = method.len();
            connection.send(format!("{size:x}\r\n{method}\r\n0\r\nX-Sum: 3\r\n\r\n"));
        }
    });
    let url = server.url("/");
    let output = fetch(&[&url]);
    assert!(output.status.success());
    assert_eq!(output.stdout, b"GET");
    let printed = String::from_utf8(output.stderr).unwrap();
    assert_eq!(printed, "HTTP/1.1 200 OK\ntransfer-encoding: chunked\nx-mine: 2\n\nx-sum: 3\n");
    assert_eq!(fetch(&["-d", "milk", "-H", "x-mine: 1", &url]).stdout, b"POST");
    assert_eq!(fetch(&["-X", "PUT", "-d", "milk", "-H", "x-mine: 1", &url]).stdout, b"PUT");
}

#[test]
fn h11_the_program_sends_a_file_and_follows_redirects() {
    let server = "location / { dav_methods PUT; } location /moved { return 302 /large; }
                  location /count { return 200 \"$connection \"; }";
    let Some(nginx) = Nginx::start(server) else { return };
    let bytes = unequal_bytes(5_000_000);
    nginx.write("large", &bytes);
    let file = format!("@{}", nginx.file("large").display());
    assert!(fetch(&["-X", "PUT", "-d", &file, &nginx.url("/copy")]).status.success());
    assert!(nginx.read("copy") == bytes);
    assert!(fetch(&["-L", "--ca", "/dev/null", &nginx.url("/moved")]).stdout.is_empty());
    let counts = String::from_utf8(fetch(&["-n", "3", &nginx.url("/count")]).stdout).unwrap();
    let counts: Vec<_> = counts.split_whitespace().collect();
    assert_eq!(counts, [counts[0]; 3], "one connection");
}

#[test]
fn h11_the_program_trusts_the_certificates_of_a_file_alone() {
    let authority = Authority::new("http_client_program");
    let identity = authority.identity("server", &rcgen::PKCS_ECDSA_P256_SHA256, &["127.0.0.1"]);
    let Some(nginx) = Nginx::start_tls("location / { return 200 trusted; }", &identity) else {
        return;
    };
    let url = format!("https://{}/", nginx.address);
    let root = authority.root.display().to_string();
    assert_eq!(fetch(&["--ca", &root, &url]).stdout, b"trusted");
    let other = Authority::new("http_client_program_other").root.display().to_string();
    let refused = fetch(&["--ca", &other, &url]);
    assert_eq!(refused.status.code(), Some(1));
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(error.starts_with("http_client: no TLS connection to 127.0.0.1:"), "{error}");
}

#[test]
fn h11_the_program_fails_without_a_complete_response() {
    let server = ScriptedServer::start(|connection| {
        connection.read_head();
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello");
    });
    let output = fetch(&[&server.url("/")]);
    assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b"hello"[..]));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.ends_with("http_client: the connection ended before the body did\n"), "{error}");
    assert_eq!(fetch(&[]).status.code(), Some(1));
    assert_eq!(fetch(&["ftp://a/"]).status.code(), Some(1));
}
