//! Bodies: a length, chunks, or everything until the connection ends.

use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderName, header};

use super::error::{Malformation, MessageError};
use super::fields::{append_field, is_token_byte, parse_field};
use super::framing::BodyFraming;
use super::limits::MessageLimits;
use super::lines::find_line;

/// A part of a body.
#[derive(Debug)]
pub(crate) enum BodyEvent {
    /// Bytes of the body: never empty.
    Data(Bytes),
    /// The end of the body, with its trailers if it has any.
    End(Option<Box<HeaderMap>>),
}

/// Decodes one body.
#[derive(Debug)]
pub(crate) struct BodyDecoder {
    step: BodyStep,
    limits: MessageLimits,
    /// The bytes of data that have been announced by chunk sizes, or have come.
    length: u64,
    /// The bytes of chunk extensions so far.
    extension_bytes: usize,
    /// The bytes of the unfinished line that have been searched for its end.
    searched: usize,
}

#[derive(Debug)]
enum BodyStep {
    /// This many bytes follow.
    Length(u64),
    /// A line with the size of the next chunk follows.
    ChunkSize,
    /// This many bytes of the chunk follow, then CR LF.
    ChunkData(u64),
    /// The CR LF after the data of a chunk follows.
    ChunkEnd,
    /// Field lines and an empty line follow.
    Trailers(Box<TrailerLines>),
    /// Everything until the end of the connection belongs to the body.
    UntilClose,
    Over,
}

#[derive(Debug, Default)]
struct TrailerLines {
    fields: HeaderMap,
    lines: usize,
    bytes: usize,
}

impl BodyDecoder {
    /// Returns a decoder for a body with this framing; `None` if the body has no bytes.
    pub(crate) fn new(framing: BodyFraming, limits: &MessageLimits) -> Option<Self> {
        let step = match framing {
            BodyFraming::None | BodyFraming::Length(0) => return None,
            BodyFraming::Length(length) => BodyStep::Length(length),
            BodyFraming::Chunked => BodyStep::ChunkSize,
            BodyFraming::UntilClose => BodyStep::UntilClose,
        };
        Some(Self { step, limits: *limits, length: 0, extension_bytes: 0, searched: 0 })
    }

    /// Returns how many bytes are missing, if the length is known.
    pub(crate) fn remaining_length(&self) -> Option<u64> {
        match self.step {
            BodyStep::Length(rest) => Some(rest),
            BodyStep::Over => Some(0),
            _ => None,
        }
    }

    /// Decodes the next part from the front of `buf`; `None` if more bytes are needed. After the end nothing is consumed.
    pub(crate) fn decode(&mut self, buf: &mut Bytes) -> Result<Option<BodyEvent>, MessageError> {
        loop {
            match &mut self.step {
                BodyStep::Length(rest) => {
                    let Some(data) = take_data(buf, rest) else { return Ok(None) };
                    if *rest == 0 {
                        self.step = BodyStep::Length(0);
                    }
                    return Ok(Some(BodyEvent::Data(data)));
                }
                BodyStep::ChunkSize => {
                    let Some(size) = self.decode_size(buf)? else { return Ok(None) };
                    self.step = match size {
                        0 => BodyStep::Trailers(Box::default()),
                        size => BodyStep::ChunkData(size),
                    };
                }
                BodyStep::ChunkData(rest) => {
                    let Some(data) = take_data(buf, rest) else { return Ok(None) };
                    if *rest == 0 {
                        self.step = BodyStep::ChunkEnd;
                    }
                    return Ok(Some(BodyEvent::Data(data)));
                }
                BodyStep::ChunkEnd => match buf[..] {
                    [b'\r', b'\n', ..] => {
                        buf.advance(2);
                        self.step = BodyStep::ChunkSize;
                    }
                    [] | [b'\r'] => return Ok(None),
                    _ => return Err(Malformation::ChunkEnd.into()),
                },
                BodyStep::Trailers(_) => return self.decode_trailers(buf),
                BodyStep::UntilClose => {
                    if buf.is_empty() {
                        return Ok(None);
                    }
                    self.count_data(buf.len() as u64)?;
                    return Ok(Some(BodyEvent::Data(std::mem::take(buf))));
                }
                BodyStep::Over => return Ok(None),
            }
        }
    }

