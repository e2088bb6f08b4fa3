//! hyper on loops, over sockets: with curl, nghttp and h2load as clients, and as a client of itself.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use waterwheel::async_bridge::{
    AsyncChannel, ByteStream, ConnectAsync, LoopTimer, ScopeExecutor, serve_channel, serve_http,
};
use waterwheel::channel::{
    Bootstrap, Channel, DrainOptions, Drained, Edit, EventLoopGroup, LocalLoop, ServerBootstrap,
    sleep,
};
use waterwheel::executor::Error;
use waterwheel::handlers::{Detection, ProtocolDetector};
use waterwheel::net::{Auto, Tcp};
use waterwheel::tls::rustls::pki_types::ServerName;
use waterwheel::tls::{AlpnHandler, ClientTls, ServerTls, TlsHandler};

const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

type Answer = Result<Response<Either<Full<Bytes>, Incoming>>, hyper::Error>;

/// A server with two ports: plain text, where HTTP/2 comes with prior knowledge, and TLS, where ALPN chooses.
struct Server {
    group: EventLoopGroup,
    plain: Channel,
    tls: Channel,
    certificate: PathBuf,
    /// The services of `/never` that were dropped.
    dropped: Receiver<()>,
}

impl Server {
    fn start(test: &str) -> Self {
        let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (pem, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let certificate = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.pem"));
        std::fs::write(&certificate, &pem).unwrap();
        let (drops, dropped) = channel();
        let protocols = Protocols { drops };

        let (one, two) = (protocols.clone(), protocols.clone());
        let detector = ProtocolDetector::builder()
            .protocol(
                "http2",
                |bytes: &[u8]| Detection::of_prefix(bytes, HTTP2_PREFACE),
                move |edit| two.serve_http2(edit),
            )
            .otherwise(move |edit| one.serve_http1(edit))
            .build()
            .unwrap();
        let plain = ServerBootstrap::new(&group, Tcp)
            .child_allow_half_closure(true)
            .child_initialiser(move |edit| {
                edit.add_last("detect", detector.clone())?;
                Ok(())
            })
            .bind(("127.0.0.1", 0));

        let (one, two) = (protocols.clone(), protocols);
        let alpn = AlpnHandler::builder()
            .on("h2", move |edit| two.serve_http2(edit))
            .on("http/1.1", move |edit| one.serve_http1(edit))
            .build()
            .unwrap();
        let config = ServerTls::builder()
            .certificate_pem(pem.as_bytes(), key.as_bytes())
            .alpn(alpn.protocols())
            .build()
            .unwrap();
        let tls = ServerBootstrap::new(&group, Tcp)
            .child_allow_half_closure(true)
            .child_initialiser(move |edit| {
                edit.add_last("tls", TlsHandler::server(config.clone()))?;
                edit.add_last("alpn", alpn.clone())?;
                Ok(())
            })
            .bind(("127.0.0.1", 0));
        let (plain, tls) = (plain.join().unwrap(), tls.join().unwrap());
        Self { group, plain, tls, certificate, dropped }
    }

    fn url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", port(&self.plain).port())
    }

    fn tls_url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", port(&self.tls).port())
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(port(&self.plain)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream
    }

    /// Runs a curl that trusts the server; a hang fails after two minutes.
    fn curl(&self, args: &[&str]) -> String {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--fail", "--noproxy", "*", "--max-time", "120"]);
        command.args(["--resolve", &format!("localhost:{}:127.0.0.1", port(&self.plain).port())]);
        command.args(["--resolve", &format!("localhost:{}:127.0.0.1", port(&self.tls).port())]);
        text_of(command.arg("--cacert").arg(&self.certificate).args(args))
    }
}

fn port(server: &Channel) -> SocketAddr {
    server.local_address().unwrap().socket_addr().unwrap()
}

/// Returns what a program has printed.
fn text_of(command: &mut Command) -> String {
    let output = command.output();
    let Output { status, stdout, stderr } =
        output.unwrap_or_else(|error| panic!("{command:?}: {error}; scripts/test installs it"));
    let errors = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status}, {errors}");
    String::from_utf8_lossy(&stdout).into_owned()
}

