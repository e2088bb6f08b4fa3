//! hyper and reqwest as clients, on tokio.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, Either, Full, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::program::{Program, WAIT_LIMIT};
use crate::test_server::{LARGE, TestServer};

/// The bodies that the client sends.
type Sent = Either<Full<Bytes>, http_body_util::combinators::BoxBody<Bytes, std::io::Error>>;

/// One connection of hyper.
struct HyperClient {
    sender: http1::SendRequest<Sent>,
}

impl HyperClient {
    async fn connect(to: std::net::SocketAddr) -> Self {
        let stream = TcpStream::connect(to).await.unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self { sender }
    }

    /// Returns the status and the body of the answer.
    async fn ask(&mut self, method: Method, path: &str, body: Sent) -> (StatusCode, Bytes) {
        self.sender.ready().await.expect("the connection stays open");
        let request = Request::builder().method(method).uri(path).header("host", "test");
        let response = self.sender.send_request(request.body(body).unwrap()).await.unwrap();
        let status = response.status();
        (status, response.into_body().collect().await.unwrap().to_bytes())
    }
}

fn without_body() -> Sent {
    sized("")
}

fn sized(bytes: impl Into<Bytes>) -> Sent {
    Either::Left(Full::new(bytes.into()))
}

/// A body whose length hyper does not know: sent in chunks.
fn chunked(parts: impl IntoIterator<Item = Bytes, IntoIter: Send + Sync + 'static>) -> Sent {
    let frames = stream::iter(parts.into_iter().map(|part| Ok(Frame::data(part))));
    Either::Right(BodyExt::boxed(StreamBody::new(frames)))
}

fn run(test: impl Future<Output = ()>) {
    Runtime::new().unwrap().block_on(async {
        tokio::time::timeout(WAIT_LIMIT, test).await.expect("the client does not hang");
    });
}

#[test]
fn h15_a_hyper_client_keeps_its_connection_over_bodies_of_both_kinds() {
    let program = Program::start("json_api", &[&0]);
    run(async {
        let mut client = HyperClient::connect(program.address()).await;
        for _ in 0..100 {
            let answer = client.ask(Method::GET, "/plaintext", without_body()).await;
            assert_eq!(answer, (StatusCode::OK, "Hello, World!".into()));
            let answer = client.ask(Method::POST, "/echo", sized("with a length")).await;
            assert_eq!(answer, (StatusCode::OK, "with a length".into()));
            let parts = ["in ", "some ", "chunks"].map(Bytes::from);
            let answer = client.ask(Method::POST, "/echo", chunked(parts)).await;
            assert_eq!(answer, (StatusCode::OK, "in some chunks".into()));
            let answer = client.ask(Method::HEAD, "/plaintext", without_body()).await;
            assert_eq!(answer, (StatusCode::OK, Bytes::new()));
            let (status, _) = client.ask(Method::PUT, "/echo", sized("not read")).await;
            assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
            let (status, _) = client.ask(Method::GET, "/nowhere", without_body()).await;
            assert_eq!(status, StatusCode::NOT_FOUND);
        }
    });
}

#[test]
fn h06_a_hyper_client_gets_a_large_body_back_while_it_sends_it() {
    let program = Program::start("json_api", &[&0]);
    run(async {
        let mut client = HyperClient::connect(program.address()).await;
        let body: Bytes = (0..8_000_000_u32).map(|n| (n % 251) as u8).collect();
        let answer = client.ask(Method::POST, "/echo", sized(body.clone())).await;
        assert!(answer == (StatusCode::OK, body.clone()), "{}: {}", answer.0, answer.1.len());
        let parts: Vec<_> = body.chunks(9_999).map(Bytes::copy_from_slice).collect();
        let answer = client.ask(Method::POST, "/echo", chunked(parts)).await;
        assert!(answer == (StatusCode::OK, body), "{}: {}", answer.0, answer.1.len());
    });
}

#[test]
fn h15_a_hyper_client_streams_a_download_and_an_upload() {
    let server = TestServer::start();
    run(async {
        let mut client = HyperClient::connect(server.address()).await;
        let (status, body) = client.ask(Method::GET, "/large", without_body()).await;
        assert_eq!((status, body.len() as u64), (StatusCode::OK, LARGE));
        let part = Bytes::from(vec![1; 30_000]);
        let answer = client.ask(Method::POST, "/count", chunked(vec![part; 1000])).await;
        assert_eq!(answer, (StatusCode::OK, "30000000 30000000".into()));
    });
    assert_eq!(server.http.metrics().connections, 1);
}

#[test]
fn h15_a_pool_of_reqwest_is_served_by_many_connections() {
    let server = TestServer::start();
    run(async {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let calls = (0..2000).map(|number| {
            let (client, number) = (client.clone(), number.to_string());
            let url = server.url("/count");
            async move {
                let response = client.post(url).body(number.repeat(10)).send().await.unwrap();
                let text = response.text().await.unwrap();
                let sum: u64 = number.bytes().map(u64::from).sum();
                assert_eq!(text, format!("{} {}", number.len() * 10, sum * 10));
            }
        });
        assert_eq!(stream::iter(calls).buffer_unordered(50).count().await, 2000);
    });
    let connections = server.http.metrics().connections;
    assert!(connections < 1000, "{connections} connections for 2000 requests");
}
