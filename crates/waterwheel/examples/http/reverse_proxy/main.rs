//! A reverse proxy: serves HTTP/1.1 by asking another server, the upstream.
//!
//! ```sh
//! python3 -m http.server 8000                                            # any server
//! cargo run --release -p waterwheel --example reverse_proxy -- 8080 http://localhost:8000
//! curl -i http://localhost:8080/                                         # in another terminal
//! ```
//!
//! | option | meaning |
//! |---|---|
//! | `--host NAME` | the Host of requests to the upstream; otherwise it is that of the client's request |
//! | `--connections N` | connections to the upstream, for each loop: 256 unless set |
//! | `--waiting N` | requests of a loop that may wait for one of them: 1000 unless set; more are answered with 503 |
//! | `--timeout SECONDS` | how long the upstream may take for a connection, for the head of a response, and without a byte of a body: 60 unless set |
//! | `--threads N` | event loops: two for each core unless set |
//! | `--ca FILE` | trust the certificates of this PEM file, for an upstream with https; otherwise the system's |
//!
//! ```text
//!   client ⇄ abandoned requests ⇄ http ──► ReverseProxy ──► Client ⇄ pool of the same loop ⇄ upstream
//! ```
//!
//! - *Bodies* are streamed both ways, with their trailers. A side is read only while the other one has room, so a slow
//!   client costs no memory. `Expect: 100-continue` goes from end to end: an upstream that refuses a body does not get it.
//! - *Fields* of one connection (Connection and those it names, Keep-Alive, TE, …) are removed, Via, X-Forwarded-For,
//!   X-Forwarded-Proto and Forwarded added.
//! - *Upgrades*, such as WebSocket, are passed through; both connections are then a tunnel. A client that half-closes its
//!   end of a tunnel half-closes the upstream's.
//! - *Errors.* An upstream that cannot be reached, or answers what is no HTTP, is status 502; one that takes too long is
//!   504, and 503 if too many requests wait for a connection. A response that breaks off is broken off.
//! - *A client that goes* before its response has begun or while the upstream has nothing to send ends the request to the
//!   upstream too. A client that only half-closes is taken for one that goes, as other proxies do.
//! - *SIGTERM* and Ctrl-C end the program when every request is answered, after 30 s at the latest. Tunnels are cut off
//!   then.
//!
//! | file | contents |
//! |---|---|
//! | `forward.rs` | the service: a request, its response, errors as responses |
//! | `fields.rs` | the fields that are removed and added |
//! | `tunnel.rs` | upgrades |
//! | `abandoned.rs` | clients that go before they are answered |

mod abandoned;
mod fields;
mod forward;
mod tunnel;

use std::error::Error;
use std::time::Duration;

use http::uri::{Authority, Scheme};
use http::{HeaderValue, Uri};
use waterwheel::channel::{Bootstrap, DrainOptions, EventLoopGroup, ServerBootstrap};
use waterwheel::http::{Client, HttpServer, MessageLimits};
use waterwheel::net::{Auto, Tcp, Terminate};
use waterwheel::tls::ClientTls;

use forward::ReverseProxy;

/// Maximum number of connections of clients.
const MAX_CLIENTS: usize = 10_000;

/// Time that requests have to complete after SIGTERM.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);

fn main() -> Result<(), Box<dyn Error>> {
    let settings = ProxySettings::from_args()?;
    // Before the address is printed: whoever knows it may send the signal.
    let terminate = Terminate::new()?;
    let mut group = EventLoopGroup::builder(Auto).name("reverse proxy");
    if let Some(threads) = settings.threads {
        group = group.threads(threads);
    }
    let group = group.build()?;
    let ProxySettings { connections, waiting, .. } = settings;
    let mut client = Client::builder(Bootstrap::new(&group, Tcp))
        .connect_timeout(settings.timeout)
        .head_timeout(settings.timeout)
        .body_timeout(settings.timeout)
        .pool(move |pool| pool.max_open(connections).max_waiting(waiting));
    if settings.scheme == Scheme::HTTPS {
        let trusted = match &settings.ca {
            Some(file) => ClientTls::builder().trust_file(file),
            None => ClientTls::builder().trust_system_roots(),
        };
        client = client.tls(trusted.build()?);
    }
    let proxy =
        ReverseProxy::new(client.build()?, settings.scheme, settings.authority, settings.host);
    // The limits of bodies are the upstream's.
    let limits = MessageLimits::default().max_body_bytes(u64::MAX);
    let server = HttpServer::builder(proxy).limits(limits).build()?;
    let bootstrap = ServerBootstrap::new(&group, Tcp)
        .max_connections(MAX_CLIENTS)
        .child_initialiser(abandoned::add_handler);
    let listener = server.extend(bootstrap).bind(("127.0.0.1", settings.port)).join()?;
    println!("listening on {}", listener.local_address().ok_or("the server is not bound")?);
    let drain = DrainOptions::within(DRAIN_LIMIT);
    terminate.drain(&group, drain.shutdown(Duration::ZERO, Duration::from_secs(5))?);
    group.termination().join()?;
    Ok(())
}

struct ProxySettings {
    port: u16,
    scheme: Scheme,
    authority: Authority,
    host: Option<HeaderValue>,
    connections: usize,
    waiting: usize,
    timeout: Duration,
    threads: Option<usize>,
    ca: Option<String>,
}

impl ProxySettings {
    /// `[OPTIONS] PORT UPSTREAM_URL`
    fn from_args() -> Result<Self, Box<dyn Error>> {
        let mut names = Vec::new();
        let (mut host, mut threads, mut ca) = (None, None, None);
        let (mut connections, mut waiting, mut timeout) = (256, 1000, Duration::from_secs(60));
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--host" => host = Some(HeaderValue::from_str(&value()?)?),
                "--connections" => connections = value()?.parse()?,
                "--waiting" => waiting = value()?.parse()?,
                "--timeout" => timeout = Duration::from_secs(value()?.parse()?),
                "--threads" => threads = Some(value()?.parse()?),
                "--ca" => ca = Some(value()?),
                _ => names.push(arg),
            }
        }
        let [port, upstream] = &names[..] else {
            return Err("usage: reverse_proxy [OPTIONS] PORT UPSTREAM_URL".into());
        };
        let port = port.parse().map_err(|_| format!("{port} is not a port number"))?;
        let (scheme, authority) = parse_upstream(upstream)?;
        Ok(Self { port, scheme, authority, host, connections, waiting, timeout, threads, ca })
    }
}

/// Returns the scheme and authority of the upstream's URL.
fn parse_upstream(url: &str) -> Result<(Scheme, Authority), Box<dyn Error>> {
    let parts = url.parse::<Uri>().map_err(|error| format!("{url}: {error}"))?.into_parts();
    let scheme = parts.scheme.filter(|scheme| [Scheme::HTTP, Scheme::HTTPS].contains(scheme));
    match (scheme, parts.authority, parts.path_and_query) {
        (Some(scheme), Some(authority), path) if path.as_ref().is_none_or(|path| path == "/") => {
            Ok((scheme, authority))
        }
        _ => Err(format!("{url} is not http://HOST[:PORT] or https://HOST[:PORT]").into()),
    }
}
