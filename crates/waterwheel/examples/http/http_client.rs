//! An HTTP client for the command line: prints the response as it comes.
//!
//! ```sh
//! cargo run --release -p waterwheel --example http_client -- https://www.example.org/
//! cargo run --release -p waterwheel --example http_client -- -d '{"text":"milk"}' \
//!     -H 'content-type: application/json' http://localhost:8080/notes
//! ```
//!
//! | option | meaning |
//! |---|---|
//! | `-X METHOD` | the method; GET by default, POST with a body |
//! | `-d DATA` | the body; `-d @FILE` sends a file, by sendfile without TLS |
//! | `-H 'NAME: VALUE'` | a field of the request, any number of times |
//! | `--ca FILE` | trust the certificates of this PEM file, instead of the system's |
//! | `--proxy URL` | send the request through an HTTP proxy |
//! | `-L` | follow up to ten redirects |
//! | `-n COUNT` | send the request so many times, one after the other, over one connection if the server keeps it |
//!
//! The status and the fields go to standard error, the bodies to standard output. The exit status is 1 if there was no
//! complete response, and 0 for any response, whatever its status.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::process::ExitCode;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Response};
use waterwheel::bytes::Bytes;
use waterwheel::channel::{Bootstrap, EventLoopGroup, FileRegion};
use waterwheel::executor;
use waterwheel::http::{Body, Client, Incoming, Proxy};
use waterwheel::net::{Auto, Tcp};
use waterwheel::tls::{ClientTls, ClientTlsBuilder};

/// Longest chain of redirects that `-L` follows.
const MAX_REDIRECTS: u32 = 10;

/// The arguments of the program.
struct Arguments {
    url: String,
    method: Option<Method>,
    headers: HeaderMap,
    data: Option<RequestData>,
    ca: Option<String>,
    proxy: Option<Proxy>,
    redirects: u32,
    count: u32,
}

/// The body of the request.
#[derive(Clone)]
enum RequestData {
    Bytes(Bytes),
    File(FileRegion),
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("http_client: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::from_args()?;
    let group = EventLoopGroup::builder(Auto).threads(1).name("client").build()?;
    let mut builder = Client::builder(Bootstrap::new(&group, Tcp)).redirects(arguments.redirects);
    // Reading the roots of the system takes a while: only where they are needed.
    if arguments.url.starts_with("https:") || arguments.redirects > 0 {
        builder = builder.tls(trusted(arguments.ca.as_deref()).build()?);
    }
    if let Some(proxy) = arguments.proxy.clone() {
        builder = builder.proxy(proxy);
    }
    let client = builder.build()?;
    // The client's futures are made and polled on the loop: they are not `Send`.
    let fetched = group.spawn_with(move || async move {
        for _ in 0..arguments.count {
            fetch(&client, &arguments).await?;
        }
        Ok::<_, executor::Error>(())
    })?;
    Ok(fetched.join()??)
}

fn trusted(ca: Option<&str>) -> ClientTlsBuilder {
    match ca {
        Some(file) => ClientTls::builder().trust_file(file),
        None => ClientTls::builder().trust_system_roots(),
    }
}

async fn fetch(client: &Client, arguments: &Arguments) -> Result<(), executor::Error> {
    let body = arguments.data.clone().map_or_else(Body::empty, |data| match data {
        RequestData::Bytes(bytes) => Body::from(bytes),
        RequestData::File(region) => Body::file(region),
    });
    let default = if arguments.data.is_some() { Method::POST } else { Method::GET };
    let method = arguments.method.clone().unwrap_or(default);
    let request = client.request(method, &*arguments.url).headers(arguments.headers.clone());
    let response = request.body(body).send().await?;
    print_head(&response);
    let mut body = response.into_body();
    // Written by the loop, which has nothing else to do.
    let mut stdout = std::io::stdout().lock();
    while let Some(chunk) = body.chunk().await {
        let chunk = chunk.map_err(executor::Error::new)?;
        stdout.write_all(&chunk).and_then(|()| stdout.flush()).map_err(executor::Error::new)?;
    }
    if let Some(trailers) = body.take_trailers() {
        print_fields(&trailers);
    }
    Ok(())
}

fn print_head(response: &Response<Incoming>) {
    eprintln!("{:?} {}", response.version(), response.status());
    print_fields(response.headers());
    eprintln!();
}

fn print_fields(headers: &HeaderMap) {
    for (name, value) in headers {
        eprintln!("{name}: {}", String::from_utf8_lossy(value.as_bytes()));
    }
}

impl Arguments {
    fn from_args() -> Result<Self, Box<dyn Error>> {
        let mut arguments = Self {
            url: String::new(),
            method: None,
            headers: HeaderMap::new(),
            data: None,
            ca: None,
            proxy: None,
            redirects: 0,
            count: 1,
        };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "-X" => arguments.method = Some(value()?.parse()?),
                "-d" => arguments.data = Some(RequestData::of(value()?)?),
                "-H" => {
                    let (name, field_value) = parse_field(&value()?)?;
                    arguments.headers.append(name, field_value);
                }
                "--ca" => arguments.ca = Some(value()?),
                "--proxy" => arguments.proxy = Some(Proxy::http(&value()?)?),
                "-n" => arguments.count = value()?.parse()?,
                "-L" => arguments.redirects = MAX_REDIRECTS,
                url => arguments.url = url.to_owned(),
            }
        }
        if arguments.url.is_empty() {
            let usage = "usage: http_client [-X METHOD] [-d DATA] [-H FIELD] [--ca FILE] \
                         [--proxy URL] [-L] [-n COUNT] URL";
            return Err(usage.into());
        }
        Ok(arguments)
    }
}

impl RequestData {
    fn of(data: String) -> Result<Self, Box<dyn Error>> {
        let Some(path) = data.strip_prefix('@') else { return Ok(Self::Bytes(data.into())) };
        let file = File::open(path).map_err(|error| format!("{path}: {error}"))?;
        Ok(Self::File(FileRegion::new(file, ..)?))
    }
}

fn parse_field(field: &str) -> Result<(HeaderName, HeaderValue), Box<dyn Error>> {
    let (name, value) = field.split_once(':').ok_or_else(|| format!("{field:?} has no colon"))?;
    Ok((name.trim().parse()?, value.trim().parse()?))
}