/// The pipelines of the two protocols.
#[derive(Clone)]
struct Protocols {
    drops: Sender<()>,
}

impl Protocols {
    fn serve_http1(&self, edit: &mut Edit<'_>) -> Result<(), Error> {
        let drops = self.drops.clone();
        serve_channel(edit, move |connection: AsyncChannel<Bytes>| {
            serve_http(
                connection,
                move |io, _| {
                    let service = service_fn(move |request| answer(request, drops.clone()));
                    http1::Builder::new().timer(LoopTimer).serve_connection(io, service)
                },
                http1::Connection::graceful_shutdown,
            )
        })
    }

    fn serve_http2(&self, edit: &mut Edit<'_>) -> Result<(), Error> {
        let drops = self.drops.clone();
        serve_channel(edit, move |connection: AsyncChannel<Bytes>| {
            serve_http(
                connection,
                move |io, executor| {
                    let service = service_fn(move |request| answer(request, drops.clone()));
                    http2::Builder::new(executor).timer(LoopTimer).serve_connection(io, service)
                },
                http2::Connection::graceful_shutdown,
            )
        })
    }
}

async fn answer(request: Request<Incoming>, drops: Sender<()>) -> Answer {
    let version = format!("{:?}", request.version());
    match request.uri().path() {
        "/echo" => Ok(Response::new(Either::Right(request.into_body()))),
        "/large" => Ok(Response::new(Either::Left(Full::from(vec![b'x'; LARGE])))),
        "/never" => {
            let _told = TellsDrop(drops);
            sleep(Duration::MAX).await;
            unreachable!("the sleep has no end")
        }
        path => Ok(Response::new(Either::Left(Full::from(format!("{version} {path}"))))),
    }
}

/// More than the buffers of two sockets.
const LARGE: usize = 20_000_000;

struct TellsDrop(Sender<()>);

