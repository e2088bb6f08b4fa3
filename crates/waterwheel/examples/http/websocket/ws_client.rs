//! A WebSocket client for the command line: sends the lines of its input, prints what it receives.
//!
//! ```sh
//! cargo run --release -p waterwheel --example ws_client -- ws://localhost:8080/
//! cargo run --release -p waterwheel --example ws_client -- --deflate --protocol v2 wss://www.example.org/chat
//! ```
//!
//! | option | meaning |
//! |---|---|
//! | `--echo` | send every message back, instead of lines |
//! | `--deflate` | offer compression |
//! | `--keep-context` | the same, by compressors that keep their window from message to message |
//! | `--protocol NAME` | offer a subprotocol, any number of times |
//! | `--ca FILE` | trust the certificates of this PEM file, instead of the system's |
//!
//! Texts go to standard output; binary messages are told by their length. At the end of the input the connection is
//! closed, with all that its server still sends. How it has ended goes to standard error; the exit status is 0 if the
//! server has sent a Close.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;

use waterwheel::channel::{Bootstrap, Channel, EventLoopGroup, HandlerResult};
use waterwheel::executor;
use waterwheel::http::Client;
use waterwheel::net::{Auto, Tcp};
use waterwheel::tls::{ClientTls, ClientTlsBuilder};
use waterwheel::websocket::{
    CloseOutcome, DeflateOptions, WebSocketConnector, WebSocketContext, WebSocketHandler,
    WebSocketLimits, WebSocketMessage, WebSocketOptions,
};

/// Maximum size of a message.
const MAX_MESSAGE: u64 = 16 * 1024 * 1024;

/// The arguments of the program.
#[derive(Default)]
struct Arguments {
    url: String,
    echoes: bool,
    deflates: bool,
    keeps_context: bool,
    protocols: Vec<String>,
    ca: Option<String>,
}

fn main() -> ExitCode {
    match run() {
        Ok(CloseOutcome::Received(reason)) => {
            match reason {
                Some(reason) => eprintln!("closed: {reason}"),
                None => eprintln!("closed"),
            }
            ExitCode::SUCCESS
        }
        Ok(CloseOutcome::Failed(violation)) => fail(&violation),
        Ok(CloseOutcome::Lost) => fail("the connection was lost"),
        Err(error) => fail(&error),
    }
}

fn fail(error: &(impl ToString + ?Sized)) -> ExitCode {
    eprintln!("ws_client: {}", error.to_string());
    ExitCode::FAILURE
}

fn run() -> Result<CloseOutcome, Box<dyn Error>> {
    let arguments = Arguments::from_args()?;
    let options = arguments.options()?;
    let group = EventLoopGroup::builder(Auto).threads(1).name("client").build()?;
    let mut builder = Client::builder(Bootstrap::new(&group, Tcp));
    // Reading the roots of the system takes a while: only where they are needed.
    if arguments.url.starts_with("wss:") {
        builder = builder.tls(trusted(arguments.ca.as_deref()).build()?);
    }
    let connector = WebSocketConnector::new(builder.build()?).options(options);
    let (sender, outcome) = mpsc::channel();
    // The future of a connection is made and polled on its loop: it is not `Send`.
    let connected = group.spawn_with(move || async move {
        let mut request = connector.request(&arguments.url);
        for protocol in &arguments.protocols {
            request = request.subprotocol(protocol);
        }
        let handler = ClientHandler { echoes: arguments.echoes, outcome: sender };
        let channel = request.connect_with(handler).await?;
        if !arguments.echoes {
            let channel = channel.clone();
            thread::spawn(move || send_lines(&channel));
        }
        Ok::<_, executor::Error>(channel)
    })?;
    let channel = connected.join()??;
    // Until the last frame is sent, which may answer a Close. An error tells no more than the outcome.
    let _ = channel.closed().join();
    Ok(outcome.recv()?)
}

fn trusted(ca: Option<&str>) -> ClientTlsBuilder {
    match ca {
        Some(file) => ClientTls::builder().trust_file(file),
        None => ClientTls::builder().trust_system_roots(),
    }
}

/// Sends the lines of standard input, at the pace of the server, then closes the connection.
fn send_lines(channel: &Channel) {
    for line in std::io::stdin().lines().map_while(Result::ok) {
        if channel.write_and_flush(WebSocketMessage::text(line)).join().is_err() {
            return; // The connection has ended.
        }
    }
    drop(channel.close());
}

/// The handler of the connection.
struct ClientHandler {
    echoes: bool,
    outcome: mpsc::Sender<CloseOutcome>,
}

impl WebSocketHandler for ClientHandler {
    fn on_message(
        &mut self,
        socket: &WebSocketContext<'_>,
        message: WebSocketMessage,
    ) -> HandlerResult {
        if self.echoes {
            return Ok(socket.send(message)?);
        }
        // By the loop, which has nothing else to do.
        let mut stdout = std::io::stdout().lock();
        match message {
            WebSocketMessage::Text(text) => writeln!(stdout, "{text}"),
            WebSocketMessage::Binary(bytes) => writeln!(stdout, "[{} bytes]", bytes.len()),
            _ => Ok(()), // Parts and control frames come only if the options ask for them.
        }
        .map_err(executor::Error::new)
    }

    fn on_close(&mut self, _: &WebSocketContext<'_>, outcome: &CloseOutcome) {
        // Nobody waits if the connection could not be opened.
        let _ = self.outcome.send(outcome.clone());
    }
}

impl Arguments {
    fn from_args() -> Result<Self, Box<dyn Error>> {
        let mut arguments = Self::default();
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--echo" => arguments.echoes = true,
                "--deflate" => arguments.deflates = true,
                "--keep-context" => (arguments.deflates, arguments.keeps_context) = (true, true),
                "--protocol" => arguments.protocols.push(value()?),
                "--ca" => arguments.ca = Some(value()?),
                url => arguments.url = url.to_owned(),
            }
        }
        if arguments.url.is_empty() {
            let usage = "usage: ws_client [--echo] [--deflate] [--keep-context] \
                         [--protocol NAME] [--ca FILE] URL";
            return Err(usage.into());
        }
        Ok(arguments)
    }

    /// Returns the options of the connection.
    fn options(&self) -> Result<WebSocketOptions, Box<dyn Error>> {
        let limits = WebSocketLimits::default().max_message(MAX_MESSAGE);
        let mut options = WebSocketOptions::builder().limits(limits);
        if self.deflates {
            let deflate = DeflateOptions::builder()
                .context_takeover(self.keeps_context)
                .peer_context_takeover(self.keeps_context);
            options = options.deflate(deflate.build()?);
        }
        Ok(options.build()?)
    }
}
