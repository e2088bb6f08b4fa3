//! Shared helpers of the codec tests: decoding a stream in pieces, and collecting an encoder's output.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use waterwheel_channel::{
    Ctx, Decode, Decoder, Handler, HandlerResult, In, InboundHandler, Message, Msg,
};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

/// A decoded message, or the text of an error.
pub(crate) type Outcome<T> = Result<T, String>;

/// Records the messages and errors of a decoder.
pub(crate) struct Record<T>(Rc<RefCell<Vec<Outcome<T>>>>);

impl<T> Clone for Record<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Record<T> {
    fn default() -> Self {
        Self(Rc::default())
    }
}

impl<T> Record<T> {
    pub(crate) fn take(&self) -> Vec<Outcome<T>> {
        self.0.take()
    }
}

impl<T: Message> InboundHandler for Record<T> {
    type In = T;

    fn on_read(&mut self, _: &Ctx<'_>, msg: T) -> HandlerResult {
        self.0.borrow_mut().push(Ok(msg));
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        self.0.borrow_mut().push(Err(error.to_string()));
        Ok(())
    }
}

/// Generates the positions at which a stream is split.
pub(crate) fn cuts() -> impl Strategy<Value = Vec<Index>> {
    vec(any::<Index>(), 0..20)
}

/// Splits the stream into pieces: slices of one block, or each with a buffer of its own.
pub(crate) fn pieces(stream: &[u8], cuts: &[Index], own_buffers: bool) -> Vec<Bytes> {
    let block = Bytes::copy_from_slice(stream);
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    cuts.extend([0, stream.len()]);
    cuts.sort_unstable();
    let piece = |ends: &[usize]| {
        let piece = block.slice(ends[0]..ends[1]);
        if own_buffers { Bytes::copy_from_slice(&piece) } else { piece }
    };
    cuts.windows(2).map(piece).filter(|piece| !piece.is_empty()).collect()
}

/// Returns all incomplete prefixes of a message, each a byte longer than the one before. Bytes that a decoder has seen
/// are overwritten with line ends, except for the first ones, where lengths are: a decoder that scans them again fails.
pub(crate) fn growing_prefixes(message: &[u8]) -> impl Iterator<Item = Bytes> {
    const FIRST: usize = 48;
    const NEW: usize = 16;
    (1..message.len()).map(|length| {
        let mut seen = message[..length].to_vec();
        let old = FIRST.min(length)..length.saturating_sub(NEW).max(FIRST.min(length));
        seen[old].fill(b'\n');
        seen.into()
    })
}

/// Feeds these pieces and the end of the stream to a decoder in a pipeline, and returns its messages and errors.
pub(crate) fn decode<D: Decoder>(
    decoder: D,
    pieces: impl IntoIterator<Item = Bytes>,
) -> Vec<Outcome<D::Out>> {
    let record = Record::default();
    let mut channel = Embedded::builder()
        .stream()
        .build(|edit| {
            edit.add_last("decoder", Decode::new(decoder))?;
            edit.add_last("record", In(record.clone()))?;
            Ok(())
        })
        .unwrap();
    for piece in pieces {
        channel.write_inbound(piece);
    }
    channel.finish_inbound();
    record.take()
}

/// Returns an embedded channel with one handler, to write to.
pub(crate) fn writer(encoder: impl Handler) -> Embedded {
    let build = Embedded::builder().stream();
    build.build(|edit| Ok(edit.add_last("encoder", encoder).map(drop)?)).unwrap()
}

/// Writes a message and returns the write's result.
pub(crate) fn write(channel: &mut Embedded, msg: impl Into<Msg>) -> Result<(), String> {
    channel.write_outbound(msg).join().map_err(|error| error.to_string())
}

/// Returns the parts that were written.
pub(crate) fn parts(channel: &mut Embedded) -> Vec<Bytes> {
    std::iter::from_fn(|| channel.read_outbound()).collect()
}
