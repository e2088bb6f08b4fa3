//! axum's router on loops, in the example and in servers of the test.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use futures_util::stream::{self, StreamExt};
use hyper::server::conn::{http1, http2};
use hyper_util::service::TowerToHyperService;
use rustix::process::{Pid, Signal, kill_process};
use waterwheel::async_bridge::{LoopTimer, Serve, serve_http};
use waterwheel::channel::{EventLoopGroup, ServerBootstrap};
use waterwheel::net::{Auto, Tcp};

use crate::http_programs::{fetch, run_curl};
use crate::program::{Program, WAIT_LIMIT, connect};

const VERSIONS: [(&str, &str); 2] =
    [("--http1.1", "HTTP/1.1"), ("--http2-prior-knowledge", "HTTP/2.0")];

#[test]
fn a04_an_axum_router_answers_curl_in_both_versions() {
    let program = Program::start("axum_on_waterwheel", &[&"--threads", &2, &0]);
    let url = |path: &str| format!("http://{}{path}", program.address());
    for (id, (option, version)) in VERSIONS.into_iter().enumerate() {
        let hello = format!("axum on Waterwheel, by {version}\n");
        assert_eq!(fetch(&[option, &url("/")]), (hello, 200));
        let note = format!(r#"{{"id":{id},"text":"{version}"}}"#);
        let text = format!(r#"{{"text":"{version}"}}"#);
        assert_eq!(fetch(&[option, "--json", &text, &url("/notes")]), (note.clone(), 201));
        assert_eq!(fetch(&[option, &url(&format!("/notes/{id}"))]), (note, 200));
        let missing = (r#"{"error":"no such note"}"#.to_owned(), 404);
        assert_eq!(fetch(&[option, &url("/notes/7")]), missing);
        assert_eq!(fetch(&[option, &url("/notes/seven")]).1, 400);
        assert_eq!(fetch(&[option, "--json", r#"{"other":1}"#, &url("/notes")]).1, 422);
        assert_eq!(fetch(&[option, "--json", "{", &url("/notes")]).1, 400);
        assert_eq!(fetch(&[option, &url("/notes")]).1, 405, "GET where only POST is routed");
        let fallback = (r#"{"error":"no such page"}"#.to_owned(), 404);
        assert_eq!(fetch(&[option, &url("/nowhere")]), fallback);
        let ticks: String = (1..=100).map(|tick| format!("tick {tick}\n")).collect();
        assert_eq!(fetch(&[option, &url("/ticks/100/0")]), (ticks, 200));
    }
}

#[test]
fn a04_an_axum_router_is_served_over_tls_by_the_protocol_of_alpn() {
    let directory = std::env::temp_dir().join(format!("waterwheel-axum-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (certificate, key) = (directory.join("cert.pem"), directory.join("key.pem"));
    let made = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let files: [&dyn std::fmt::Display; 4] = [&"--tls", &certificate.display(), &key.display(), &0];
    let program = Program::start("axum_on_waterwheel", &files);
    let port = program.address().port();
    let (url, trust) = (format!("https://localhost:{port}/"), certificate.display().to_string());
    for (option, version) in
        [("--http2", "HTTP/2.0"), ("--http1.1", "HTTP/1.1"), ("--no-alpn", "HTTP/1.1")]
    {
        let resolve = format!("localhost:{port}:127.0.0.1");
        let hello = format!("axum on Waterwheel, by {version}\n");
        let args = [option, "--cacert", &trust, "--resolve", &resolve, &url];
        assert_eq!(fetch(&args), (hello, 200), "{option}");
    }
    drop(program);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a04_sigterm_ends_an_axum_server_when_a_streamed_response_is_finished() {
    for (option, _) in VERSIONS {
        let mut program = Program::start("axum_on_waterwheel", &[&0]);
        let url = format!("http://{}/ticks/20/20", program.address());
        let mut curl = Command::new("curl")
            .args(["--silent", "--noproxy", "*", "--no-buffer", "--max-time", "60", option, &url])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(curl.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().unwrap(), "tick 1");
        kill_process(Pid::from_child(&program.child), Signal::TERM).unwrap();
        let rest: Vec<_> = lines.collect();
        let expected: Vec<_> = (2..=20).map(|tick| format!("tick {tick}")).collect();
        assert_eq!(rest, expected, "{option}");
        assert!(curl.wait().unwrap().success());
        assert!(program.child.wait().unwrap().success());
    }
}

/// A router on loops of the test, with a port for each version of HTTP.
struct RouterServer {
    _group: EventLoopGroup,
    http1: String,
    http2: String,
}

impl RouterServer {
    fn start(router: Router) -> Self {
        let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
        let (one, two) =
            (TowerToHyperService::new(router.clone()), TowerToHyperService::new(router));
        let http1 = ServerBootstrap::new(&group, Tcp).serve(move |connection| {
            let service = one.clone();
            serve_http(
                connection,
                |io, _| http1::Builder::new().timer(LoopTimer).serve_connection(io, service),
                http1::Connection::graceful_shutdown,
            )
        });
        let http2 = ServerBootstrap::new(&group, Tcp).serve(move |connection| {
            let service = two.clone();
            serve_http(
                connection,
                |io, executor| {
                    http2::Builder::new(executor).timer(LoopTimer).serve_connection(io, service)
                },
                http2::Connection::graceful_shutdown,
            )
        });
        let bind = |server: ServerBootstrap| {
            let bound = server.bind("127.0.0.1:0").join().unwrap();
            bound.local_address().unwrap().to_string()
        };
        Self { http1: bind(http1), http2: bind(http2), _group: group }
    }

    fn urls(&self, path: &str) -> [(&'static str, String); 2] {
        let url = |address: &str| format!("http://{address}{path}");
        [("--http1.1", url(&self.http1)), ("--http2-prior-knowledge", url(&self.http2))]
    }
}

#[test]
fn a04_a_panic_in_an_axum_handler_fails_its_request_only() {
    let router = Router::new()
        .route("/panic", get(async || -> &'static str { panic!("a handler's panic") }))
        .route("/fine", get(async || "fine"));
    let server = RouterServer::start(router);
    for ((option, panics), (_, fine)) in server.urls("/panic").into_iter().zip(server.urls("/fine"))
    {
        let output = run_curl(&[option, &panics]);
        assert!(!output.status.success(), "{option}: {output:?}");
        assert_eq!(output.stdout, b"");
        assert_eq!(fetch(&[option, &fine]), ("fine".into(), 200), "the server goes on");
    }
}

/// Sends a word when it is dropped.
struct DropGuard(mpsc::Sender<&'static str>);

impl Drop for DropGuard {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

/// Returns a router whose response never ends, and the receiver of what happens to its body.
fn endless_router() -> (Router, mpsc::Receiver<&'static str>) {
    let (sender, events) = mpsc::channel();
    let endless = async move || {
        let guard = DropGuard(sender.clone());
        let first = stream::iter([Ok::<_, Infallible>("first\n")]);
        Body::from_stream(first.chain(stream::pending()).map(move |item| {
            let _ = &guard;
            item
        }))
    };
    (Router::new().route("/endless", get(endless)), events)
}

#[test]
fn a04_a_client_that_goes_drops_the_stream_of_its_response() {
    let (router, events) = endless_router();
    let server = RouterServer::start(router);

    let mut client = connect(server.http1.parse().unwrap());
    client.write_all(b"GET /endless HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
    let mut received = String::new();
    while !received.contains("first\n") {
        let mut part = [0; 1024];
        let len = client.read(&mut part).unwrap();
        assert!(len > 0, "{received:?}");
        received.push_str(str::from_utf8(&part[..len]).unwrap());
    }
    assert!(events.try_recv().is_err(), "the stream lives as long as its client");
    drop(client);
    assert_eq!(events.recv_timeout(WAIT_LIMIT), Ok("dropped"));

    let [_, (option, url)] = server.urls("/endless");
    let mut curl = Command::new("curl")
        .args(["--silent", "--noproxy", "*", "--no-buffer", option, &url])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(curl.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "first\n");
    assert!(events.try_recv().is_err(), "the stream lives as long as its client");
    curl.kill().unwrap();
    curl.wait().unwrap();
    assert_eq!(events.recv_timeout(WAIT_LIMIT), Ok("dropped"));
}
