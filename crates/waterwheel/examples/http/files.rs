//! Serves the files of a folder: conditional requests, ranges, compression.
//!
//! ```sh
//! cargo run --release -p waterwheel --example files -- 8080 docs
//! curl -i http://localhost:8080/PIPELINE.md                       # in another terminal
//! curl -r 0-99 http://localhost:8080/PIPELINE.md
//! curl -i --compressed http://localhost:8080/PIPELINE.md
//! curl -i -z 'tomorrow' http://localhost:8080/PIPELINE.md
//! ```
//!
//! The kernel sends files that are not compressed (sendfile). With `--tls CERTIFICATE.pem KEY.pem` the server speaks
//! https, and files are read in pieces. Folders have no listing: `/` is `index.html`. SIGTERM and Ctrl-C end the program
//! when the downloads under way are complete, or after 30 seconds.

use std::error::Error;
use std::time::Duration;

use waterwheel::channel::{DrainOptions, EventLoopGroup, ServerBootstrap};
use waterwheel::http::{Compression, Files, HttpServer, compressed};
use waterwheel::net::{Auto, Tcp, Terminate};
use waterwheel::tls::{ServerTls, TlsHandler};

/// How long downloads may go on after SIGTERM.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);

fn main() -> Result<(), Box<dyn Error>> {
    let Options { port, folder, tls } = Options::from_args()?;
    // Clients ask each time whether they have the file as it is, and files that lie compressed beside it come first.
    let files = Files::builder(folder).cache_control("no-cache").precompressed(true).build()?;
    let server = HttpServer::new(compressed(files, Compression::default()));

    let group = EventLoopGroup::builder(Auto).name("files").build()?;
    let mut bootstrap = ServerBootstrap::new(&group, Tcp);
    if let Some((certificate, key)) = tls {
        let files = ServerTls::builder().certificate_files(certificate, key);
        let config = files.alpn(["http/1.1"]).build()?;
        bootstrap = bootstrap.child_initialiser(move |edit| {
            edit.add_last("tls", TlsHandler::server(config.clone()))?;
            Ok(())
        });
    }
    let listener = server.extend(bootstrap).bind(("127.0.0.1", port)).join()?;
    Terminate::new()?.drain(&group, DrainOptions::within(DRAIN_LIMIT));
    println!("listening on {}", listener.local_address().ok_or("the server is not bound")?);
    group.termination().join()?;
    Ok(())
}

struct Options {
    port: u16,
    folder: String,
    tls: Option<(String, String)>,
}

impl Options {
    /// `[--tls CERTIFICATE.pem KEY.pem] PORT FOLDER`
    fn from_args() -> Result<Self, Box<dyn Error>> {
        let mut args = std::env::args().skip(1).peekable();
        let mut tls = None;
        if args.next_if(|arg| arg == "--tls").is_some() {
            tls = Some(args.next().zip(args.next()).ok_or("--tls CERTIFICATE.pem KEY.pem")?);
        }
        let (Some(port), Some(folder)) = (args.next(), args.next()) else {
            return Err("usage: files [--tls CERTIFICATE.pem KEY.pem] PORT FOLDER".into());
        };
        let port = port.parse().map_err(|_| format!("{port} is not a port number"))?;
        Ok(Self { port, folder, tls })
    }
}
