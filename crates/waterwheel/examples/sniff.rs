//! Lines and Redis commands on one port, each with or without a PROXY header before it.
//!
//! ```sh
//! cargo run --release -p waterwheel --example sniff -- 7000
//! nc localhost 7000                                        # in another terminal: type a line
//! redis-cli -p 7000 ping
//! printf 'PROXY TCP4 203.0.113.7 192.0.2.1 51000 7000\r\nhello\n' | nc -q 1 localhost 7000
//! ```
//!
//! Shows a protocol detector: the first bytes of a connection choose its pipeline. After a PROXY header a second
//! detector chooses again.

use std::error::Error;
use std::time::Duration;

use waterwheel::channel::{
    Address, Ctx, Decode, Edit, EventLoopGroup, HandlerResult, In, InboundHandler, ServerBootstrap,
};
use waterwheel::codec::{
    LineDecoder, LineEncoder, ProxyServer, RespCommand, RespCommandDecoder, RespEncoder, RespValue,
};
use waterwheel::executor;
use waterwheel::handlers::{ProtocolDetector, ProtocolDetectorBuilder, StockProbe};
use waterwheel::net::{Auto, Tcp};

/// Answers lines with the peer's address.
struct Lines;

impl InboundHandler for Lines {
    type In = String;

    fn on_read(&mut self, ctx: &Ctx<'_>, line: String) -> HandlerResult {
        ctx.write_and_flush(format!("{} says {line}", peer(ctx)));
        Ok(())
    }
}

/// Answers Redis commands: PING, and PEER with the peer's address.
struct Commands;

impl InboundHandler for Commands {
    type In = RespCommand;

    fn on_read(&mut self, ctx: &Ctx<'_>, command: RespCommand) -> HandlerResult {
        ctx.write_and_flush(match () {
            () if command.is("PING") => RespValue::simple("PONG"),
            () if command.is("PEER") => RespValue::bulk(peer(ctx)),
            () => RespValue::error("ERR unknown command"),
        });
        Ok(())
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: executor::Error) -> HandlerResult {
        ctx.write_and_flush(RespValue::error(format!("ERR {error}")));
        ctx.close();
        Ok(())
    }
}

fn peer(ctx: &Ctx<'_>) -> String {
    ctx.channel().peer_address().map_or_else(|| String::from("-"), |peer| peer.to_string())
}

fn speak_lines(edit: &mut Edit<'_>) -> Result<(), executor::Error> {
    edit.add_codec("lines", LineDecoder::new(1024).text(), LineEncoder::new())?;
    edit.add_last("app", In(Lines))?;
    Ok(())
}

fn speak_resp(edit: &mut Edit<'_>) -> Result<(), executor::Error> {
    edit.add_codec("resp", Decode::new(RespCommandDecoder::default()), RespEncoder::default())?;
    edit.add_last("app", In(Commands))?;
    Ok(())
}

/// Returns a detector's protocols: RESP, and lines for everything else.
fn protocols() -> ProtocolDetectorBuilder {
    ProtocolDetector::builder()
        .protocol("resp", StockProbe::Resp, speak_resp)
        .otherwise(speak_lines)
        .max_bytes(1024)
        .timeout(Duration::from_secs(60))
}

fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "7000".into());
    let port: u16 = port.parse().map_err(|_| format!("{port} is not a port number"))?;
    let trusted =
        |proxy: Option<&Address>| proxy.and_then(Address::ip).is_some_and(|ip| ip.is_loopback());
    let behind_proxy = protocols().build()?;
    let detector = protocols()
        .protocol("proxy", StockProbe::Proxy, move |edit| {
            edit.add_last("proxy", ProxyServer::new(trusted))?;
            edit.add_last("detect behind proxy", behind_proxy.clone())?;
            Ok(())
        })
        .build()?;
    let group = EventLoopGroup::builder(Auto).name("sniff").build()?;
    let server = ServerBootstrap::new(&group, Tcp)
        .child_initialiser(move |edit| {
            edit.add_last("detect", detector.clone())?;
            Ok(())
        })
        .bind(("127.0.0.1", port))
        .join()?;
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    Ok(server.closed().join()?)
}
