//! The cost of small RESP replies to 16 pipelined commands: decoding alone, answered with bytes of their own, answered by
//! a RESP encoder in a slot, and answered in the stage itself.

use std::convert::Infallible;
use std::hint::black_box;

use bytes::Bytes;
use waterwheel::channel::driver::TaskOnly;
use waterwheel::channel::{
    Completion, Decode, Edit, Emit, EventLoopGroup, HandlerResult, Inbound, NewChannel, Stage,
};
use waterwheel::codec::{
    RespCommand, RespCommandDecoder, RespEncoder, RespLimits, RespValue, RespVersion,
};
use waterwheel::executor::{Clock, Error};

use crate::MicroResult;
use crate::hops::GeneratorTransport;

/// Commands per read.
const PIPELINED: u64 = 16;

/// Answers `replies` commands in a pipeline of this kind.
pub(crate) fn replies(kind: &str, replies: u64) -> MicroResult {
    let answer = match kind {
        "none" => AnswerKind::None,
        "parts" => AnswerKind::Parts,
        "slot" => AnswerKind::Message,
        "stage" => AnswerKind::Joined,
        _ => return Err("replies <none|parts|slot|stage> <replies>".into()),
    };
    let build = |edit: &mut Edit<'_>| {
        let decoder = RespCommandDecoder::new(RespLimits::default());
        if matches!(answer, AnswerKind::Message) {
            edit.add_last("resp", RespEncoder::default())?;
        }
        edit.add_last("app", Inbound(Decode::new(decoder).then(AnswerStage(answer))))?;
        Ok::<_, Error>(())
    };
    let commands = RespCommand::new(&["INCR", "counter"]).wire().repeat(PIPELINED as usize);
    let commands = Bytes::from(commands);
    let mut event_loop = EventLoopGroup::builder(TaskOnly).build_manual()?;
    let took = event_loop.on_loop(|here| {
        let channel = here.register_with(NewChannel::new(GeneratorTransport::new(0)), build)?;
        let began = Clock::Monotonic.now();
        for _ in 0..replies / PIPELINED {
            here.with_pipeline(&channel, |pipeline| pipeline.fire_read(commands.clone()));
        }
        Ok::<_, Error>(Clock::Monotonic.now().since(began))
    });
    let took = took.ok_or("the loop is over")??;
    let nanos = took.as_nanos() as f64 / replies as f64;
    println!("{{\"kind\":\"{kind}\",\"replies\":{replies},\"ns_per_reply\":{nanos:.1}}}");
    Ok(())
}

#[derive(Clone, Copy)]
enum AnswerKind {
    None,
    Parts,
    Message,
    Joined,
}

struct AnswerStage(AnswerKind);

impl Stage for AnswerStage {
    type In = RespCommand;
    type Out = Infallible;

    #[inline]
    fn on<O: Emit<Infallible>>(&mut self, command: RespCommand, out: &mut O) -> HandlerResult {
        let ctx = out.ctx();
        let reply = RespValue::Integer(black_box(&command).len() as i64);
        match self.0 {
            AnswerKind::None => return Ok(()),
            AnswerKind::Parts => ctx.write(Bytes::from_static(b":2\r\n")),
            AnswerKind::Message => ctx.write(reply),
            AnswerKind::Joined => {
                reply.write(&ctx, RespVersion::Resp2, &mut Completion::none())?;
            }
        }
        ctx.flush();
        Ok(())
    }
}
