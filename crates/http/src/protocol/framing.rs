//! Which body a message has, and what its fields say of the connection (RFC 9112, sections 6 and 9).

use http::{Method, StatusCode, Version};

use super::authority::is_host_and_port;
use super::error::{Malformation, MessageError};
use super::fields::{is_token_byte, list_elements, trim_blanks};
use super::limits::MessageLimits;

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyFraming {
    /// The message has no body.
    #[default]
    None,
    /// The body has this many bytes (Content-Length). Zero is a body without bytes.
    Length(u64),
    /// The body comes in chunks (Transfer-Encoding: chunked).
    Chunked,
    /// The body ends with the connection. Responses only.
    UntilClose,
}

/// The framing and the connection as the fields of a head have them, collected line by line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FramingFields {
    content_length: Option<u64>,
    codings: Option<TransferCodings>,
    has_host: bool,
    pub(super) connection: ConnectionOptions,
    pub(super) expects_continue: bool,
    pub(super) has_upgrade: bool,
}

/// The transfer codings of a message.
#[derive(Clone, Copy, Debug, Default)]
struct TransferCodings {
    is_chunked: bool,
    has_other: bool,
}

/// The options in Connection that this implementation acts on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConnectionOptions {
    pub(super) close: bool,
    pub(super) keep_alive: bool,
    pub(super) upgrade: bool,
}

