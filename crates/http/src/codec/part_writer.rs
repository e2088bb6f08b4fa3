//! The bytes of one write to a codec.

use std::cell::{Cell, RefCell};

use bytes::{Bytes, BytesMut};
use waterwheel_channel::{Completion, Ctx};
use waterwheel_executor::LoopLocal;

use crate::outbound::output::Output;
use crate::outbound::standing_fields::StandingFields;
use crate::protocol::encoder::ServerFields;

/// The state that all codecs of a loop share: room for small parts, and the date.
struct CodecLoopState {
    buffer: Cell<BytesMut>,
    fields: RefCell<StandingFields>,
}

static PARTS: LoopLocal<CodecLoopState> = LoopLocal::new(CodecLoopState::new);

impl CodecLoopState {
    fn new() -> Self {
        Self { buffer: Cell::default(), fields: RefCell::new(StandingFields::new(None)) }
    }
}

/// Calls `f` with an output, and writes what it put there. Parts of a message must not be missing, so if one is refused
/// the channel is closed.
pub(super) fn write_parts<R>(ctx: &Ctx<'_>, f: impl FnOnce(&mut Output<'_>) -> R) -> R {
    let buffer = PARTS.with(|parts| parts.buffer.take()).unwrap_or_default();
    let mut out = Output::new(ctx, buffer);
    let result = f(&mut out);
    let (buffer, _) = out.finish();
    PARTS.with(|parts| parts.buffer.set(buffer));
    result
}

/// Calls `f` with the fields that a server adds to its answers.
pub(super) fn with_server_fields(ctx: &Ctx<'_>, f: impl FnOnce(ServerFields<'_>)) {
    let now = ctx.now();
    let mut f = Some(f);
    PARTS.with(|parts| f.take().map(|f| f(parts.fields.borrow_mut().at(now))));
    // A pooled loop keeps nothing.
    if let Some(f) = f {
        f(StandingFields::new(None).at(now));
    }
}

/// Has the completion of a write called after all that was written: the parts themselves cannot be taken back, because
/// what follows would be read as something else.
pub(super) fn complete_after_parts(ctx: &Ctx<'_>, done: &mut Completion) {
    if !done.is_none() {
        ctx.write_with(Bytes::new(), done.take());
    }
}