    /// True if the body has ended, as far as the bytes so far say.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.step, BodyStep::Over | BodyStep::Length(0))
    }

    /// Ends the body with the connection.
    ///
    /// # Errors
    /// The body is not complete.
    pub(crate) fn finish(&self) -> Result<(), MessageError> {
        match self.step {
            BodyStep::UntilClose | BodyStep::Over | BodyStep::Length(0) => Ok(()),
            _ => Err(Malformation::Truncated.into()),
        }
    }

    fn count_data(&mut self, bytes: u64) -> Result<(), MessageError> {
        self.length = self.length.saturating_add(bytes);
        let limit = self.limits.body_bytes();
        if self.length > limit {
            return Err(MessageError::BodyTooLarge { length: self.length, limit });
        }
        Ok(())
    }

    fn decode_size(&mut self, buf: &mut Bytes) -> Result<Option<u64>, MessageError> {
        let line = find_line(buf, 0, &mut self.searched)?;
        let content = &buf[..line.map_or(buf.len(), |line| line.end)];
        let digits = content.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let size = parse_hex(&content[..digits]);
        if line.is_none() {
            // Bytes that no continuation makes valid are refused at once, without waiting for the end of the line.
            let is_wrong = (digits > 0 && size.is_none())
                || (digits == 0 && !content.is_empty())
                || !matches!(content.get(digits), None | Some(b';' | b' ' | b'\t' | b'\r'));
            if is_wrong {
                return Err(Malformation::ChunkSize.into());
            }
            self.check_extensions(content.len())?;
            return Ok(None);
        }
        let size = size.ok_or(Malformation::ChunkSize)?;
        check_extension_syntax(&content[digits..])?;
        self.extension_bytes += content.len().saturating_sub(SIZE_DIGITS);
        self.check_extensions(0)?;
        self.count_data(size)?;
        buf.advance(line.map_or(0, |line| line.next));
        Ok(Some(size))
    }

    /// Checks the bytes of extensions, with those of an unfinished line.
    fn check_extensions(&self, unfinished: usize) -> Result<(), MessageError> {
        let limit = self.limits.extension_bytes();
        if self.extension_bytes + unfinished.saturating_sub(SIZE_DIGITS) > limit {
            return Err(MessageError::ExtensionsTooLarge { limit });
        }
        Ok(())
    }

    fn decode_trailers(&mut self, buf: &mut Bytes) -> Result<Option<BodyEvent>, MessageError> {
        let BodyStep::Trailers(trailers) = &mut self.step else { return Ok(None) };
        let (limit, lines) = (self.limits.head_bytes(), self.limits.field_lines());
        let too_large = MessageError::TrailersTooLarge { limit, lines };
        let mut at = 0;
        loop {
            let Some(line) = find_line(buf, at, &mut self.searched)? else {
                let unfinished = buf.len() - at;
                trailers.bytes += at;
                buf.advance(at);
                return match trailers.bytes + unfinished > limit {
                    true => Err(too_large),
                    false => Ok(None),
                };
            };
            at = line.next;
            if trailers.bytes + at > limit {
                return Err(too_large);
            }
            if line.start == line.end {
                break;
            }
            trailers.lines += 1;
            if trailers.lines > lines {
                return Err(too_large);
            }
            let (name, value) = parse_field(buf, line.start, line.end)?;
            if is_allowed_trailer(&name) && !append_field(&mut trailers.fields, name, value) {
                return Err(too_large);
            }
        }
        buf.advance(at);
        let fields = std::mem::take(&mut trailers.fields);
        self.step = BodyStep::Over;
        Ok(Some(BodyEvent::End((!fields.is_empty()).then(|| Box::new(fields)))))
    }
}

/// The digits of the largest chunk size.
const SIZE_DIGITS: usize = 16;

/// Takes as many bytes of data as have come, up to `rest`; `None` if there are none.
#[inline]
fn take_data(buf: &mut Bytes, rest: &mut u64) -> Option<Bytes> {
    let len = usize::try_from(*rest).map_or(buf.len(), |rest| rest.min(buf.len()));
    if len == 0 {
        return None;
    }
    *rest -= len as u64;
    Some(buf.split_to(len))
}

