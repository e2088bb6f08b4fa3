//! A small Redis server: strings with expiry and counters, in RESP2 and RESP3.
//!
//! ```sh
//! cargo run --release -p waterwheel --example redis -- 7379
//! redis-cli -p 7379 set greeting hello EX 60                                   # in another terminal
//! redis-benchmark -p 7379 -t set,get,incr -P 16
//! ```
//!
//! Shows a decoder and a stage as a static chain in one slot, and an encoder before it. One loop serves all clients, as
//! in Redis, so that the lock on the store is never contended.

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Ctx, Decode, Emit, EventLoopGroup, HandlerResult, In, Inbound, InboundHandler, ServerBootstrap,
    Stage, Types,
};
use waterwheel::codec::{
    RespCommand, RespCommandDecoder, RespEncoder, RespError, RespLimits, RespValue, RespVersion,
};
use waterwheel::executor::{self, Nanos};
use waterwheel::net::{Auto, Tcp};

/// The keys, each with its text and the time at which it expires.
#[derive(Default)]
struct Store(HashMap<Bytes, (Bytes, Option<Nanos>)>);

impl Store {
    fn reply(&mut self, command: &RespCommand, now: Nanos) -> Result<RespValue, &'static str> {
        // Stored values are copies: an argument is a slice of the whole read buffer and would keep it alive.
        let copy = |at: usize| Bytes::copy_from_slice(&command[at]);
        Ok(match (command[0].to_ascii_uppercase().as_slice(), command.len()) {
            (b"PING", 1) => RespValue::simple("PONG"),
            (b"PING" | b"ECHO", 2) => RespValue::Bulk(copy(1)),
            (b"SET", 3) => self.set(copy(1), copy(2), None),
            (b"SET", 5) if command[3].eq_ignore_ascii_case(b"EX") => {
                let seconds = number(&command[4]).and_then(|number| u64::try_from(number).ok());
                let seconds = seconds.filter(|seconds| *seconds > 0);
                let time = Duration::from_secs(seconds.ok_or("ERR invalid expire time")?);
                self.set(copy(1), copy(2), Some(now.plus(time)))
            }
            (b"GET", 2) => match self.get(&command[1], now) {
                Some(text) => RespValue::Bulk(text.clone()),
                None => RespValue::Null,
            },
            (b"DEL", 2..) => {
                let live =
                    |key: &&[u8]| self.get(key, now).is_some() && self.0.remove(*key).is_some();
                RespValue::Integer(command.iter().skip(1).filter(live).count() as i64)
            }
            (b"INCR", 2) => {
                let old = self.get(&command[1], now).map_or(Some(0), |text| number(text));
                let new = old.and_then(|value| value.checked_add(1));
                let new = new.ok_or("ERR value is not an integer or out of range")?;
                match self.get(&command[1], now) {
                    Some(text) => *text = new.to_string().into(), // Keeps its expiry.
                    None => drop(self.set(copy(1), new.to_string().into(), None)),
                }
                RespValue::Integer(new)
            }
            // Clients send these first. There is no configuration and no command table.
            (b"CONFIG", 3) => RespValue::Map(vec![(RespValue::Bulk(copy(2)), RespValue::bulk(""))]),
            (b"COMMAND", _) => RespValue::Array(vec![]),
            _ => return Err("ERR unknown command or wrong number of arguments"),
        })
    }

    fn get(&mut self, key: &[u8], now: Nanos) -> Option<&mut Bytes> {
        if self.0.get(key)?.1.is_some_and(|until| until <= now) {
            self.0.remove(key);
        }
        self.0.get_mut(key).map(|(text, _)| text)
    }

    fn set(&mut self, key: Bytes, text: Bytes, until: Option<Nanos>) -> RespValue {
        self.0.insert(key, (text, until));
        RespValue::simple("OK")
    }
}

fn number(text: &[u8]) -> Option<i64> {
    str::from_utf8(text).ok()?.parse().ok()
}

/// Executes the commands of one client.
struct CommandStage(Arc<Mutex<Store>>);

impl Stage for CommandStage {
    type In = RespCommand;
    type Out = Infallible;

    fn on<O: Emit<Infallible>>(&mut self, command: RespCommand, out: &mut O) -> HandlerResult {
        let ctx = out.ctx();
        if command.is("HELLO") {
            let resp3 = command.get(1) == Some(b"3");
            ctx.write(if resp3 { RespVersion::Resp3 } else { RespVersion::Resp2 });
            let server = (RespValue::bulk("server"), RespValue::bulk("waterwheel"));
            ctx.write_and_flush(RespValue::Map(vec![server]));
            return Ok(());
        }
        let mut store = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = store.reply(&command, ctx.now());
        drop(store);
        ctx.write_and_flush(reply.unwrap_or_else(RespValue::error));
        Ok(())
    }

    fn answers(&self) -> Types {
        Types::of::<RespValue>()
    }
}

/// Answers a protocol error and closes the connection.
struct CloseOnError;

impl InboundHandler for CloseOnError {
    type In = Infallible;

    fn on_read(&mut self, _: &Ctx<'_>, never: Infallible) -> HandlerResult {
        match never {}
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: executor::Error) -> HandlerResult {
        if let Some(error) = error.find::<RespError>() {
            ctx.write_and_flush(RespValue::error(format!("ERR Protocol error: {error}")));
        }
        ctx.close();
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "7379".into());
    let port: u16 = port.parse().map_err(|_| format!("{port} is not a port number"))?;
    let group = EventLoopGroup::builder(Auto).threads(1).name("redis").build()?;
    let store = Arc::new(Mutex::new(Store::default()));
    let server = ServerBootstrap::new(&group, Tcp)
        .child_initialiser(move |edit| {
            let decoder = RespCommandDecoder::new(RespLimits::default());
            edit.add_last("resp", RespEncoder::default())?;
            edit.add_last(
                "client",
                Inbound(Decode::new(decoder).then(CommandStage(store.clone()))),
            )?;
            edit.add_last("errors", In(CloseOnError))?;
            Ok(())
        })
        .bind(("127.0.0.1", port))
        .join()?;
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    Ok(server.closed().join()?)
}
