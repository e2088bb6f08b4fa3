//! A body that is encoded while it is sent.

use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use waterwheel_channel::FileRegion;
use waterwheel_executor::Error;

use super::encoder::{ContentEncoder, ENCODE_STEP};
use super::encoder_options::ContentEncodeError;
use super::step_budget::StepBudget;
use crate::body::outgoing::{Body, BodyRepr};
use crate::body::source::{BodyChunk, BodySource};

/// Bodies in memory up to this size are encoded at once and have a Content-Length: the work of one turn of a streamed
/// body.
const AT_ONCE: usize = 4 * ENCODE_STEP;

/// Encoded bytes that are collected before they are handed on, unless the source pauses: fewer and larger chunks.
const CHUNK: usize = 8 * 1024;

/// Encodes a body.
///
/// A source that has nothing more for now is flushed, so that an event of a stream leaves at once.
pub(super) fn encode_body(
    mut encoder: ContentEncoder,
    body: Body,
) -> Result<Body, ContentEncodeError> {
    let content_type = body.content_type();
    let (source, input) = match body.into_repr() {
        BodyRepr::Bytes(bytes) if bytes.len() <= AT_ONCE => {
            let (mut rest, mut out) = (&bytes[..], BytesMut::new());
            while !rest.is_empty() {
                encoder.encode(&mut rest, &mut out)?;
            }
            encoder.finish(&mut out)?;
            return Ok(with_type(Body::from(out.freeze()), content_type));
        }
        BodyRepr::Bytes(bytes) => (None, EncoderInput::Bytes(bytes)),
        BodyRepr::File(region) => (None, EncoderInput::File(region)),
        BodyRepr::Source(source) => (Some(source), EncoderInput::Bytes(Bytes::new())),
        // Not chosen by the rules: their length is 0.
        BodyRepr::Empty | BodyRepr::Upgrade(_) => (None, EncoderInput::Bytes(Bytes::new())),
    };
    let body = EncodedBody {
        source,
        input,
        encoder: Some(encoder),
        out: BytesMut::new(),
        must_flush: false,
        budget: StepBudget::new(),
    };
    Ok(with_type(Body::from_source(body), content_type))
}

fn with_type(body: Body, content_type: Option<&'static str>) -> Body {
    match content_type {
        Some(content_type) => body.with_content_type(content_type),
        None => body,
    }
}

/// A source of encoded bytes. The length is not known, so the message is sent in chunks.
struct EncodedBody {
    /// Brings more input, if the body is not all in `input`.
    source: Option<Box<dyn BodySource>>,
    input: EncoderInput,
    /// `None` after the end.
    encoder: Option<ContentEncoder>,
    out: BytesMut,
    /// Bytes were taken in since the last flush.
    must_flush: bool,
    budget: StepBudget,
}

/// Bytes that are not encoded yet.
enum EncoderInput {
    Bytes(Bytes),
    /// Read in steps, on the loop's thread, as with TLS.
    File(FileRegion),
}

impl EncoderInput {
    fn is_empty(&self) -> bool {
        match self {
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::File(region) => region.is_empty(),
        }
    }

    /// Encodes one step.
    fn step(&mut self, encoder: &mut ContentEncoder, out: &mut BytesMut) -> Result<(), Error> {
        match self {
            Self::Bytes(bytes) => {
                let mut rest = &bytes[..];
                encoder.encode(&mut rest, out).map_err(Error::new)?;
                let taken = bytes.len() - rest.len();
                bytes.advance(taken);
            }
            Self::File(region) => {
                let piece = region.read(ENCODE_STEP)?;
                region.advance(piece.len());
                let mut rest = &piece[..];
                while !rest.is_empty() {
                    encoder.encode(&mut rest, out).map_err(Error::new)?;
                }
            }
        }
        Ok(())
    }
}

impl EncodedBody {
    /// Returns what is encoded so far as a chunk.
    fn take(&mut self) -> Option<Result<BodyChunk, Error>> {
        Some(Ok(BodyChunk::Bytes(self.out.split().freeze())))
    }

