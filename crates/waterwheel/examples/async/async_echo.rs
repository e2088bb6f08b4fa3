//! An echo server whose connections are async functions.
//!
//! ```sh
//! cargo run --release -p waterwheel --example async_echo -- 7000
//! nc -N localhost 7000     # in another terminal; Ctrl-D ends the input, and the answer still comes
//! ```
//!
//! By default the function reads and writes messages, here buffers. With `--bytes` it is code for tokio's
//! `AsyncRead` and `AsyncWrite`, over a `ByteStream`; no tokio runtime runs. `--threads N` serves on N event loops.
//! Ctrl-C and SIGTERM drain: what was read is answered first.

use std::error::Error;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use waterwheel::async_bridge::{AsyncChannel, ByteStream, Serve};
use waterwheel::bytes::Bytes;
use waterwheel::channel::{DrainOptions, EventLoopGroup, ServerBootstrap};
use waterwheel::executor;
use waterwheel::net::{Auto, Tcp, Terminate};

/// Sends back every buffer without a copy. Reads nothing while the peer does not take what it was sent.
async fn echo_messages(mut connection: AsyncChannel<Bytes>) -> Result<(), executor::Error> {
    while let Some(bytes) = connection.next().await {
        connection.send(bytes?).await?;
    }
    Ok(())
}

/// Sends back every byte; knows nothing of Waterwheel.
async fn echo_bytes(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count]).await?,
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let Options { port, threads, bytes } = Options::from_args()?;
    let group = EventLoopGroup::builder(Auto).threads(threads).name("echo").build()?;
    let server = ServerBootstrap::new(&group, Tcp);
    let server = if bytes {
        server.serve(|connection| echo_bytes(ByteStream::new(connection)))
    } else {
        server.serve(echo_messages)
    };
    let server = server.bind(("127.0.0.1", port)).join()?;
    Terminate::new()?.drain(&group, DrainOptions::within(Duration::from_secs(5)));
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    group.termination().join()?;
    Ok(())
}

struct Options {
    port: u16,
    threads: usize,
    bytes: bool,
}

impl Options {
    /// `[--bytes] [--threads N] PORT`
    fn from_args() -> Result<Self, Box<dyn Error>> {
        let mut options = Options { port: 7000, threads: 1, bytes: false };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--bytes" => options.bytes = true,
                "--threads" => options.threads = args.next().ok_or("--threads N")?.parse()?,
                port => {
                    options.port =
                        port.parse().map_err(|_| format!("{port} is not a port number"))?
                }
            }
        }
        Ok(options)
    }
}
