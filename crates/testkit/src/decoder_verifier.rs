//! Verifies that a decoder returns the same messages however its input is split (O04).
//!
//! A network splits a stream anywhere. So the same bytes are fed to new decoders, each in its own pipeline: all at
//! once, message by message, byte by byte, and in two pieces split at every position; each time followed by the end of
//! the stream. The output has to be the same every time.
//!
//! ```
//! use bytes::{Buf, Bytes};
//! use waterwheel_channel::Decoder;
//! use waterwheel_executor::Error;
//! use waterwheel_testkit::decoder_verifier::DecoderVerifier;
//!
//! struct Short;
//!
//! impl Decoder for Short {
//!     type Out = Bytes;
//!
//!     fn decode(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
//!         let Some(&len) = buf.first() else { return Ok(None) };
//!         if buf.len() <= usize::from(len) {
//!             return Ok(None);
//!         }
//!         buf.advance(1);
//!         Ok(Some(buf.split_to(len.into())))
//!     }
//! }
//!
//! DecoderVerifier::new(|| Short)
//!     .gives(b"\x05hello", ["hello".into()])
//!     .gives(b"\0\x01!", ["".into(), "!".into()])
//!     .gives(b"\x0funfinished", [])
//!     .verify();
//! ```

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::{Ctx, Decode, Decoder, HandlerResult, In, InboundHandler};
use waterwheel_executor::Error;

use crate::embedded::Embedded;

/// The maximum number of split positions. In a longer stream the positions are spread evenly.
const MAX_CUTS: usize = 1024;

/// Feeds the same bytes to decoders in many ways. See the [module's documentation](self).
#[must_use = "nothing is verified before `verify` or `check`"]
pub struct DecoderVerifier<D: Decoder> {
    make: Box<dyn Fn() -> D>,
    steps: Vec<VerifierStep<D::Out>>,
    at_end: Vec<DecodeOutcome<D::Out>>,
}

/// A message, or the text of an error.
type DecodeOutcome<T> = Result<T, String>;

struct VerifierStep<T> {
    input: Vec<u8>,
    expected: Vec<DecodeOutcome<T>>,
}

/// The error of a decoder that returned other messages than expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongMessages {
    /// How the input was split and fed to the decoder.
    pub fed: String,
    /// The number of matching outcomes before the first mismatch.
    pub matched: usize,
    /// The expected outcome.
    pub expected: String,
    /// The actual outcome.
    pub found: String,
}

impl fmt::Display for WrongMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fed, matched, expected, found } = self;
        write!(
            f,
            "fed {fed}: after {matched} matching outcomes, expected {expected}, found {found}"
        )
    }
}

impl std::error::Error for WrongMessages {}

impl<D: Decoder<Out: fmt::Debug + PartialEq>> DecoderVerifier<D> {
    /// Creates a verifier for decoders created by `make`.
    pub fn new(make: impl Fn() -> D + 'static) -> Self {
        Self { make: Box::new(make), steps: Vec::new(), at_end: Vec::new() }
    }

    /// Adds input, and the messages that the decoder must return for it: when the input is complete at the latest, and
    /// not before the earlier input is complete.
    pub fn gives(
        mut self,
        input: impl AsRef<[u8]>,
        messages: impl IntoIterator<Item = D::Out>,
    ) -> Self {
        let expected = messages.into_iter().map(Ok).collect();
        self.steps.push(VerifierStep { input: input.as_ref().to_vec(), expected });
        self
    }

    /// Adds input that makes the decoder fail with this error text, at the last byte of the input at the latest.
    pub fn fails(mut self, input: impl AsRef<[u8]>, error: impl fmt::Display) -> Self {
        let expected = vec![Err(error.to_string())];
        self.steps.push(VerifierStep { input: input.as_ref().to_vec(), expected });
        self
    }

    /// Expects these messages at the end of the stream.
    pub fn gives_at_end(mut self, messages: impl IntoIterator<Item = D::Out>) -> Self {
        self.at_end.extend(messages.into_iter().map(Ok));
        self
    }

    /// Expects an error with this text at the end of the stream.
    pub fn fails_at_end(mut self, error: impl fmt::Display) -> Self {
        self.at_end.push(Err(error.to_string()));
        self
    }

    /// Feeds the input to new decoders, split in every way, and checks their messages.
    ///
    /// # Panics
    /// If the decoder returns other messages than expected: the panic message shows how the input was split, and the
    /// first outcome that differs.
    #[track_caller]
    pub fn verify(&self) {
        if let Err(wrong) = self.check() {
            panic!("{wrong}");
        }
    }

