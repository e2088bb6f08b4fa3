//! A line server whose answers come from crates that need tokio: a database driver (tokio-postgres) and an HTTP client
//! (reqwest), on a tokio runtime beside the event loops.
//!
//! ```sh
//! cargo run --release -p waterwheel --example with_tokio -- 7000 "host=localhost user=postgres password=secret"
//! nc localhost 7000   # in another terminal
//! ```
//!
//! | a client sends | and gets |
//! |---|---|
//! | `PUT name url` | `stored`, or `replaced` |
//! | `URL name` | the URL, or `unknown` |
//! | `FETCH name` | the status and the size of the page at that URL: `200 OK, 1256 bytes` |
//!
//! 1. Requests of a connection run at the same time, at most 16 of them, and are answered in order: a client may send many
//!    without waiting. A `URL` behind the `PUT` of the same name waits for its answer first, or may overtake it.
//! 2. A client that goes away takes its requests along: their tasks are aborted on the tokio runtime. One that finishes its
//!    output counts as gone; with `child_allow_half_closure(true)` it would get its answers first.
//! 3. A request has a time limit. A failure, even a panic in one of the crates, is an answer, and the connection goes on.
//! 4. SIGTERM ends the server when the requests under way are answered; the tokio runtime ends after the loops.
//!
//! The server fetches any URL that its clients store: it is for a network that you trust.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::NoTls;
use waterwheel::async_bridge::{AsyncHandler, OrderedAnswers, TokioRuntime};
use waterwheel::channel::{DrainOptions, EventLoopGroup, ServerBootstrap, timeout};
use waterwheel::codec::{LineDecoder, LineEncoder};
use waterwheel::executor;
use waterwheel::net::{Auto, Tcp, Terminate};

/// Time for a request, the database and the page together.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Bytes that are read of a page.
const MAX_PAGE: usize = 1 << 20;

const USAGE: &str = "requests: PUT name url, URL name, FETCH name";

/// The handler of a connection, on its event loop.
#[derive(Clone)]
struct Session {
    runtime: TokioRuntime,
    pages: Arc<Pages>,
}

impl AsyncHandler for Session {
    type Request = String;
    type Response = String;

    async fn call(&self, line: String) -> Result<String, executor::Error> {
        let pages = self.pages.clone();
        let answer = self.runtime.spawn(async move { pages.answer(&line).await });
        // If the time is over, or the client is gone, the task is dropped here and thereby aborted there.
        timeout(TIME_LIMIT, answer).await.map_err(executor::Error::new)??
    }

    fn answer_error(&self, error: executor::Error) -> Result<String, executor::Error> {
        Ok(format!("error: {}", with_sources(&error)))
    }
}

/// A directory of pages. Its methods run on the tokio runtime.
struct Pages {
    database: tokio_postgres::Client,
    http: reqwest::Client,
}

impl Pages {
    async fn answer(&self, line: &str) -> Result<String, executor::Error> {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["PUT", name, url] => self.store(name, url).await.map_err(executor::Error::new),
            ["URL", name] => {
                let url = self.url(name).await.map_err(executor::Error::new)?;
                Ok(url.unwrap_or_else(|| String::from("unknown")))
            }
            ["FETCH", name] => match self.url(name).await.map_err(executor::Error::new)? {
                Some(url) => self.fetch(&url).await.map_err(executor::Error::new),
                None => Ok(String::from("unknown")),
            },
            _ => Ok(USAGE.to_owned()),
        }
    }

    async fn store(&self, name: &str, url: &str) -> Result<String, tokio_postgres::Error> {
        let insert = "INSERT INTO pages VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET url = $2 \
                      RETURNING xmax = 0"; // True for a new row.
        let is_new = self.database.query_one(insert, &[&name, &url]).await?.get(0);
        Ok(String::from(if is_new { "stored" } else { "replaced" }))
    }

    async fn url(&self, name: &str) -> Result<Option<String>, tokio_postgres::Error> {
        let row =
            self.database.query_opt("SELECT url FROM pages WHERE name = $1", &[&name]).await?;
        Ok(row.map(|row| row.get(0)))
    }

    async fn fetch(&self, url: &str) -> Result<String, reqwest::Error> {
        let mut response = self.http.get(url).send().await?;
        let mut bytes = 0;
        while let Some(chunk) = response.chunk().await? {
            bytes += chunk.len();
            if bytes > MAX_PAGE {
                return Ok(format!("{}, more than {MAX_PAGE} bytes", response.status()));
            }
        }
        Ok(format!("{}, {bytes} bytes", response.status()))
    }
}

/// Returns the text of an error and of its causes: "error sending request" alone does not say why.
fn with_sources(error: &(dyn Error + 'static)) -> String {
    let (mut text, mut next) = (error.to_string(), error.source());
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text.replace(char::is_control, " ") // An answer is one line.
}

/// Connects to the database and makes the table. Runs on the tokio runtime.
async fn open(database: &str) -> Result<Pages, Box<dyn Error>> {
    let (database, connection) = tokio_postgres::connect(database, NoTls).await?;
    // Carries the queries of all clients; ends with the database or with the runtime.
    tokio::spawn(async {
        if let Err(error) = connection.await {
            eprintln!("database: {}", with_sources(&error));
        }
    });
    let create = "CREATE TABLE IF NOT EXISTS pages (name text PRIMARY KEY, url text NOT NULL)";
    database.batch_execute(create).await?;
    let http = reqwest::Client::builder().no_proxy().build()?;
    Ok(Pages { database, http })
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [port, database] = &args[..] else { return Err("usage: with_tokio PORT DATABASE".into()) };
    // One worker is enough for drivers that wait. Dropped last: its drop blocks, which a loop must not.
    let tokio =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let pages = Arc::new(tokio.block_on(open(database))?);
    let session = Session { runtime: TokioRuntime::new(tokio.handle().clone()), pages };

    let group = EventLoopGroup::builder(Auto).name("lines").build()?;
    let server = ServerBootstrap::new(&group, Tcp)
        .child_initialiser(move |edit| {
            edit.add_codec("lines", LineDecoder::new(1024).text(), LineEncoder::new())?;
            edit.add_last("answers", OrderedAnswers::new(session.clone()))?;
            Ok(())
        })
        .bind(("127.0.0.1", port.parse::<u16>()?))
        .join()?;
    Terminate::new()?.drain(&group, DrainOptions::within(TIME_LIMIT));
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    group.termination().join()?;
    Ok(())
}