/// Parses a hexadecimal number of 64 bits, leading zeros included.
fn parse_hex(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(number.checked_mul(16)? | u64::from(digit))
    })
}

/// Checks `*( BWS ";" BWS token [ BWS "=" BWS ( token / quoted-string ) ] )` (RFC 9112, section 7.1.1).
fn check_extension_syntax(mut rest: &[u8]) -> Result<(), MessageError> {
    let wrong = || Err(Malformation::ChunkExtension.into());
    while !rest.is_empty() {
        let Some(after) = skip_blanks(rest).strip_prefix(b";") else { return wrong() };
        let Some(after) = skip_token(skip_blanks(after)) else { return wrong() };
        rest = after;
        if let Some(after) = skip_blanks(rest).strip_prefix(b"=") {
            let value = skip_blanks(after);
            let skipped =
                if value.first() == Some(&b'"') { skip_quoted(value) } else { skip_token(value) };
            let Some(after) = skipped else { return wrong() };
            rest = after;
        }
    }
    Ok(())
}

fn skip_blanks(bytes: &[u8]) -> &[u8] {
    let blanks = bytes.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &bytes[blanks..]
}

fn skip_token(bytes: &[u8]) -> Option<&[u8]> {
    let len = bytes.iter().take_while(|byte| is_token_byte(**byte)).count();
    (len > 0).then(|| &bytes[len..])
}

/// Skips a quoted string, with its quotes.
fn skip_quoted(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = &bytes[1..];
    loop {
        match rest {
            [b'"', after @ ..] => return Some(after),
            [b'\\', escaped, after @ ..] if is_text_byte(*escaped) => rest = after,
            [byte, after @ ..] if *byte != b'\\' && is_text_byte(*byte) => rest = after,
            _ => return None,
        }
    }
}

/// True for bytes that are no control characters, and for tabs.
const fn is_text_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= 0x20 && byte != 0x7f)
}