    /// Takes the next chunk of the source; `None` at the end.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<EncoderInput, Error>>> {
        let Some(source) = &mut self.source else { return Poll::Ready(None) };
        source.poll_chunk(cx).map(|next| {
            let input = |chunk| match chunk {
                BodyChunk::Bytes(bytes) => EncoderInput::Bytes(bytes),
                BodyChunk::File(region) => EncoderInput::File(region),
            };
            next.map(|chunk| chunk.map(input))
        })
    }

    fn poll_encoded(
        &mut self,
        cx: &mut Context<'_>,
        mut encoder: ContentEncoder,
    ) -> Poll<Option<Result<BodyChunk, Error>>> {
        loop {
            if self.out.len() >= CHUNK {
                self.encoder = Some(encoder);
                return Poll::Ready(self.take());
            }
            if !self.input.is_empty() {
                // Before the pause goes out what is there.
                if self.budget.is_spent() && !self.out.is_empty() {
                    self.encoder = Some(encoder);
                    return Poll::Ready(self.take());
                }
                if self.budget.poll_step(cx).is_pending() {
                    self.encoder = Some(encoder);
                    return Poll::Pending;
                }
                self.must_flush = true;
                if let Err(error) = self.input.step(&mut encoder, &mut self.out) {
                    return Poll::Ready(Some(Err(error)));
                }
                continue;
            }
            match self.poll_input(cx) {
                Poll::Ready(Some(Ok(input))) => self.input = input,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => {
                    let finished = encoder.finish(&mut self.out).map_err(Error::new);
                    return Poll::Ready(match finished {
                        Ok(()) => self.take(),
                        Err(error) => Some(Err(error)),
                    });
                }
                Poll::Pending => {
                    self.budget.refill();
                    if std::mem::take(&mut self.must_flush)
                        && let Err(error) = encoder.flush(&mut self.out)
                    {
                        return Poll::Ready(Some(Err(Error::new(error))));
                    }
                    self.encoder = Some(encoder);
                    let is_empty = self.out.is_empty();
                    return if is_empty { Poll::Pending } else { Poll::Ready(self.take()) };
                }
            }
        }
    }
}

