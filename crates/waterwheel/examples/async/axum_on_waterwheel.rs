//! An axum router on event loops: HTTP/1 and HTTP/2 by hyper on one port, with or without TLS.
//!
//! ```sh
//! cargo run --release -p waterwheel --example axum_on_waterwheel -- 7080
//! curl localhost:7080/                                                         # in another terminal
//! curl --http2-prior-knowledge --json '{"text":"buy milk"}' localhost:7080/notes
//! curl localhost:7080/notes/0
//! curl --no-buffer localhost:7080/ticks/10/500
//! ```
//!
//! `--threads N` serves on N event loops (default: one). `--tls CERTIFICATE.pem KEY.pem` serves https, and the client
//! chooses the version of HTTP by ALPN. SIGTERM and Ctrl-C end the program when every request is answered.
//!
//! axum is built without tokio's runtime: a connection and its requests run on the loop that has accepted it. Timers are
//! the loop's ([`sleep`]). axum asks for futures that are `Send`, although these never leave their thread.

use std::convert::Infallible;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Version};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::stream;
use hyper::server::conn::{http1, http2};
use hyper_util::service::TowerToHyperService;
use serde::{Deserialize, Serialize};
use waterwheel::async_bridge::{LoopTimer, serve_channel, serve_http};
use waterwheel::channel::{DrainOptions, Edit, EventLoopGroup, ServerBootstrap, sleep};
use waterwheel::handlers::{Detection, ProtocolDetector};
use waterwheel::net::{Auto, Tcp, Terminate};
use waterwheel::tls::{AlpnHandler, ServerTls, TlsHandler};

/// Maximum number of notes: anybody may add some.
const MAX_NOTES: usize = 10_000;

/// Maximum number of simultaneous connections.
const MAX_CONNECTIONS: usize = 10_000;

/// The notes of all loops.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

#[derive(Deserialize)]
struct NewNote {
    text: String,
}

#[derive(Serialize)]
struct Note {
    id: usize,
    text: String,
}

fn router() -> Router {
    Router::new()
        .route("/", get(hello))
        .route("/notes", post(add_note))
        .route("/notes/{id}", get(note))
        .route("/ticks/{count}/{milliseconds}", get(ticks))
        .fallback(|| async { refusal(StatusCode::NOT_FOUND, "no such page") })
        .with_state(Notes::default())
}

async fn hello(version: Version) -> String {
    format!("axum on Waterwheel, by {version:?}\n")
}

async fn add_note(State(notes): State<Notes>, Json(NewNote { text }): Json<NewNote>) -> Response {
    let mut notes = notes.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if notes.len() == MAX_NOTES {
        return refusal(StatusCode::INSUFFICIENT_STORAGE, "too many notes");
    }
    let id = notes.len();
    notes.push(text.clone());
    (StatusCode::CREATED, Json(Note { id, text })).into_response()
}

async fn note(State(notes): State<Notes>, Path(id): Path<usize>) -> Response {
    let notes = notes.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    match notes.get(id) {
        Some(text) => Json(Note { id, text: text.clone() }).into_response(),
        None => refusal(StatusCode::NOT_FOUND, "no such note"),
    }
}

/// Sends a line per tick. A client that does not read stops the stream; one that goes ends it.
async fn ticks(Path((count, milliseconds)): Path<(u32, u64)>) -> Body {
    Body::from_stream(stream::unfold(1, move |tick| async move {
        if tick > count {
            return None;
        }
        sleep(Duration::from_millis(milliseconds)).await;
        Some((Ok::<_, Infallible>(format!("tick {tick}\n")), tick + 1))
    }))
}

fn refusal(status: StatusCode, error: &'static str) -> Response {
    #[derive(Serialize)]
    struct Refusal {
        error: &'static str,
    }
    (status, Json(Refusal { error })).into_response()
}

/// Adds the end of a connection's pipeline for HTTP/1.
fn serve_http1(edit: &mut Edit<'_>, router: Router) -> Result<(), waterwheel::executor::Error> {
    let service = TowerToHyperService::new(router);
    serve_channel(edit, |connection| {
        serve_http(
            connection,
            |io, _| http1::Builder::new().timer(LoopTimer).serve_connection(io, service),
            http1::Connection::graceful_shutdown,
        )
    })
}

/// Adds the end of a connection's pipeline for HTTP/2.
fn serve_http2(edit: &mut Edit<'_>, router: Router) -> Result<(), waterwheel::executor::Error> {
    let service = TowerToHyperService::new(router);
    serve_channel(edit, |connection| {
        serve_http(
            connection,
            |io, executor| {
                http2::Builder::new(executor).timer(LoopTimer).serve_connection(io, service)
            },
            http2::Connection::graceful_shutdown,
        )
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let Options { port, threads, tls } = Options::from_args()?;
    let group = EventLoopGroup::builder(Auto).threads(threads).name("axum").build()?;
    let server = ServerBootstrap::new(&group, Tcp)
        // A client that has sent its last request still gets the response.
        .child_allow_half_closure(true)
        .max_connections(MAX_CONNECTIONS);
    let router = router();
    let (one, two) = (router.clone(), router);
    let server = match tls {
        // A client with prior knowledge of HTTP/2 begins with its preface.
        None => {
            let preface = |bytes: &[u8]| Detection::of_prefix(bytes, b"PRI * HTTP/2.0\r\n");
            let detector = ProtocolDetector::builder()
                .protocol("http/2", preface, move |edit| serve_http2(edit, two.clone()))
                .otherwise(move |edit| serve_http1(edit, one.clone()))
                .build()?;
            server.child_initialiser(move |edit| {
                edit.add_last("detect", detector.clone())?;
                Ok(())
            })
        }
        Some((certificate, key)) => {
            let other = one.clone();
            let alpn = AlpnHandler::builder()
                .on("h2", move |edit| serve_http2(edit, two.clone()))
                .on("http/1.1", move |edit| serve_http1(edit, one.clone()))
                .otherwise(move |edit| serve_http1(edit, other.clone()))
                .build()?;
            let files = ServerTls::builder().certificate_files(certificate, key);
            let config = files.alpn(alpn.protocols()).build()?;
            server.child_initialiser(move |edit| {
                edit.add_last("tls", TlsHandler::server(config.clone()))?;
                edit.add_last("alpn", alpn.clone())?;
                Ok(())
            })
        }
    };
    let server = server.bind(("127.0.0.1", port)).join()?;
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    let drain = DrainOptions::within(Duration::from_secs(30));
    Terminate::new()?.drain(&group, drain.shutdown(Duration::ZERO, Duration::from_secs(5))?);
    group.termination().join()?;
    Ok(())
}

struct Options {
    port: u16,
    threads: usize,
    tls: Option<(String, String)>,
}

impl Options {
    /// `[--threads N] [--tls CERTIFICATE.pem KEY.pem] PORT`
    fn from_args() -> Result<Self, Box<dyn Error>> {
        let mut options = Options { port: 7080, threads: 1, tls: None };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--threads" => options.threads = args.next().ok_or("--threads N")?.parse()?,
                "--tls" => {
                    let files = args.next().zip(args.next());
                    options.tls = Some(files.ok_or("--tls CERTIFICATE.pem KEY.pem")?);
                }
                port => {
                    options.port =
                        port.parse().map_err(|_| format!("{port} is not a port number"))?
                }
            }
        }
        Ok(options)
    }
}
