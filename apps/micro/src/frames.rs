//! The cost of decoding frames of 64 bytes with a length field: hand-written in one handler, by the decoder in a static
//! chain, and by the decoder in a slot of its own.

use std::convert::Infallible;
use std::hint::black_box;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use waterwheel::channel::driver::TaskOnly;
use waterwheel::channel::{
    Ctx, Decode, Edit, Emit, EventLoopGroup, Events, Handler, HandlerResult, In, Inbound,
    InboundHandler, Msg, NewChannel, Stage,
};
use waterwheel::codec::LengthField;
use waterwheel::executor::{Clock, Error};

use crate::MicroResult;
use crate::hops::GeneratorTransport;

/// Frames per buffer.
const FRAMES: u64 = 32;

/// Payload bytes of a frame, without the length field.
const PAYLOAD: usize = 60;

/// Sends `frames` frames through a pipeline of this kind.
pub(crate) fn frames(kind: &str, frames: u64) -> MicroResult {
    let build: fn(&mut Edit<'_>) -> Result<(), Error> = match kind {
        "by-hand" => {
            |edit| edit.add_last("app", HandWrittenFrames::default()).map(drop).map_err(Error::from)
        }
        "chain" => |edit| {
            let decoder = LengthField::new(4).decoder().map_err(Error::new)?;
            let chain = Inbound(Decode::new(decoder).then(FrameLengthSum::default()));
            edit.add_last("app", chain).map(drop).map_err(Error::from)
        },
        "slot" => |edit| {
            let decoder = LengthField::new(4).decoder().map_err(Error::new)?;
            edit.add_last("frames", Decode::new(decoder))?;
            edit.add_last("count", In(FrameLengthSum::default()))?;
            Ok(())
        },
        _ => return Err("frames <by-hand|chain|slot> <frames>".into()),
    };
    let mut stream = BytesMut::new();
    for _ in 0..FRAMES {
        stream.put_u32(PAYLOAD as u32);
        stream.put_bytes(b'x', PAYLOAD);
    }
    let stream = stream.split().freeze();
    let mut event_loop = EventLoopGroup::builder(TaskOnly).build_manual()?;
    let took = event_loop.on_loop(|here| {
        let channel = here.register_with(NewChannel::new(GeneratorTransport::new(0)), build)?;
        let began = Clock::Monotonic.now();
        here.with_pipeline(&channel, |pipeline| {
            for _ in 0..frames / FRAMES {
                pipeline.fire_read(stream.clone());
            }
        });
        Ok::<_, Error>(Clock::Monotonic.now().since(began))
    });
    let took = took.ok_or("the loop is over")??;
    let nanos = took.as_nanos() as f64 / frames as f64;
    println!("{{\"kind\":\"{kind}\",\"frames\":{frames},\"ns_per_frame\":{nanos:.1}}}");
    Ok(())
}

/// Hand-written decoding in one handler, for length fields of four bytes and without options.
#[derive(Default)]
struct HandWrittenFrames {
    rest: BytesMut,
    count: FrameLengthSum,
}

impl Handler for HandWrittenFrames {
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
        while let Some(&length) = buf.first_chunk::<4>() {
            let length = u32::from_be_bytes(length) as usize;
            if length > 1 << 20 {
                return Err(Error::new("too long"));
            }
            if buf.len() < 4 + length {
                break;
            }
            buf.advance(4);
            self.count.add(&buf.split_to(length));
        }
        self.rest.extend_from_slice(&buf);
        Ok(())
    }
}

/// Adds up the lengths of the frames.
#[derive(Default)]
struct FrameLengthSum(usize);

impl FrameLengthSum {
    #[inline]
    fn add(&mut self, frame: &Bytes) {
        self.0 = black_box(self.0.wrapping_add(frame.len()));
    }
}

impl Stage for FrameLengthSum {
    type In = Bytes;
    type Out = Infallible;

    #[inline]
    fn on<O: Emit<Infallible>>(&mut self, frame: Bytes, _: &mut O) -> HandlerResult {
        self.add(&frame);
        Ok(())
    }
}

impl InboundHandler for FrameLengthSum {
    type In = Bytes;

    fn on_read(&mut self, _: &Ctx<'_>, frame: Bytes) -> HandlerResult {
        self.add(&frame);
        Ok(())
    }
}
