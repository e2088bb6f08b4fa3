//! A small API: JSON in and out, a body that is streamed back, and a plain text.
//!
//! ```sh
//! cargo run --release -p waterwheel --example json_api -- 8080
//! curl -i http://localhost:8080/plaintext          # in another terminal
//! curl -i --data-binary @README.md http://localhost:8080/echo
//! curl -i --json '{"text":"buy milk"}' http://localhost:8080/notes
//! curl -i http://localhost:8080/notes/1
//! ```
//!
//! SIGTERM and Ctrl-C end the program when every request is answered.

use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderValue, LOCATION};
use serde::{Deserialize, Serialize};
use waterwheel::bytes::Bytes;
use waterwheel::channel::{DrainOptions, EventLoopGroup, timeout};
use waterwheel::executor;
use waterwheel::http::{
    Body, BodyChunk, BodyError, BodySource, HttpServer, Incoming, IntoResponse, InvalidRoute, Json,
    JsonError, Request, Response, Router, request_json,
};
use waterwheel::net::{Auto, Tcp, Terminate};

/// Maximum number of notes: anybody may add some.
const MAX_NOTES: usize = 1000;

/// Maximum length of a note as JSON. All notes together take 4 MiB.
const MAX_NOTE_BYTES: usize = 4096;

/// The notes of all loops.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<NoteTable>>);

#[derive(Default)]
struct NoteTable {
    last_id: u64,
    notes: BTreeMap<u64, String>,
}

#[derive(Deserialize)]
struct NewNote {
    text: String,
}

#[derive(Serialize)]
struct Note {
    id: u64,
    text: String,
}

impl Notes {
    /// Locks the table, for a few instructions each time: the loops do not wait for each other noticeably.
    fn lock(&self) -> MutexGuard<'_, NoteTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn list(self) -> Json<Vec<Note>> {
        let table = self.lock();
        Json(table.notes.iter().map(|(&id, text)| Note { id, text: text.clone() }).collect())
    }

    async fn add(self, request: Request) -> Result<Response, JsonError> {
        let NewNote { text } = request_json(request, MAX_NOTE_BYTES).await?;
        let mut table = self.lock();
        if table.notes.len() == MAX_NOTES {
            return Ok(StatusCode::INSUFFICIENT_STORAGE.into_response());
        }
        table.last_id += 1;
        let id = table.last_id;
        table.notes.insert(id, text.clone());
        drop(table);
        let mut response = (StatusCode::CREATED, Json(Note { id, text })).into_response();
        if let Ok(location) = HeaderValue::from_str(&format!("/notes/{id}")) {
            response.headers_mut().insert(LOCATION, location);
        }
        Ok(response)
    }

    async fn show(self, request: Request) -> Result<Json<Note>, StatusCode> {
        let id = id_of(&request)?;
        let text = self.lock().notes.get(&id).cloned();
        text.map(|text| Json(Note { id, text })).ok_or(StatusCode::NOT_FOUND)
    }

    async fn remove(self, request: Request) -> Result<(StatusCode, ()), StatusCode> {
        let removed = self.lock().notes.remove(&id_of(&request)?);
        removed.map(|_| (StatusCode::NO_CONTENT, ())).ok_or(StatusCode::NOT_FOUND)
    }
}

/// Returns the number at the end of the path. A path with anything else there names no note.
fn id_of(request: &Request) -> Result<u64, StatusCode> {
    let id = request.path_param("id").and_then(|id| id.parse().ok());
    id.ok_or(StatusCode::NOT_FOUND)
}

async fn plaintext(_: Request) -> &'static str {
    "Hello, World!"
}

/// The bytes of a body that are read before it is sent back.
const MAX_READ_AHEAD: usize = 64 * 1024;

/// The time for which the next chunk is waited for before the answer begins.
const READ_AHEAD_TIME: Duration = Duration::from_millis(100);

/// Sends the body back as it comes.
///
/// Once an answer has begun, a malformed chunk can only cut it off. So the beginning of the body is read first, as long as
/// it comes without a pause: a small body that is malformed gets status 400, and nothing of it is sent back.
async fn echo(request: Request) -> Result<Body, BodyError> {
    let mut rest = request.into_body();
    let (mut begun, mut bytes) = (VecDeque::new(), 0);
    while bytes < MAX_READ_AHEAD {
        match timeout(READ_AHEAD_TIME, rest.chunk()).await {
            Ok(Some(chunk)) => {
                let chunk = chunk?;
                bytes += chunk.len();
                begun.push_back(chunk);
            }
            Ok(None) => break,
            Err(_paused) if begun.is_empty() => {}
            Err(_paused) => break,
        }
    }
    Ok(Body::from_source(EchoSource { begun, rest }))
}

/// Chunks that were taken off a body, then the rest of the body.
struct EchoSource {
    begun: VecDeque<Bytes>,
    rest: Incoming,
}

impl BodySource for EchoSource {
    fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyChunk, executor::Error>>> {
        match self.begun.pop_front() {
            Some(chunk) => Poll::Ready(Some(Ok(chunk.into()))),
            None => self.rest.poll_chunk(cx),
        }
    }

    fn exact_len(&self) -> Option<u64> {
        let begun: usize = self.begun.iter().map(Bytes::len).sum();
        Some(begun as u64 + self.rest.exact_len()?)
    }
}

/// Returns the routes of one loop. The notes behind them are shared.
fn routes(notes: &Notes) -> Result<Router, InvalidRoute> {
    let [list, add, show, remove] = [(); 4].map(|()| notes.clone());
    Router::builder()
        .get("/plaintext", plaintext)
        .post("/echo", echo)
        .get("/notes", move |_: Request| list.clone().list())
        .post("/notes", move |request| add.clone().add(request))
        .get("/notes/{id}", move |request| show.clone().show(request))
        .delete("/notes/{id}", move |request| remove.clone().remove(request))
        .build()
}

fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = std::env::args().nth(1).ok_or("usage: json_api PORT")?.parse()?;
    let notes = Notes::default();
    routes(&notes)?; // An invalid pattern fails here, and not at the first connection of a loop.
    let group = EventLoopGroup::builder(Auto).name("api").build()?;
    let server =
        HttpServer::per_loop(move || routes(&notes).expect("the routes were built before"))
            .build()?
            .bind(&group, Tcp, ("127.0.0.1", port))
            .join()?;
    let drain = DrainOptions::within(Duration::from_secs(30));
    Terminate::new()?.drain(&group, drain.shutdown(Duration::ZERO, Duration::from_secs(5))?);
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    group.termination().join()?;
    Ok(())
}
