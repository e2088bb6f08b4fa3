//! Clients that ask for HTTP/2, which the server does not speak.

use crate::peer_program::{curl, run};
use crate::program::Program;
use crate::raw_client::RawClient;

#[test]
fn h15_an_upgrade_to_h2c_is_answered_in_http_1() {
    let program = Program::start("json_api", &[&0]);
    let url = format!("http://{}/plaintext", program.address());
    if let Some(ended) = run("nghttp", &["--upgrade", "--verbose", "--no-dep", "-t", "60", &url]) {
        assert!(ended.stdout.contains("HTTP/1.1 200 OK"), "{ended:?}");
        assert!(ended.stdout.ends_with("\nHello, World!\n"), "{ended:?}");
        assert!(ended.stderr.contains("HTTP Upgrade failed"), "{ended:?}");
    }
    let format = ["--write-out", " %{http_code} %{http_version}"];
    if let Some(ended) = curl(&[&format[..], &["--http2", &url, &url]].concat()) {
        let answers = ended.expect_success();
        assert_eq!(answers, "Hello, World! 200 1.1Hello, World! 200 1.1");
    }
}

#[test]
fn h15_a_client_with_prior_knowledge_of_http_2_gets_one_answer_and_the_end() {
    let program = Program::start("json_api", &[&0]);
    let url = format!("http://{}/plaintext", program.address());
    let mut client = RawClient::new(program.address());
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    let answer = client.read_to_end();
    let is_refused = ["505 HTTP Version Not Supported", "400 Bad Request"]
        .iter()
        .any(|status| answer.starts_with(&format!("HTTP/1.1 {status}\r\n")));
    assert!(is_refused && answer.matches("HTTP/1.1 ").count() == 1, "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    if let Some(ended) = run("nghttp", &["-t", "60", &url]) {
        assert!(ended.stderr.contains("processed=0"), "{ended:?}");
    }
    if let Some(ended) = curl(&["--http2-prior-knowledge", &url]) {
        assert_ne!(ended.code, Some(0), "{ended:?}");
        assert_ne!(ended.code, Some(28), "the server lets it wait: {ended:?}");
    }
    // Others are served as before.
    if let Some(ended) = curl(&[&url]) {
        assert_eq!(ended.expect_success(), "Hello, World!");
    }
}
