//! The client against nginx, Python's http.server, and hyper.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use http::{Method, Response, header};
use waterwheel::bytes::Bytes;
use waterwheel::channel::FileRegion;
use waterwheel::http::{Body, BodyChunk, BodySource, Client, Incoming};

use crate::program::Program;
use crate::support::nginx::Nginx;
use crate::support::{text, unequal_bytes, with_client};

const SERVER: &str = "
    location / { }
    location /chunked/ { alias www/; ssi on; ssi_types *; }
    location /put/ { alias www/; dav_methods PUT; }
    location /count { return 200 \"$connection\"; }
    location /close { keepalive_timeout 0; return 200 \"$connection\"; }
    location /moved { return 301 /a/../small; }
    location /again { return 307 /put/again; }
    location /round { return 302 /round; }";

fn field(response: &Response<Incoming>, name: header::HeaderName) -> &str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

#[test]
fn h15_the_client_gets_files_of_nginx() {
    let Some(nginx) = Nginx::start(SERVER) else { return };
    nginx.write("small", b"hello from a file");
    let url = nginx.url("/small");
    with_client(
        |builder| builder,
        |client| async move {
            let response = client.get(&*url).await.unwrap();
            assert_eq!(response.status(), 200);
            let etag = field(&response, header::ETAG).to_owned();
            assert_eq!(text(response).await, "hello from a file");

            let get = || client.request(Method::GET, &*url);
            let response = get().header("if-none-match", &*etag).send().await.unwrap();
            assert_eq!((response.status().as_u16(), response.body().exact_len()), (304, Some(0)));
            let response = get().header("range", "bytes=6-9").send().await.unwrap();
            assert_eq!(field(&response, header::CONTENT_RANGE), "bytes 6-9/17");
            assert_eq!(text(response).await, "from");
            let head = client.request(Method::HEAD, &*url).send().await.unwrap();
            assert_eq!(field(&head, header::CONTENT_LENGTH), "17");
            assert_eq!(text(head).await, "");
            let missing = client.get(format!("{url}/none")).await.unwrap();
            assert_eq!(missing.status(), 404);
        },
    );
}

#[test]
fn h11_nginx_sees_one_connection_of_requests_one_after_the_other() {
    let Some(nginx) = Nginx::start(SERVER) else { return };
    let (count, close) = (nginx.url("/count"), nginx.url("/close"));
    with_client(
        |builder| builder,
        |client| async move {
            let get = async |url: &str| text(client.get(url).await.unwrap()).await;
            let first = get(&count).await;
            for _ in 0..50 {
                assert_eq!(get(&count).await, first);
            }
            assert_eq!(get(&close).await, first, "the server closes behind this response");
            assert_ne!(get(&count).await, first);
        },
    );
}

#[test]
fn h11_redirects_of_nginx_are_followed() {
    let Some(nginx) = Nginx::start(SERVER) else { return };
    nginx.write("small", b"hello");
    let [moved, again, round] = ["/moved", "/again", "/round"].map(|path| nginx.url(path));
    with_client(
        |builder| builder.redirects(5),
        |client| async move {
            assert_eq!(text(client.get(&*moved).await.unwrap()).await, "hello");
            let put = client.request(Method::PUT, &*again).body("once more");
            assert_eq!(put.send().await.unwrap().status(), 201);
            let error = client.get(&*round).await.unwrap_err().to_string();
            assert!(error.starts_with("more than 5 redirects"), "{error}");
        },
    );
    assert_eq!(nginx.read("again"), b"once more");
}

/// A body in pieces, with or without a length.
struct Pieces {
    rest: Bytes,
    is_sized: bool,
}

impl BodySource for Pieces {
    fn poll_chunk(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<BodyChunk, waterwheel::executor::Error>>> {
        let piece = self.rest.split_to(self.rest.len().min(10_007));
        std::task::Poll::Ready((!piece.is_empty()).then_some(Ok(piece.into())))
    }

    fn exact_len(&self) -> Option<u64> {
        self.is_sized.then_some(self.rest.len() as u64)
    }
}

async fn put(client: &Client, url: String, body: Body) {
    let response = client.request(Method::PUT, url).body(body).send().await.unwrap();
    assert_eq!(response.status(), 201);
}

#[test]
fn h11_large_bodies_go_to_nginx_and_come_back_byte_by_byte() {
    const LENGTH: usize = 20_000_000;
    let Some(nginx) = Nginx::start(SERVER) else { return };
    let bytes = Bytes::from(unequal_bytes(LENGTH));
    nginx.write("large", &bytes);
    let file = FileRegion::new(std::fs::File::open(nginx.file("large")).unwrap(), ..).unwrap();
    let (large, chunked) = (nginx.url("/large"), nginx.url("/chunked/large"));
    let to = ["/put/bytes", "/put/file", "/put/sized", "/put/chunked"].map(|path| nginx.url(path));
    let sent = bytes.clone();
    with_client(
        |builder| builder,
        |client| async move {
            let [to_bytes, to_file, to_sized, to_chunked] = to;
            put(&client, to_bytes, Body::from(sent.clone())).await;
            put(&client, to_file, Body::file(file)).await;
            let pieces = |is_sized| Body::from_source(Pieces { rest: sent.clone(), is_sized });
            put(&client, to_sized, pieces(true)).await;
            put(&client, to_chunked, pieces(false)).await;
            for (url, length) in [(large, Some(LENGTH as u64)), (chunked, None)] {
                let mut body = client.get(&*url).await.unwrap().into_body();
                assert_eq!(body.exact_len(), length);
                let mut rest = sent.clone();
                while let Some(chunk) = body.chunk().await.transpose().unwrap() {
                    assert!(rest.split_to(chunk.len()) == chunk);
                }
                assert!(rest.is_empty(), "{url} ends {} bytes early", rest.len());
            }
        },
    );
    for name in ["bytes", "file", "sized", "chunked"] {
        assert!(nginx.read(name) == bytes, "{name}");
    }
}

/// Python's http.server; dropping the value kills it.
struct PythonServer {
    child: Child,
    url: String,
}

impl PythonServer {
    fn start() -> Option<Self> {
        let mut command = Command::new("python3");
        command.args(["-u", "-m", "http.server", "--bind", "127.0.0.1", "0"]);
        command.current_dir(env!("CARGO_MANIFEST_DIR")).stdout(Stdio::piped());
        let Ok(mut child) = command.stderr(Stdio::null()).spawn() else {
            println!("not tested: python3 is not installed");
            return None;
        };
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (_, url) = line.split_once('(').unwrap_or_else(|| panic!("{line:?}"));
        let url = url.split('/').nth(2).map(|authority| format!("http://{authority}")).unwrap();
        Some(Self { child, url })
    }
}

impl Drop for PythonServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Answers in HTTP/1.0 and closes.
#[test]
fn h15_the_client_gets_files_of_python() {
    let Some(python) = PythonServer::start() else { return };
    let url = python.url.clone();
    with_client(
        |builder| builder,
        |client| async move {
            for _ in 0..3 {
                let response = client.get(format!("{url}/Cargo.toml")).await.unwrap();
                assert_eq!(response.version(), http::Version::HTTP_10);
                let expected = include_str!("../../Cargo.toml");
                assert_eq!(text(response).await, expected);
            }
            assert_eq!(client.get(format!("{url}/none")).await.unwrap().status(), 404);
            let refused = client.request(Method::PUT, format!("{url}/none")).body("x");
            assert_eq!(refused.send().await.unwrap().status(), 501);
        },
    );
}

#[test]
fn h15_the_client_and_a_server_of_hyper() {
    let server = Program::start("axum_on_waterwheel", &[&0]);
    let url = format!("http://{}", server.address());
    with_client(
        |builder| builder,
        |client| async move {
            let page = text(client.get(&*url).await.unwrap()).await;
            assert_eq!(page, "axum on Waterwheel, by HTTP/1.1\n");
            let note = client.request(Method::POST, format!("{url}/notes"));
            let note = note.header("content-type", "application/json").body(r#"{"text":"milk"}"#);
            let added = note.send().await.unwrap();
            assert_eq!(added.status(), 201);
            assert_eq!(text(added).await, r#"{"id":0,"text":"milk"}"#);
            let ticks = client.get(format!("{url}/ticks/3/1")).await.unwrap();
            assert_eq!(field(&ticks, header::TRANSFER_ENCODING), "chunked");
            assert_eq!(text(ticks).await, "tick 1\ntick 2\ntick 3\n");
            // A stream that is given up costs its connection, not the client.
            let mut endless = client.get(format!("{url}/ticks/4000000000/1")).await.unwrap();
            assert!(endless.body_mut().chunk().await.unwrap().is_ok());
            drop(endless);
            let page = text(client.get(&*url).await.unwrap()).await;
            assert_eq!(page, "axum on Waterwheel, by HTTP/1.1\n");
        },
    );
}
