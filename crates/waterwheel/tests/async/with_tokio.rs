//! The example `with_tokio` as a program, with a PostgreSQL and an HTTP server.

use std::net::TcpStream;

use rustix::process::{Pid, Signal, kill_process};

use crate::line_client::LineClient;
use crate::page_server::PageServer;
use crate::postgres::Postgres;
use crate::program::Program;

#[test]
fn a05_with_tokio_answers_from_a_database_and_from_pages() {
    let (database, pages) = (Postgres::start(), PageServer::start());
    let program = Program::start("with_tokio", &[&0, &database.config()]);
    let mut client = LineClient::connect(program.address());
    assert_eq!(client.ask("URL home"), "unknown");
    assert_eq!(client.ask("FETCH home"), "unknown");
    assert_eq!(client.ask(&format!("PUT home {}", pages.url("/old"))), "stored");
    assert_eq!(client.ask(&format!("PUT home {}", pages.url("/home"))), "replaced");
    assert_eq!(client.ask("URL home"), pages.url("/home"));
    assert_eq!(client.ask("nonsense"), "requests: PUT name url, URL name, FETCH name");
    for (status, body, answer) in [
        ("200 OK", "twelve bytes", "200 OK, 12 bytes"),
        ("404 Not Found", "", "404 Not Found, 0 bytes"),
    ] {
        client.send(&["FETCH home"]);
        pages.requests(1).remove("/home").unwrap().answer(status, body);
        assert_eq!(client.receive(), answer);
    }
    assert_eq!(client.ask("PUT broken nonsense"), "stored");
    let answer = client.ask("FETCH broken");
    assert!(answer.starts_with("error: builder error: "), "{answer}");
    assert_eq!(client.ask("URL broken"), "nonsense", "the connection goes on");
}

#[test]
fn a05_with_tokio_answers_pipelined_requests_in_order() {
    let (database, pages) = (Postgres::start(), PageServer::start());
    let program = Program::start("with_tokio", &[&0, &database.config()]);
    let mut client = LineClient::connect(program.address());
    let names = ["a", "b", "c"];
    for name in names {
        let put = format!("PUT {name} {}", pages.url(&format!("/{name}")));
        assert_eq!(client.ask(&put), "stored");
    }
    client.send(&["FETCH a", "URL a", "FETCH b", "FETCH c", "URL none"]);
    for (path, request) in pages.requests(names.len()).into_iter().rev() {
        let body = path.repeat(usize::from(path.as_bytes()[1] - b'a') + 1);
        request.answer("200 OK", &body);
    }
    let answers: Vec<_> = (0..5).map(|_| client.receive()).collect();
    let url = pages.url("/a");
    let expected = ["200 OK, 2 bytes", &url, "200 OK, 4 bytes", "200 OK, 6 bytes", "unknown"];
    assert_eq!(answers, expected);
}

#[test]
fn a05_with_tokio_answers_requests_under_way_before_it_ends() {
    let (database, pages) = (Postgres::start(), PageServer::start());
    let mut program = Program::start("with_tokio", &[&0, &database.config()]);
    let mut client = LineClient::connect(program.address());
    assert_eq!(client.ask(&format!("PUT home {}", pages.url("/home"))), "stored");
    client.send(&["FETCH home"]);
    let mut requests = pages.requests(1);
    kill_process(Pid::from_child(&program.child), Signal::TERM).unwrap();
    while TcpStream::connect(program.address()).is_ok() {} // Until the drain has closed the listener.
    requests.remove("/home").unwrap().answer("200 OK", "the last one");
    assert_eq!(client.receive(), "200 OK, 12 bytes");
    assert_eq!(client.receive(), "", "the end of the connection");
    assert!(program.child.wait().unwrap().success());
}

#[test]
fn a05_with_tokio_survives_its_database() {
    let database = Postgres::start();
    let program = Program::start("with_tokio", &[&0, &database.config()]);
    let mut client = LineClient::connect(program.address());
    assert_eq!(client.ask("URL home"), "unknown");
    database.crash();
    for _ in 0..2 {
        let answer = client.ask("URL home");
        assert!(answer.starts_with("error: "), "{answer}");
    }
    assert!(client.ask("nonsense").starts_with("requests: "));
}
