//! A clock in the browser: server-sent events, one per second.
//!
//! ```sh
//! cargo run --release -p waterwheel --example sse_clock -- 8080
//! curl -N http://localhost:8080/events      # in another terminal, or http://localhost:8080/ in a browser
//! ```
//!
//! The id of an event is its second. A client that connects again names the last one that it has seen
//! (`Last-Event-ID`), and gets those of the last minute that it has missed.

use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use waterwheel::channel::{DrainOptions, EventLoopGroup, sleep};
use waterwheel::http::{
    AsyncEvents, Body, EventStream, HttpServer, InvalidEvent, InvalidRoute, Request, Router,
    ServerEvent, last_event_id,
};
use waterwheel::net::{Auto, Tcp, Terminate};

const PAGE: &str = r#"<!doctype html>
<meta charset="utf-8">
<title>Clock</title>
<p>Time of the server (UTC): <output id="time">connecting</output>
<script>
const time = document.getElementById("time");
const events = new EventSource("/events");
events.addEventListener("tick", event => time.value = event.data);
events.onerror = () => time.value = "connecting";
</script>
"#;

/// Maximum number of seconds that a client gets later.
const MAX_MISSED: u64 = 60;

/// Time that a client waits before it connects again.
const RETRY: Duration = Duration::from_secs(2);

async fn page(_: Request) -> Body {
    Body::from(PAGE).with_content_type("text/html; charset=utf-8")
}

async fn events(request: Request) -> EventStream<AsyncEvents> {
    let last_seen: Option<u64> = last_event_id(&request).and_then(|id| id.parse().ok());
    EventStream::from_async(move |events| async move {
        events.send(ServerEvent::without_data().retry(RETRY)).await?;
        let present = time_of_day().as_secs();
        let mut next = match last_seen {
            Some(seen) => {
                seen.saturating_add(1).clamp(present.saturating_sub(MAX_MISSED), present + 1)
            }
            None => present,
        };
        loop {
            let now = time_of_day();
            // Somebody may set the clock: then the next event is late by a second, not by an hour.
            next = next.min(now.as_secs() + 1);
            sleep(Duration::from_secs(next).saturating_sub(now)).await;
            events.send(tick(next)?).await?;
            next += 1;
        }
    })
}

/// Returns the event of a second since 1970: its time of day, `12:34:56`.
fn tick(second: u64) -> Result<ServerEvent, InvalidEvent> {
    let [hours, minutes, seconds] = [second / 3600 % 24, second / 60 % 60, second % 60];
    let time = format!("{hours:02}:{minutes:02}:{seconds:02}");
    ServerEvent::new(time).name("tick")?.id(second.to_string())
}

/// Returns the time since 1970.
#[allow(clippy::disallowed_methods, reason = "the clock on the wall is what is shown")]
fn time_of_day() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn routes() -> Result<Router, InvalidRoute> {
    Router::builder().get("/", page).get("/events", events).build()
}

fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = std::env::args().nth(1).ok_or("usage: sse_clock PORT")?.parse()?;
    routes()?; // An invalid pattern fails here, and not at the first connection of a loop.
    let group = EventLoopGroup::builder(Auto).name("clock").build()?;
    let server = HttpServer::per_loop(|| routes().expect("the routes were built before"))
        .build()?
        .bind(&group, Tcp, ("127.0.0.1", port))
        .join()?;
    // A stream of events has no end that a drain could wait for: its client connects again, perhaps elsewhere.
    let drain = DrainOptions::within(Duration::from_secs(1));
    Terminate::new()?.drain(&group, drain.shutdown(Duration::ZERO, Duration::from_secs(5))?);
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    group.termination().join()?;
    Ok(())
}