/// True unless the field would change how the message or its connection is read. Such fields are dropped.
fn is_allowed_trailer(name: &HeaderName) -> bool {
    ![
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::HOST,
        header::CONNECTION,
        header::TE,
        header::TRAILER,
        header::UPGRADE,
        header::EXPECT,
        header::CONTENT_ENCODING,
        header::CONTENT_TYPE,
        header::CONTENT_RANGE,
        header::AUTHORIZATION,
        header::COOKIE,
        header::SET_COOKIE,
    ]
    .contains(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_all(
        framing: BodyFraming,
        bytes: &[u8],
        step: usize,
    ) -> Result<(Vec<u8>, Option<HeaderMap>, usize), MessageError> {
        let limits = MessageLimits::default().max_body_bytes(100).max_extension_bytes(40);
        let mut decoder = BodyDecoder::new(framing, &limits).unwrap();
        let (mut data, mut kept, mut used) = (Vec::new(), Vec::new(), 0);
        for piece in bytes.chunks(step) {
            kept.extend_from_slice(piece);
            used += piece.len();
            let mut buf = Bytes::from(std::mem::take(&mut kept));
            while let Some(event) = decoder.decode(&mut buf)? {
                match event {
                    BodyEvent::Data(bytes) => data.extend_from_slice(&bytes),
                    BodyEvent::End(trailers) => {
                        return Ok((data, trailers.map(|fields| *fields), used - buf.len()));
                    }
                }
                if matches!(framing, BodyFraming::Length(_)) && decoder.is_over() {
                    return Ok((data, None, used - buf.len()));
                }
            }
            kept = buf.to_vec();
        }
        decoder.finish()?;
        Ok((data, None, used - kept.len()))
    }

    #[test]
    fn h03_chunks_are_decoded_however_their_bytes_are_cut() {
        let body = b"5\r\nhello\r\n00000000000000000001;a=b ; c=\"d\\\"e\"\r\n \r\n0\r\nX: 1\r\nHost: y\r\n\r\nrest";
        for step in 1..body.len() {
            let (data, trailers, used) = decode_all(BodyFraming::Chunked, body, step).unwrap();
            assert_eq!(data, b"hello ");
            assert_eq!(trailers.as_ref().map(HeaderMap::len), Some(1), "Host is dropped");
            assert_eq!(&body[used..], b"rest");
        }
    }

    #[test]
    fn h03_chunks_that_are_refused() {
        use Malformation::*;
        let cases: [(&[u8], MessageError); 22] = [
            (b"\r\n", ChunkSize.into()),
            (b"x\r\n", ChunkSize.into()),
            (b"-1\r\n", ChunkSize.into()),
            (b"+1\r\n", ChunkSize.into()),
            (b"0x1\r\n", ChunkExtension.into()),
            (b" 1\r\n", ChunkSize.into()),
            (b"1 \r\n", ChunkExtension.into()),
            (b"10000000000000000\r\n", ChunkSize.into()),
            (b"1\n", BareLf.into()),
            (b"1\ra\r\n", ChunkExtension.into()),
            (b"1;\r\n", ChunkExtension.into()),
            (b"1;a=\r\n", ChunkExtension.into()),
            (b"1;a=\"b\r\n", ChunkExtension.into()),
            (b"1;a\0\r\n", ChunkExtension.into()),
            (b"1\r\nab\r\n", ChunkEnd.into()),
            (b"1\r\na\n", ChunkEnd.into()),
            (b"1\r\na\rb", ChunkEnd.into()),
            (b"0\r\nX\r\n", MissingColon.into()),
            (b"0\r\nX : 1\r\n", FieldName.into()),
            (b"0\r\n X: 1\r\n", FoldedLine.into()),
            (b"0\r\n\n", BareLf.into()),
            (b"1\r\na\r\n", Truncated.into()),
        ];
        for (bytes, error) in cases {
            for step in [1, bytes.len()] {
                let outcome = decode_all(BodyFraming::Chunked, bytes, step).unwrap_err();
                let is_size_or_extension =
                    |error| matches!(error, MessageError::Malformed(ChunkSize | ChunkExtension));
                // A size line that cannot become valid is refused before it is complete.
                assert!(
                    outcome == error
                        || (step == 1
                            && is_size_or_extension(outcome)
                            && is_size_or_extension(error)),
                    "{}: {outcome:?}, not {error:?}",
                    bytes.escape_ascii()
                );
            }
        }
    }

    #[test]
    fn h02_the_limits_of_a_body() {
        let too_large = |length| Err(MessageError::BodyTooLarge { length, limit: 100 });
        let outcome = |bytes: &[u8], step| decode_all(BodyFraming::Chunked, bytes, step).map(drop);
        assert_eq!(outcome(b"65\r\n", 1), too_large(101));
        assert_eq!(outcome(b"1\r\na\r\n64\r\n", 4), too_large(101));
        assert_eq!(outcome(b"ffffffffffffffff\r\n", 99), too_large(u64::MAX));
        let long = [b"1;".as_slice(), &[b'a'; 60], b"\r\n"].concat();
        let error = Err(MessageError::ExtensionsTooLarge { limit: 40 });
        assert_eq!((outcome(&long, 1), outcome(&long, 99)), (error, error));
        let zeros = [b"0".repeat(60), b"1\r\na\r\n0\r\n\r\n".to_vec()].concat();
        assert_eq!(outcome(&zeros, 99), error);
        let many = b"1;aaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\na\r\n".repeat(4);
        assert_eq!(outcome(&many, 1), error);
    }

    #[test]
    fn h03_a_body_of_a_length_takes_no_byte_more() {
        for step in [1, 3, 20] {
            let (data, _, used) = decode_all(BodyFraming::Length(5), b"helloGET", step).unwrap();
            assert_eq!((&data[..], used), (&b"hello"[..], 5), "in steps of {step}");
        }
        assert_eq!(
            decode_all(BodyFraming::Length(5), b"hell", 9).unwrap_err(),
            Malformation::Truncated.into()
        );
        assert_eq!(decode_all(BodyFraming::UntilClose, b"hello", 2).unwrap().0, b"hello");
    }
}