impl FramingFields {
    /// Looks at one field line. The name is in any case of letters.
    #[inline]
    pub(super) fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), MessageError> {
        match name.len() {
            4 if is_name(name, b"host") => self.add_host(value),
            10 if is_name(name, b"connection") => {
                self.add_connection(value);
                Ok(())
            }
            14 if is_name(name, b"content-length") => self.add_content_length(value),
            17 if is_name(name, b"transfer-encoding") => self.add_transfer_encoding(value),
            6 if is_name(name, b"expect") => {
                self.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
                Ok(())
            }
            7 if is_name(name, b"upgrade") => {
                self.has_upgrade = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn add_host(&mut self, value: &[u8]) -> Result<(), MessageError> {
        if std::mem::replace(&mut self.has_host, true) {
            return Err(Malformation::RepeatedHost.into());
        }
        match is_host_and_port(value) {
            true => Ok(()),
            false => Err(Malformation::InvalidHost.into()),
        }
    }

    fn add_connection(&mut self, value: &[u8]) {
        if value.len() == 10 && is_name(value, b"keep-alive") {
            self.connection.keep_alive = true;
            return;
        }
        for option in list_elements(value) {
            self.connection.close |= option.eq_ignore_ascii_case(b"close");
            self.connection.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            self.connection.upgrade |= option.eq_ignore_ascii_case(b"upgrade");
        }
    }

    fn add_content_length(&mut self, value: &[u8]) -> Result<(), MessageError> {
        let length = parse_decimal(value).ok_or(Malformation::ContentLength)?;
        match self.content_length.replace(length) {
            None => Ok(()),
            Some(_) => Err(Malformation::RepeatedContentLength.into()),
        }
    }

    fn add_transfer_encoding(&mut self, value: &[u8]) -> Result<(), MessageError> {
        let codings = self.codings.get_or_insert_default();
        for coding in list_elements(value) {
            // Chunked is the last coding, and it has no parameters.
            if codings.is_chunked {
                return Err(Malformation::ChunkedNotLast.into());
            }
            if coding.eq_ignore_ascii_case(b"chunked") {
                codings.is_chunked = true;
                continue;
            }
            codings.has_other = true;
            let name = coding.split(|byte| *byte == b';').next().map_or(coding, trim_blanks);
            if name.is_empty() || !name.iter().all(|byte| is_token_byte(*byte)) {
                return Err(Malformation::TransferEncoding.into());
            }
        }
        Ok(())
    }

    /// Returns the framing of a request, and checks what only the whole head shows.
    #[inline]
    pub(super) fn request_framing(
        &self,
        version: Version,
        limits: &MessageLimits,
    ) -> Result<BodyFraming, MessageError> {
        if !self.has_host && version == Version::HTTP_11 {
            return Err(Malformation::MissingHost.into());
        }
        self.declared_framing(version, limits).map(|framing| framing.unwrap_or(BodyFraming::None))
    }

    /// Returns the framing of a response to a request of this method.
    pub(super) fn response_framing(
        &self,
        version: Version,
        status: StatusCode,
        method: &Method,
        limits: &MessageLimits,
    ) -> Result<BodyFraming, MessageError> {
        let has_no_body = *method == Method::HEAD
            || (*method == Method::CONNECT && status.is_success())
            || !may_have_body(status);
        if has_no_body {
            return Ok(BodyFraming::None);
        }
        let declared = self.declared_framing(version, limits)?;
        Ok(declared.unwrap_or(BodyFraming::UntilClose))
    }

    fn declared_framing(
        &self,
        version: Version,
        limits: &MessageLimits,
    ) -> Result<Option<BodyFraming>, MessageError> {
        let Some(codings) = self.codings else {
            let Some(length) = self.content_length else { return Ok(None) };
            if length > limits.body_bytes() {
                return Err(MessageError::BodyTooLarge { length, limit: limits.body_bytes() });
            }
            return Ok(Some(BodyFraming::Length(length)));
        };
        if version == Version::HTTP_10 {
            return Err(Malformation::CodingInHttp10.into());
        }
        if self.content_length.is_some() {
            return Err(Malformation::LengthAndCoding.into());
        }
        match codings {
            TransferCodings { is_chunked: true, has_other: false } => {
                Ok(Some(BodyFraming::Chunked))
            }
            TransferCodings { is_chunked: true, has_other: true } => {
                Err(MessageError::UnsupportedCoding)
            }
            TransferCodings { is_chunked: false, .. } => Err(Malformation::ChunkedNotLast.into()),
        }
    }

    /// True if the connection may carry another message after this one.
    #[inline]
    pub(super) fn keeps_alive(&self, version: Version) -> bool {
        !self.connection.close && (version == Version::HTTP_11 || self.connection.keep_alive)
    }
}

/// True if a token is this name, in any case of letters.
///
/// The bit is set that tells small letters from capital ones: the result is equal to a name in small letters if, and only
/// if, the token is that name, because a token has no control characters.
#[inline]
fn is_name<const N: usize>(token: &[u8], name: &[u8; N]) -> bool {
    let Some(token) = token.first_chunk::<N>().filter(|_| token.len() == N) else { return false };
    let (mut own, mut wanted) = ([0; 32], [0; 32]);
    own[..N].copy_from_slice(token);
    wanted[..N].copy_from_slice(name);
    words(own).zip(words(wanted)).all(|(own, wanted)| {
        (own | u64::from_ne_bytes([0x20; 8])) == (wanted | u64::from_ne_bytes([0x20; 8]))
    })
}

/// Returns the bytes as words, so that eight are compared at once.
#[inline]
fn words(bytes: [u8; 32]) -> impl Iterator<Item = u64> {
    let [a, b, c, d]: [[u8; 8]; 4] =
        std::array::from_fn(|at| std::array::from_fn(|byte| bytes[8 * at + byte]));
    [a, b, c, d].map(u64::from_ne_bytes).into_iter()
}

/// True if a response of this status may have a body.
pub(crate) fn may_have_body(status: StatusCode) -> bool {
    !status.is_informational()
        && status != StatusCode::NO_CONTENT
        && status != StatusCode::NOT_MODIFIED
}

/// Parses digits alone, as a number of 64 bits.
pub(super) fn parse_decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, header};

    use super::*;

    fn framing(
        fields: &[(HeaderName, &'static str)],
        version: Version,
    ) -> Result<BodyFraming, MessageError> {
        let mut collected = FramingFields { has_host: true, ..FramingFields::default() };
        for (name, value) in fields {
            collected.add(name.as_str().as_bytes(), value.as_bytes())?;
        }
        collected.request_framing(version, &MessageLimits::default())
    }

    #[test]
    fn h03_the_framing_of_a_request_has_one_reading() {
        use header::{CONTENT_LENGTH, TRANSFER_ENCODING};
        let ok = |fields: &[(HeaderName, &'static str)]| framing(fields, Version::HTTP_11).unwrap();
        assert_eq!(ok(&[]), BodyFraming::None);
        assert_eq!(ok(&[(CONTENT_LENGTH, "0")]), BodyFraming::Length(0));
        assert_eq!(ok(&[(CONTENT_LENGTH, "007")]), BodyFraming::Length(7));
        assert_eq!(ok(&[(TRANSFER_ENCODING, "Chunked")]), BodyFraming::Chunked);
        let refused: [(&[(HeaderName, &'static str)], MessageError); 14] = [
            (
                &[(CONTENT_LENGTH, "5"), (CONTENT_LENGTH, "5")],
                Malformation::RepeatedContentLength.into(),
            ),
            (&[(CONTENT_LENGTH, "5, 5")], Malformation::ContentLength.into()),
            (&[(CONTENT_LENGTH, "+5")], Malformation::ContentLength.into()),
            (&[(CONTENT_LENGTH, "")], Malformation::ContentLength.into()),
            (&[(CONTENT_LENGTH, "0x5")], Malformation::ContentLength.into()),
            (&[(CONTENT_LENGTH, "18446744073709551616")], Malformation::ContentLength.into()),
            (
                &[(CONTENT_LENGTH, "5"), (TRANSFER_ENCODING, "chunked")],
                Malformation::LengthAndCoding.into(),
            ),
            (&[(TRANSFER_ENCODING, "")], Malformation::ChunkedNotLast.into()),
            (&[(TRANSFER_ENCODING, "chunked, chunked")], Malformation::ChunkedNotLast.into()),
            (
                &[(TRANSFER_ENCODING, "chunked"), (TRANSFER_ENCODING, "chunked")],
                Malformation::ChunkedNotLast.into(),
            ),
            (&[(TRANSFER_ENCODING, "chunked, gzip")], Malformation::ChunkedNotLast.into()),
            (&[(TRANSFER_ENCODING, "gzip, chunked")], MessageError::UnsupportedCoding),
            (&[(TRANSFER_ENCODING, "chunked;q=1")], Malformation::ChunkedNotLast.into()),
            (&[(TRANSFER_ENCODING, "\"chunked\"")], Malformation::TransferEncoding.into()),
        ];
        for (fields, error) in refused {
            assert_eq!(framing(fields, Version::HTTP_11), Err(error), "{fields:?}");
        }
        let in_http10 = framing(&[(TRANSFER_ENCODING, "chunked")], Version::HTTP_10);
        assert_eq!(in_http10, Err(Malformation::CodingInHttp10.into()));
        let limit = MessageLimits::DEFAULT_BODY_BYTES;
        let too_large = framing(&[(CONTENT_LENGTH, "8388609")], Version::HTTP_11);
        assert_eq!(too_large, Err(MessageError::BodyTooLarge { length: limit + 1, limit }));
    }

    #[test]
    fn h03_names_are_compared_in_any_letters_and_nothing_else() {
        assert!(is_name(b"TRANSFER-encoding", b"transfer-encoding"));
        assert!(!is_name(b"hos", b"host") && !is_name(b"host ", b"host"));
        for (at, own) in b"keep-alive".iter().enumerate() {
            for byte in (0x20..=0xff).filter(|byte| *byte != 0x7f) {
                let mut name = *b"keep-alive";
                name[at] = byte;
                let is_equal = byte.eq_ignore_ascii_case(own);
                assert_eq!(is_name(&name, b"keep-alive"), is_equal, "{byte:#x} at {at}");
            }
        }
    }

    #[test]
    fn h04_a_connection_is_kept_by_version_and_options() {
        let keeps = |version, value: &'static str| {
            let mut fields = FramingFields::default();
            fields.add(b"Connection", value.as_bytes()).unwrap();
            fields.keeps_alive(version)
        };
        assert!(keeps(Version::HTTP_11, "") && !keeps(Version::HTTP_10, ""));
        assert!(keeps(Version::HTTP_11, "x, Keep-Alive") && keeps(Version::HTTP_10, "KEEP-alive"));
        assert!(
            !keeps(Version::HTTP_11, "keep-alive , CLOSE")
                && !keeps(Version::HTTP_10, "keep-alive,close")
        );
    }

    #[test]
    fn h04_responses_without_a_body() {
        let fields = FramingFields { content_length: Some(5), ..FramingFields::default() };
        let framing = |status: u16, method| {
            let status = StatusCode::from_u16(status).unwrap();
            fields.response_framing(Version::HTTP_11, status, &method, &MessageLimits::default())
        };
        assert_eq!(framing(200, Method::GET).unwrap(), BodyFraming::Length(5));
        for (status, method) in [
            (200, Method::HEAD),
            (200, Method::CONNECT),
            (101, Method::GET),
            (204, Method::GET),
            (304, Method::GET),
        ] {
            assert_eq!(framing(status, method).unwrap(), BodyFraming::None, "{status}");
        }
        assert_eq!(framing(407, Method::CONNECT).unwrap(), BodyFraming::Length(5));
        let plain = FramingFields::default();
        let framing = plain.response_framing(
            Version::HTTP_11,
            StatusCode::OK,
            &Method::GET,
            &MessageLimits::default(),
        );
        assert_eq!(framing.unwrap(), BodyFraming::UntilClose);
    }
}