impl BodySource for EncodedBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<BodyChunk, Error>>> {
        // Not put back at the end and after an error.
        match self.encoder.take() {
            Some(encoder) => self.poll_encoded(cx, encoder),
            None => Poll::Ready(None),
        }
    }

    fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.source.as_mut().and_then(|source| source.take_trailers())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::VecDeque;
    use std::fs::File;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use super::super::compression::{Compression, CompressionFacts};
    use super::super::decoder::{ContentDecoder, DecodeStatus};
    use super::super::encoder_options::EncoderOptions;
    use super::super::limits::DecodeLimits;
    use super::*;
    use crate::body::source::poll_source;
    use crate::content::content_coding::ContentCoding;
    use crate::service::into_response::IntoResponse;

    /// Counts how often a body asks to be polled again.
    #[derive(Default)]
    struct WakeCount(AtomicUsize);

    impl Wake for WakeCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Plays back what a source returns.
    #[derive(Default)]
    struct Script {
        polls: VecDeque<Poll<Option<Result<BodyChunk, Error>>>>,
        trailers: Option<HeaderMap>,
    }

    impl BodySource for Script {
        fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<BodyChunk, Error>>> {
            self.polls.pop_front().unwrap_or(Poll::Ready(None))
        }

        fn take_trailers(&mut self) -> Option<HeaderMap> {
            self.trailers.take()
        }
    }

    fn ready(text: &'static str) -> Poll<Option<Result<BodyChunk, Error>>> {
        Poll::Ready(Some(Ok(Bytes::from_static(text.as_bytes()).into())))
    }

    fn encoded(body: Body) -> Body {
        let options = EncoderOptions::default();
        let encoder = ContentEncoder::new(ContentCoding::Gzip, &options, body.exact_len()).unwrap();
        encode_body(encoder, body).unwrap()
    }

    fn source(body: Body) -> Box<dyn BodySource> {
        match encoded(body).into_repr() {
            BodyRepr::Source(source) => source,
            _ => panic!("the body is streamed"),
        }
    }

    fn poll(source: &mut dyn BodySource) -> Poll<Option<Result<Bytes, Error>>> {
        source.poll_chunk(&mut Context::from_waker(Waker::noop())).map(|next| {
            next.map(|chunk| {
                chunk.map(|chunk| match chunk {
                    BodyChunk::Bytes(bytes) => bytes,
                    BodyChunk::File(_) => panic!("an encoded body has no files"),
                })
            })
        })
    }

    /// Polls to the end; returns the bytes.
    fn drain(source: &mut dyn BodySource) -> BytesMut {
        let mut all = BytesMut::new();
        loop {
            match poll(source) {
                Poll::Ready(Some(chunk)) => all.extend_from_slice(&chunk.unwrap()),
                Poll::Ready(None) => return all,
                Poll::Pending => {} // Has asked to be polled again: no source here waits.
            }
        }
    }

    fn decode(decoder: &mut ContentDecoder, mut bytes: &[u8]) -> BytesMut {
        let mut out = BytesMut::new();
        while decoder.decode(&mut bytes, &mut out).unwrap() == DecodeStatus::HasMore {}
        out
    }

    fn decoder() -> ContentDecoder {
        let limits = DecodeLimits { ratio: 10_000, ..DecodeLimits::default() };
        ContentDecoder::new(&[ContentCoding::Gzip], limits).unwrap()
    }

    /// Text that compresses to about a fifth.
    fn text(len: usize) -> Bytes {
        let mut text = String::new();
        let mut number = 1_u32;
        while text.len() < len {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            text.push_str(&format!("line {} of a text\n", number >> 8));
        }
        text.truncate(len);
        text.into()
    }

    #[test]
    fn h09_a_small_body_in_memory_is_encoded_at_once_and_keeps_a_length() {
        for len in [1, AT_ONCE] {
            let body = encoded(Body::from(text(len)));
            let length = body.exact_len().unwrap();
            let BodyRepr::Bytes(bytes) = body.into_repr() else { panic!("{len}: not in memory") };
            assert_eq!(bytes.len() as u64, length);
            assert_eq!(decode(&mut decoder(), &bytes), text(len));
        }
    }

    #[test]
    fn h09_a_large_body_is_encoded_in_turns_of_64_kib() {
        let body = text(10 * AT_ONCE);
        let taken = Rc::new(Cell::new(0));
        let (mut rest, counted) = (body.clone(), taken.clone());
        // Always ready, in chunks of one step.
        let chunks = poll_source(move |_| {
            counted.set(counted.get() + 1);
            let chunk = rest.split_to(rest.len().min(ENCODE_STEP));
            Poll::Ready((!chunk.is_empty()).then_some(Ok(chunk)))
        });
        let mut source = source(Body::from_source(chunks));
        assert_eq!(source.exact_len(), None);
        let count = Arc::new(WakeCount::default());
        let waker = Waker::from(count.clone());
        let (mut decoder, mut decoded, mut turns) = (decoder(), BytesMut::new(), 0);
        loop {
            match source.poll_chunk(&mut Context::from_waker(&waker)) {
                Poll::Ready(Some(Ok(BodyChunk::Bytes(chunk)))) => {
                    decoded.unsplit(decode(&mut decoder, &chunk));
                }
                Poll::Ready(None) => break,
                Poll::Pending => {
                    turns += 1;
                    assert_eq!(count.0.load(Ordering::Relaxed), turns, "asks for another turn");
                    // The last chunk waits for that turn.
                    assert_eq!(taken.get(), 4 * turns + 1);
                }
                other => panic!("{other:?}"),
            }
        }
        decoder.finish().unwrap();
        assert_eq!(decoded, body);
        assert_eq!(turns, 9);
    }

    #[test]
    fn h09_a_file_is_encoded_as_it_is_read() {
        let file =
            Arc::new(File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/src/lib.rs")).unwrap());
        let region = FileRegion::new(file, 5..).unwrap();
        let expected = region.read(usize::MAX).unwrap();
        let mut source = source(Body::file(region));
        assert_eq!(decode(&mut decoder(), &drain(&mut *source)), expected);
    }

    #[test]
    fn h09_an_event_leaves_at_once_when_its_source_waits() {
        let script = Script {
            polls: [ready("one\n"), ready("two\n"), Poll::Pending, Poll::Pending, ready("three\n")]
                .into_iter()
                .chain([Poll::Pending])
                .collect(),
            trailers: None,
        };
        let (mut source, mut decoder) = (source(Body::from_source(script)), decoder());
        for expected in ["one\ntwo\n", "", "three\n"] {
            let bytes = match poll(&mut *source) {
                Poll::Ready(Some(chunk)) => chunk.unwrap(),
                Poll::Pending => Bytes::new(),
                Poll::Ready(None) => panic!("the end"),
            };
            assert_eq!(decode(&mut decoder, &bytes), expected);
        }
        assert_eq!(decode(&mut decoder, &drain(&mut *source)), "");
        decoder.finish().unwrap();
    }

    #[test]
    fn h09_the_error_of_a_source_ends_the_body() {
        let broken = || Poll::Ready(Some(Err(Error::new("the disk is gone"))));
        let polls = [ready("one"), broken()].into_iter().collect();
        let mut source = source(Body::from_source(Script { polls, trailers: None }));
        match poll(&mut *source) {
            Poll::Ready(Some(Err(error))) => assert_eq!(error.to_string(), "the disk is gone"),
            other => panic!("{other:?}"),
        }
        assert!(matches!(poll(&mut *source), Poll::Ready(None)));
    }

    #[test]
    fn h09_trailers_pass_an_encoded_body() {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "1".parse().unwrap());
        let script = Script { polls: [ready("text")].into(), trailers: Some(trailers) };
        let mut source = source(Body::from_source(script));
        drain(&mut *source);
        assert_eq!(source.take_trailers().unwrap()["x-sum"], "1");
    }

    fn facts(method: http::Method) -> CompressionFacts {
        let mut headers = HeaderMap::new();
        headers.insert("accept-encoding", "gzip".parse().unwrap());
        CompressionFacts::of(&method, &headers)
    }

    #[test]
    fn h09_a_response_is_compressed_by_the_type_of_its_body() {
        let compression = Compression::default();
        let text = String::from_utf8(text(5000).into()).unwrap();
        let response = compression.apply(&facts(http::Method::GET), text.clone().into_response());
        assert_eq!(response.headers()["content-encoding"], "gzip");
        assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
        let BodyRepr::Bytes(bytes) = response.into_body().into_repr() else { panic!("streamed") };
        assert!(bytes.len() < 2500);
        assert_eq!(decode(&mut decoder(), &bytes), text);
        let response = compression.apply(&facts(http::Method::GET), "short".into_response());
        assert_eq!(response.body().exact_len(), Some(5));
        assert!(!response.headers().contains_key("content-encoding"));
    }

    #[test]
    fn h09_the_response_to_head_states_no_length_and_reads_no_body() {
        let polled = Rc::new(Cell::new(false));
        let seen = polled.clone();
        let body = Body::from_source(poll_source(move |_| {
            seen.set(true);
            Poll::Ready(None)
        }));
        let response = Body::with_content_type(body, "text/html").into_response();
        let response = Compression::default().apply(&facts(http::Method::HEAD), response);
        assert_eq!(response.headers()["content-encoding"], "gzip");
        assert_eq!(response.body().exact_len(), None);
        assert!(!polled.get());
    }
}
