//! The cost of splitting a stream into lines, parsing them and adding them up: hand-written in one handler, in a static
//! chain, and with one handler per step. The steps are the same; the difference is the cost of passing messages on.

use std::convert::Infallible;
use std::hint::black_box;

use bytes::{Buf, Bytes, BytesMut};
use waterwheel::channel::driver::TaskOnly;
use waterwheel::channel::{
    Ctx, Decode, Decoder, Edit, Emit, EventLoopGroup, Events, Handler, HandlerResult, In, Inbound,
    InboundHandler, Msg, NewChannel, Stage,
};
use waterwheel::executor::{Clock, Error};

use crate::MicroResult;
use crate::hops::GeneratorTransport;

/// Lines per buffer.
const LINES: u64 = 32;

/// Sends `lines` lines through a pipeline of this kind.
pub(crate) fn chains(kind: &str, lines: u64) -> MicroResult {
    let build: fn(&mut Edit<'_>) -> Result<(), Error> = match kind {
        "by-hand" => {
            |edit| edit.add_last("app", HandWrittenLines::default()).map(drop).map_err(Error::from)
        }
        "chain" => |edit| {
            let chain = Decode::new(Lines).then(Parse).then(Sum::default());
            edit.add_last("app", Inbound(chain)).map(drop).map_err(Error::from)
        },
        "slots" => |edit| {
            edit.add_last("lines", Decode::new(Lines))?;
            edit.add_last("parse", In(Parse))?;
            edit.add_last("sum", In(Sum::default()))?;
            Ok(())
        },
        _ => return Err("chain <by-hand|chain|slots> <lines>".into()),
    };
    let mut text = BytesMut::new();
    for number in 0..LINES {
        text.extend_from_slice(format!("{}\n", 1000 + number).as_bytes());
    }
    let text = text.split().freeze();
    let mut event_loop = EventLoopGroup::builder(TaskOnly).build_manual()?;
    let took = event_loop.on_loop(|here| {
        let channel = here.register_with(NewChannel::new(GeneratorTransport::new(0)), build)?;
        let began = Clock::Monotonic.now();
        here.with_pipeline(&channel, |pipeline| {
            for _ in 0..lines / LINES {
                pipeline.fire_read(text.clone());
            }
        });
        Ok::<_, Error>(Clock::Monotonic.now().since(began))
    });
    let took = took.ok_or("the loop is over")??;
    let nanos = took.as_nanos() as f64 / lines as f64;
    println!("{{\"kind\":\"{kind}\",\"lines\":{lines},\"ns_per_line\":{nanos:.1}}}");
    Ok(())
}

#[inline]
fn next_line(buf: &mut Bytes) -> Option<Bytes> {
    let at = buf.iter().position(|byte| *byte == b'\n')?;
    let line = buf.split_to(at);
    buf.advance(1);
    Some(line)
}

#[inline]
fn parse(line: &[u8]) -> Result<u32, Error> {
    line.iter().try_fold(0u32, |number, byte| match byte {
        b'0'..=b'9' => Ok(number.wrapping_mul(10).wrapping_add(u32::from(byte - b'0'))),
        _ => Err(Error::new("not a digit")),
    })
}

/// All steps hand-written in one handler.
#[derive(Default)]
struct HandWrittenLines {
    rest: BytesMut,
    sum: u32,
}

impl Handler for HandWrittenLines {
    fn interest(&self) -> Events {
        Events::READ
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let mut buf = match msg.into_bytes() {
            Ok(buf) if self.rest.is_empty() => buf,
            Ok(buf) => {
                self.rest.extend_from_slice(&buf);
                self.rest.split().freeze()
            }
            Err(other) => {
                ctx.fire_read(other);
                return Ok(());
            }
        };
        while let Some(line) = next_line(&mut buf) {
            match parse(&line) {
                Ok(number) => self.sum = black_box(self.sum.wrapping_add(number)),
                Err(error) => ctx.fire_error(error),
            }
        }
        self.rest.extend_from_slice(&buf);
        Ok(())
    }
}

struct Lines;

impl Decoder for Lines {
    type Out = Bytes;

    #[inline]
    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
        Ok(next_line(buf))
    }
}

struct Parse;

impl Stage for Parse {
    type In = Bytes;
    type Out = u32;

    #[inline]
    fn on<O: Emit<u32>>(&mut self, line: Bytes, out: &mut O) -> HandlerResult {
        out.emit(parse(&line)?)
    }
}

impl InboundHandler for Parse {
    type In = Bytes;

    fn on_read(&mut self, ctx: &Ctx<'_>, line: Bytes) -> HandlerResult {
        ctx.fire_read(parse(&line)?);
        Ok(())
    }
}

#[derive(Default)]
struct Sum(u32);

impl Stage for Sum {
    type In = u32;
    type Out = Infallible;

    #[inline]
    fn on<O: Emit<Infallible>>(&mut self, number: u32, _: &mut O) -> HandlerResult {
        self.0 = black_box(self.0.wrapping_add(number));
        Ok(())
    }
}

impl InboundHandler for Sum {
    type In = u32;

    fn on_read(&mut self, _: &Ctx<'_>, number: u32) -> HandlerResult {
        self.0 = black_box(self.0.wrapping_add(number));
        Ok(())
    }
}
