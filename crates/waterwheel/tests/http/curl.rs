//! curl as a client.

use std::path::PathBuf;

use crate::peer_program::curl;
use crate::program::Program;
use crate::test_server::TestServer;

/// A file to upload; dropping the value removes it.
struct Upload {
    path: PathBuf,
    /// The spelling of curl of a body from this file.
    option: String,
}

impl Upload {
    fn new(test: &str, length: usize) -> Self {
        let name = format!("waterwheel-http-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, vec![b'u'; length]).unwrap();
        let option = format!("@{}", path.display());
        Self { path, option }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn start() -> (Program, impl Fn(&str) -> String) {
    let program = Program::start("json_api", &[&0]);
    let address = program.address();
    (program, move |path: &str| format!("http://{address}{path}"))
}

/// Runs curl and returns what it prints, with a line of status and number of connections behind each answer.
fn fetch(args: &[&str]) -> Option<String> {
    let format = "\n%{http_code} %{num_connects}\n";
    Some(curl(&[&["--write-out", format], args].concat())?.expect_success())
}

#[test]
fn h15_curl_uses_every_method_of_the_api() {
    let (_program, url) = start();
    let Some(page) = fetch(&[&url("/plaintext")]) else { return };
    assert_eq!(page, "Hello, World!\n200 1\n");
    let head = fetch(&["--head", &url("/plaintext")]).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("\r\ncontent-length: 13\r\n"), "{head}");
    assert!(head.ends_with("\r\n\r\n\n200 1\n"), "no body: {head}");

    let notes = url("/notes");
    let added = fetch(&["--json", r#"{"text":"milk"}"#, &notes]).unwrap();
    assert_eq!(added, "{\"id\":1,\"text\":\"milk\"}\n201 1\n");
    let listed = fetch(&[&notes]).unwrap();
    assert_eq!(listed, "[{\"id\":1,\"text\":\"milk\"}]\n200 1\n");
    let one = url("/notes/1");
    assert_eq!(fetch(&[&one]).unwrap(), "{\"id\":1,\"text\":\"milk\"}\n200 1\n");
    assert_eq!(fetch(&["--request", "DELETE", &one]).unwrap(), "\n204 1\n");
    assert_eq!(fetch(&[&one]).unwrap(), "Not Found\n404 1\n");
    assert_eq!(fetch(&[&url("/notes/x")]).unwrap(), "Not Found\n404 1\n");
    assert_eq!(fetch(&[&url("/nowhere")]).unwrap(), "Not Found\n404 1\n");
    let refused = fetch(&["--include", "--request", "PUT", &one]).unwrap();
    assert!(refused.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"), "{refused}");
    assert!(refused.contains("\r\nallow: DELETE, GET, HEAD, OPTIONS\r\n"), "{refused}");
    let bodies = [("{", "400"), (r#"{"other":1}"#, "422"), (&"1".repeat(5000), "413")];
    for (body, status) in bodies {
        let answer = fetch(&["--json", body, &notes]).unwrap();
        assert!(answer.ends_with(&format!("\n{status} 1\n")), "{body}: {answer}");
    }
    assert!(fetch(&["--data", "text=milk", &notes]).unwrap().ends_with("\n415 1\n"));
}

#[test]
fn h15_curl_sends_bodies_with_a_length_and_in_chunks() {
    let (_program, url) = start();
    let echo = url("/echo");
    let body = "b".repeat(100_000);
    let upload = Upload::new("bodies", body.len());
    let Some(sized) = fetch(&["--data-binary", "some text", &echo]) else { return };
    assert_eq!(sized, "some text\n200 1\n");
    assert_eq!(fetch(&["--data", "", &echo]).unwrap(), "\n200 1\n", "an empty body");
    let chunked = ["--header", "Transfer-Encoding: chunked"];
    for options in [&chunked[..], &[]] {
        let args = [options, &["--data-binary", &upload.option, &echo]].concat();
        let answer = fetch(&args).unwrap();
        assert_eq!(answer, format!("{}\n200 1\n", "u".repeat(body.len())), "{options:?}");
    }
}

#[test]
fn h04_curl_waits_for_100_continue_and_then_sends_its_body() {
    let (_program, url) = start();
    let upload = Upload::new("expect", 3_000_000);
    let echo = url("/echo");
    let expects = ["--verbose", "--header", "Expect: 100-continue", "--expect100-timeout", "50"];
    let args = [&expects[..], &["--data-binary", &upload.option, &echo]].concat();
    let Some(ended) = curl(&args) else { return };
    assert!(ended.stderr.contains("< HTTP/1.1 100 Continue"), "{}", ended.stderr);
    assert!(ended.stderr.contains("< HTTP/1.1 200 OK"), "{}", ended.stderr);
    assert_eq!(ended.expect_success().len(), 3_000_000);
}

#[test]
fn h04_curl_sends_no_body_when_its_expectation_is_refused() {
    let (_program, url) = start();
    let (large, small) = (
        Upload::new("refused-by-length", 20_000_000),
        Upload::new("refused-by-service", 1_000_000),
    );
    let format = ["--write-out", "\n%{http_code} %{size_upload}\n"];
    let expects = ["--header", "Expect: 100-continue", "--expect100-timeout", "50"];
    for (path, upload, status) in [("/echo", &large, "413"), ("/nowhere", &small, "404")] {
        let url = url(path);
        let args = [&format[..], &expects, &["--data-binary", &upload.option, &url]].concat();
        let Some(ended) = curl(&args) else { return };
        let answer = ended.expect_success();
        assert!(answer.ends_with(&format!("\n{status} 0\n")), "{path}: {answer}");
    }
}

#[test]
fn h02_curl_sees_the_answer_to_a_body_that_is_too_large() {
    let (_program, url) = start();
    let upload = Upload::new("too-large", 20_000_000);
    // The service refuses what has no length, and the server what has one.
    let chunked = ["Transfer-Encoding: chunked", "Content-Type: application/json"];
    for (path, headers) in [("/notes", chunked), ("/echo", ["Expect:", "A: b"])] {
        let url = url(path);
        let fixed = ["--header", "Expect:", "--data-binary", &upload.option, &url];
        let headers = headers.map(|header| ["--header", header]).concat();
        for _ in 0..5 {
            let Some(answer) = fetch(&[&fixed[..], &headers].concat()) else { return };
            assert!(answer.ends_with("\n413 1\n"), "{path}: {answer}");
        }
    }
}

#[test]
fn h04_curl_speaks_http_1_0() {
    let (_program, url) = start();
    let (page, echo) = (url("/plaintext"), url("/echo"));
    let Some(answer) = fetch(&["--http1.0", "--include", &page]) else { return };
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nHello, World!\n200 1\n"), "{answer}");
    assert_eq!(fetch(&["--http1.0", &page, &page]).unwrap().matches("200 1\n").count(), 2);
    let keep = ["--http1.0", "--header", "Connection: keep-alive", &page, &page];
    let kept = fetch(&keep).unwrap();
    assert_eq!(kept, "Hello, World!\n200 1\nHello, World!\n200 0\n");
    assert_eq!(fetch(&["--http1.0", "--data", "old", &echo]).unwrap(), "old\n200 1\n");
}

#[test]
fn h04_curl_keeps_its_connection() {
    let (_program, url) = start();
    let (page, echo, missing) = (url("/plaintext"), url("/echo"), url("/nowhere"));
    let Some(pages) = fetch(&[&page, &missing, &page]) else { return };
    assert_eq!(pages, "Hello, World!\n200 1\nNot Found\n404 0\nHello, World!\n200 0\n");
    let posts = fetch(&["--data", "one", &echo, &echo, &echo]).unwrap();
    assert_eq!(posts, "one\n200 1\none\n200 0\none\n200 0\n");
    let closed = fetch(&["--header", "Connection: close", &page, &page]).unwrap();
    assert_eq!(closed, "Hello, World!\n200 1\nHello, World!\n200 1\n");
}

#[test]
fn h15_curl_receives_trailers_and_a_body_without_a_length() {
    let server = TestServer::start();
    let Some(answer) = fetch(&["--include", &server.url("/trailers")]) else { return };
    assert!(answer.contains("\r\ntransfer-encoding: chunked\r\n"), "{answer}");
    assert!(answer.contains("\r\n\r\nbody\nx-checksum: 1234\r\n"), "{answer}");
    let both = fetch(&["--http1.0", &server.url("/trailers"), &server.url("/plaintext")]).unwrap();
    assert_eq!(both, "body\n\n200 1\nHello, World!\n200 1\n", "HTTP/1.0 has neither");
}

#[test]
fn h15_paths_are_routed_as_they_are_sent() {
    let (_program, url) = start();
    for path in
        ["/notes/../plaintext", "/./plaintext", "//plaintext", "/plaintext/", "/%70laintext"]
    {
        let Some(answer) = fetch(&["--path-as-is", &url(path)]) else { return };
        assert_eq!(answer, "Not Found\n404 1\n", "{path}");
    }
    assert_eq!(
        fetch(&["--path-as-is", &url("/plaintext?a=/../b")]).unwrap(),
        "Hello, World!\n200 1\n"
    );
}