impl Drop for TellsDrop {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn a04_curl_chooses_the_protocol_on_both_ports() {
    let server = Server::start("curl_chooses");
    let (plain, tls) = (server.url("/a"), server.tls_url("/a"));
    assert_eq!(server.curl(&["--http1.1", &plain]), "HTTP/1.1 /a");
    assert_eq!(server.curl(&["--http2-prior-knowledge", &plain]), "HTTP/2.0 /a");
    assert_eq!(server.curl(&["--http1.1", &tls]), "HTTP/1.1 /a");
    assert_eq!(server.curl(&["--http2", &tls]), "HTTP/2.0 /a");
}

#[test]
fn a04_curl_keeps_its_connection() {
    let server = Server::start("curl_keeps");
    for (protocol, base) in [("--http1.1", server.url("/")), ("--http2", server.tls_url("/"))] {
        let (one, two) = (format!("{base}one"), format!("{base}two"));
        let format = " %{num_connects}\n";
        let pages = server.curl(&[protocol, "--write-out", format, &one, &two]);
        let connects: Vec<_> = pages.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
        assert_eq!(connects, ["1", "0"], "{pages}");
    }
}

#[test]
fn a04_large_bodies_come_back_as_they_were() {
    let server = Server::start("large_bodies");
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("large_body");
    let body: Vec<u8> = (0..LARGE as u32).map(|n| b'a' + (n % 23) as u8).collect();
    std::fs::write(&file, &body).unwrap();
    let upload = format!("@{}", file.display());
    let ways = [
        ("--http1.1", server.url("/echo")),
        ("--http2-prior-knowledge", server.url("/echo")),
        ("--http1.1", server.tls_url("/echo")),
        ("--http2", server.tls_url("/echo")),
    ];
    for (protocol, url) in ways {
        let back = server.curl(&[protocol, "--data-binary", &upload, &url]);
        assert!(back.as_bytes() == body, "{protocol} {url}: {} bytes", back.len());
    }
}

#[test]
fn a04_nghttp_and_h2load_open_a_hundred_streams() {
    let server = Server::start("h2load");
    let page = text_of(Command::new("nghttp").arg(server.url("/nghttp")));
    assert_eq!(page, "HTTP/2.0 /nghttp");
    let args = ["--requests=2000", "--clients=2", "--max-concurrent-streams=100"];
    for url in [server.url("/"), server.tls_url("/")] {
        let report = text_of(Command::new("h2load").args(args).arg(url));
        assert!(report.contains("2000 succeeded, 0 failed, 0 errored"), "{report}");
    }
}

#[test]
fn a04_a_client_that_disappears_ends_its_service() {
    let server = Server::start("disappears");
    let mut stream = server.connect();
    stream.write_all(b"GET /never HTTP/1.1\r\n\r\n").unwrap();
    drop(stream);
    server.dropped.recv_timeout(Duration::from_secs(120)).unwrap();
}

#[test]
fn a04_a_drain_in_the_middle_of_a_response_sends_the_rest() {
    let server = Server::start("drain_in_response");
    let mut stream = server.connect();
    stream.write_all(b"GET /large HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = vec![0; 1000];
    stream.read_exact(&mut answer).unwrap(); // A slow reader: the rest does not fit into the sockets.
    let drained = server.group.drain(DrainOptions::within(Duration::from_secs(120)));
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.len() > LARGE, "{} bytes", answer.len());
    assert_eq!(drained.join().unwrap(), Drained::Complete);
}

#[test]
fn a04_clients_of_both_protocols_with_and_without_tls() {
    let server = Server::start("clients");
    let plain = Bootstrap::new(&server.group, Tcp);
    for http2 in [false, true] {
        let protocol = if http2 { "h2" } else { "http/1.1" };
        let config = ClientTls::builder().trust_file(&server.certificate).alpn([protocol]);
        let config = config.build().unwrap();
        let tls = plain.clone().initialiser(move |edit| {
            let name = ServerName::try_from("localhost").map_err(Error::new)?;
            edit.add_last("tls", TlsHandler::client(config.clone(), name))?;
            Ok(())
        });
        for (client, to) in [(plain.clone(), port(&server.plain)), (tls, port(&server.tls))] {
            let (tell, echoed) = channel();
            let start = move || {
                let here = LocalLoop::current().expect("the task runs on a loop");
                here.spawn_local(async move {
                    let size = match http2 {
                        true => echo_by_http2(client, to).await,
                        false => echo_by_http1(client, to).await,
                    };
                    tell.send(size).unwrap();
                });
            };
            server.group.next().execute(start).unwrap();
            assert_eq!(echoed.recv_timeout(Duration::from_secs(120)).unwrap(), LARGE);
        }
    }
}

fn upload() -> Request<Full<Bytes>> {
    Request::post("http://localhost/echo").body(Full::from(vec![b'x'; LARGE])).unwrap()
}

async fn echo_by_http1(client: Bootstrap, to: SocketAddr) -> usize {
    let connection = client.connect_async::<Bytes, Bytes>(to).await.unwrap();
    let executor = ScopeExecutor::of(&connection);
    let io = ByteStream::new(connection);
    let (mut requests, http) = hyper::client::conn::http1::handshake(io).await.unwrap();
    executor.execute(http);
    let answer = requests.send_request(upload()).await.unwrap();
    answer.into_body().collect().await.unwrap().to_bytes().len()
}

async fn echo_by_http2(client: Bootstrap, to: SocketAddr) -> usize {
    let connection = client.connect_async::<Bytes, Bytes>(to).await.unwrap();
    let executor = ScopeExecutor::of(&connection);
    let io = ByteStream::new(connection);
    let handshake = hyper::client::conn::http2::handshake(executor.clone(), io);
    let (mut requests, http) = handshake.await.unwrap();
    executor.execute(http);
    let answer = requests.send_request(upload()).await.unwrap();
    answer.into_body().collect().await.unwrap().to_bytes().len()
}
