//! testssl.sh: no finding above what rustls itself has.
//!
//! Both servers are examined at the same time: the handler in a channel, and rustls over a blocking socket. Nothing is
//! looked up or reported outside of the machine.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use waterwheel::tls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::support::NAME;
use crate::support::certificates::Authority;
use crate::support::endpoints::{Server, Service, http_response};
use crate::support::peer_program::PeerProgram;

/// Findings that are accepted, although testssl.sh has something against them.
const ACCEPTED: [(&str, &str); 5] = [
    ("cipher_order", "all suites of rustls are strong, and the client knows its hardware"),
    ("cert_validityPeriod", "the certificates of the test never expire"),
    ("cert_revocation", "nobody revokes the certificates of the test"),
    ("HSTS", "a header of the page, not of TLS"),
    ("security_headers", "headers of the page, not of TLS"),
];

/// The severities of testssl.sh that are not in order, mildest first.
const SEVERITIES: [&str; 4] = ["LOW", "MEDIUM", "HIGH", "CRITICAL"];

/// The severity of a check that could not be made. On a busy machine that happens to some: the openssl of testssl.sh may
/// leave before the ticket comes with which it was to return.
const NOT_EXAMINED: &str = "WARN";

#[derive(Debug, PartialEq, Eq)]
struct Finding {
    /// Zero if the finding is in order, or says nothing.
    rank: usize,
    is_examined: bool,
    text: String,
}

/// Runs testssl.sh, and returns its findings by their ids.
fn examine(address: SocketAddr, root: &Path, report: &Path) -> BTreeMap<String, Finding> {
    let _ = fs::remove_file(report);
    let mut command = Command::new("testssl");
    command.args(["--quiet", "--color", "0", "--warnings", "off", "--nodns", "none"]);
    command.args(["--ip", "127.0.0.1", "--connect-timeout", "20", "--openssl-timeout", "20"]);
    command.arg("--add-ca").arg(root).arg("--jsonfile").arg(report);
    command.arg(format!("{NAME}:{}", address.port()));
    let result = PeerProgram::run(&mut command);
    let report = fs::read_to_string(report).unwrap_or_else(|_| panic!("{}", result.text()));
    parse(&report)
}

/// Parses the flat JSON of testssl.sh, which has a line per field.
fn parse(report: &str) -> BTreeMap<String, Finding> {
    let mut findings = BTreeMap::new();
    let (mut id, mut rank, mut is_examined) = (String::new(), 0, true);
    for line in report.lines() {
        let Some((field, value)) = line.split_once(" : ") else { continue };
        let value = value.trim_end_matches(',').trim_matches('"').to_owned();
        match field.trim().trim_matches('"') {
            "id" => id = value,
            "severity" => {
                rank = SEVERITIES.iter().position(|name| *name == value).map_or(0, |at| at + 1);
                is_examined = value != NOT_EXAMINED;
            }
            "finding" => {
                let finding = Finding { rank, is_examined, text: value };
                findings.insert(std::mem::take(&mut id), finding);
            }
            _ => {}
        }
    }
    findings
}

/// Serves HTTP with rustls alone, a thread for each connection.
fn serve_with_rustls(config: Arc<ServerConfig>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let connection = ServerConnection::new(config.clone()).unwrap();
            let mut stream = StreamOwned::new(connection, socket);
            thread::spawn(move || {
                let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
                while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read(&mut buffer) {
                        Ok(len @ 1..) => request.extend_from_slice(&buffer[..len]),
                        _ => return,
                    }
                }
                let _ = stream.write_all(http_response("rustls\n").as_bytes());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            });
        }
    });
    address
}

#[test]
fn t09_testssl_finds_nothing_above_what_rustls_has() {
    let authority = Authority::new("testssl");
    let config = authority.intermediate().server().serve().alpn(["http/1.1"]).build().unwrap();
    let rustls = serve_with_rustls(config.config().unwrap().clone());
    let server = Server::start(config, Service::Http);
    let (root, report) = (&authority.root, |name| authority.file(name));
    let (ours, theirs) = thread::scope(|scope| {
        let theirs = scope.spawn(|| examine(rustls, root, &report("rustls.json")));
        (examine(server.address, root, &report("waterwheel.json")), theirs.join().unwrap())
    });
    let expected =
        ["TLS1_2", "TLS1_3", "cert_trust", "heartbleed", "secure_client_renego", "LUCKY13"];
    for id in expected {
        let is_examined = ours.get(id).is_some_and(|finding| finding.is_examined);
        assert!(is_examined, "{id}: {:?}, of {} findings", ours.get(id), ours.len());
    }
    for (id, finding) in &ours {
        let of_rustls = theirs.get(id).filter(|finding| finding.is_examined);
        let is_above = of_rustls.is_some_and(|of_rustls| finding.rank > of_rustls.rank);
        assert!(!is_above, "{id}: {finding:?}, rustls: {of_rustls:?}");
        let is_accepted = ACCEPTED.iter().any(|(accepted, _)| accepted == id);
        assert!(finding.rank == 0 || is_accepted, "{id}: {finding:?}");
    }
    assert_eq!(ours["cert_chain_of_trust"].text, "passed.");
    let examined = theirs.iter().filter(|(_, finding)| finding.is_examined);
    let missing: Vec<_> = examined.filter(|(id, _)| !ours.contains_key(*id)).collect();
    assert!(missing.is_empty(), "found with rustls only: {missing:?}");
}
