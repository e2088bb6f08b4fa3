//! An echo server that writes everything its clients send and receive to a pcap file.
//!
//! ```sh
//! cargo run --release -p waterwheel --example capture -- /tmp/echo.pcap 7000
//! nc localhost 7000        # in another terminal
//! tshark -r /tmp/echo.pcap -z follow,tcp,ascii,0      # after Ctrl-C; or open it in Wireshark
//! ```
//!
//! `--threads N` serves connections on N event loops, which share the file. `--snap-len N` keeps N bytes of each packet,
//! `--max-bytes N` limits the file. Ctrl-C ends the server and closes the file.

use std::error::Error;
use std::time::Duration;

use waterwheel::channel::{
    Ctx, DrainOptions, EventLoopGroup, Events, Handler, HandlerResult, Msg, ServerBootstrap,
};
use waterwheel::handlers::{Capture, CaptureFile};
use waterwheel::net::{Auto, Tcp, Terminate};

struct Echo;

impl Handler for Echo {
    fn interest(&self) -> Events {
        Events::READ | Events::READ_COMPLETE
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write(msg);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut file = CaptureFile::builder();
    let (mut threads, mut path, mut port) = (1, None, 7000u16);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || {
            args.next()
                .ok_or_else(|| format!("{arg} N"))?
                .parse::<usize>()
                .map_err(Box::<dyn Error>::from)
        };
        match arg.as_str() {
            "--threads" => threads = number()?,
            "--snap-len" => file = file.snap_len(number()?),
            "--max-bytes" => file = file.max_file_bytes(number()? as u64),
            _ if path.is_none() => path = Some(arg),
            _ => port = arg.parse().map_err(|_| format!("{arg} is not a port number"))?,
        }
    }
    let path =
        path.ok_or("usage: capture [--threads N] [--snap-len N] [--max-bytes N] FILE [PORT]")?;

    let file = file.create(&path)?;
    let group = EventLoopGroup::builder(Auto).threads(threads).name("capture").build()?;
    let capture = Capture::stream(&file);
    let server = ServerBootstrap::new(&group, Tcp)
        .child_initialiser(move |edit| {
            edit.add_last("capture", capture.clone())?; // First: next to the socket.
            edit.add_last("echo", Echo)?;
            Ok(())
        })
        .bind(("127.0.0.1", port))
        .join()?;
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);

    let drain = DrainOptions::within(Duration::from_secs(1));
    Terminate::new()?.drain(&group, drain.shutdown(Duration::ZERO, Duration::from_secs(5))?);
    group.termination().join()?;
    let stats = file.close().join()?;
    println!(
        "{} packets in {path}, {} bytes; {} dropped",
        stats.packets, stats.bytes, stats.dropped
    );
    Ok(())
}