    /// Feeds the input to new decoders, split in every way, and checks their messages.
    ///
    /// # Errors
    /// The decoder returned other messages than expected.
    pub fn check(&self) -> Result<(), WrongMessages> {
        let all =
            Bytes::from(self.steps.iter().flat_map(|step| step.input.clone()).collect::<Vec<_>>());
        self.check_steps(&all)?;
        self.check_pieces("all at once", [all.clone()])?;
        let bytes = || (0..all.len()).map(|at| all.slice(at..=at));
        self.check_pieces("byte by byte", bytes())?;
        // Pieces that share one buffer and pieces with buffers of their own are accumulated differently.
        let own = |piece: Bytes| Bytes::copy_from_slice(&piece);
        self.check_pieces("all at once, in a buffer of its own", [own(all.clone())])?;
        self.check_pieces("byte by byte, in buffers of their own", bytes().map(own))?;
        for cut in (1..all.len()).step_by(all.len().div_ceil(MAX_CUTS).max(1)) {
            let (before, after) = (all.slice(..cut), all.slice(cut..));
            let fed = format!("in two pieces, cut after byte {cut}: {before:?}, {after:?}");
            self.check_pieces(&fed, [before, after])?;
        }
        Ok(())
    }

    /// Checks message by message: each must be returned when its bytes are complete, not only after later bytes.
    fn check_steps(&self, all: &Bytes) -> Result<(), WrongMessages> {
        let mut feed = DecoderFeed::new((self.make)());
        let mut at = 0;
        for (number, step) in self.steps.iter().enumerate() {
            let piece = all.slice(at..at + step.input.len());
            at += piece.len();
            let fed = format!("message by message, up to step {}, {piece:?}", number + 1);
            feed.channel.write_inbound(piece);
            compare(&fed, step.expected.iter(), &feed.take())?;
        }
        compare("message by message, to the end", self.at_end.iter(), &feed.end())
    }

    fn check_pieces(
        &self,
        fed: &str,
        pieces: impl IntoIterator<Item = Bytes>,
    ) -> Result<(), WrongMessages> {
        let mut feed = DecoderFeed::new((self.make)());
        for piece in pieces {
            feed.channel.write_inbound(piece);
        }
        let expected = self.steps.iter().flat_map(|step| &step.expected).chain(&self.at_end);
        compare(fed, expected, &feed.end())
    }
}

impl<D: Decoder> fmt::Debug for DecoderVerifier<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs = self.steps.iter().map(|step| Bytes::copy_from_slice(&step.input));
        f.debug_tuple("DecoderVerifier").field(&inputs.collect::<Vec<_>>()).finish()
    }
}

fn compare<'a, T: fmt::Debug + PartialEq + 'a>(
    fed: &str,
    expected: impl Iterator<Item = &'a DecodeOutcome<T>>,
    found: &[DecodeOutcome<T>],
) -> Result<(), WrongMessages> {
    let mut found = found.iter();
    let mut matched = 0;
    let wrong = |matched, expected: Option<&DecodeOutcome<T>>, found: Option<&DecodeOutcome<T>>| {
        let describe = |outcome: Option<&DecodeOutcome<T>>| match outcome {
            Some(Ok(message)) => format!("{message:?}"),
            Some(Err(error)) => format!("the error \"{error}\""),
            None => String::from("nothing"),
        };
        Err(WrongMessages {
            fed: fed.to_owned(),
            matched,
            expected: describe(expected),
            found: describe(found),
        })
    };
    for expected in expected {
        let found = found.next();
        if Some(expected) != found {
            return wrong(matched, Some(expected), found);
        }
        matched += 1;
    }
    match found.next() {
        Some(more) => wrong(matched, None, Some(more)),
        None => Ok(()),
    }
}

/// A decoder in a pipeline, and its outcomes.
struct DecoderFeed<T> {
    channel: Embedded,
    outcomes: Rc<RefCell<Vec<DecodeOutcome<T>>>>,
}

impl<T: waterwheel_channel::Message> DecoderFeed<T> {
    fn new(decoder: impl Decoder<Out = T>) -> Self {
        let outcomes = Rc::new(RefCell::new(Vec::new()));
        let record = OutcomeRecorder(outcomes.clone());
        let channel = Embedded::builder().stream().build(|edit| {
            edit.add_last("decoder", Decode::new(decoder))?;
            edit.add_last("record", In(record))?;
            Ok(())
        });
        match channel {
            Ok(channel) => Self { channel, outcomes },
            Err(error) => panic!("a pipeline with nothing but a decoder: {error}"),
        }
    }

    fn take(&self) -> Vec<DecodeOutcome<T>> {
        self.outcomes.take()
    }

    fn end(mut self) -> Vec<DecodeOutcome<T>> {
        self.channel.finish_inbound();
        self.take()
    }
}

struct OutcomeRecorder<T>(Rc<RefCell<Vec<DecodeOutcome<T>>>>);

impl<T: waterwheel_channel::Message> InboundHandler for OutcomeRecorder<T> {
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
