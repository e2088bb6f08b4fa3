//! Negotiation of a content coding: the field Accept-Encoding, and the choice among what is compiled in.

use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

use super::content_coding::ContentCoding;

/// Bytes of Accept-Encoding that are looked at, over all its lines. Browsers send about 30. An element that crosses the
/// end is ignored with all after it.
pub const MAX_ACCEPT_ENCODING: usize = 1024;

/// The weight of 1, in thousandths.
const FULL_WEIGHT: u16 = 1000;

/// The weights that a client gives to content codings (RFC 9110, section 12.5.3).
///
/// An element that breaks the grammar, such as `gzip;q=2`, `gzip;q=0.1234` or `gzip;level=6`, is ignored: its coding
/// counts as not listed. If a coding is listed twice, the lower weight counts, because sending what was refused once
/// is the graver mistake.
///
/// ```
/// use http::HeaderMap;
/// use http::header::ACCEPT_ENCODING;
/// use waterwheel_http::{AcceptEncoding, ContentCoding, NegotiatedCoding};
///
/// let mut headers = HeaderMap::new();
/// headers.insert(ACCEPT_ENCODING, "gzip, br;q=0.5, zstd;q=0".parse()?);
/// let accept = AcceptEncoding::from_headers(&headers);
/// let preference = [ContentCoding::Zstd, ContentCoding::Brotli, ContentCoding::Gzip];
/// assert_eq!(accept.choose(&preference), NegotiatedCoding::Coding(ContentCoding::Gzip));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptEncoding {
    /// The weights of the listed codings, in the order of [`ContentCoding::ALL`].
    codings: [Option<u16>; 4],
    identity: Option<u16>,
    /// The weight of `*`: of each coding that is not listed.
    any: Option<u16>,
}

/// The outcome of a negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NegotiatedCoding {
    /// The body is to be encoded.
    Coding(ContentCoding),
    /// The body is to be sent as it is.
    Identity,
    /// The client refuses every coding that is available, and `identity` as well. RFC 9110 lets a server answer 415 or
    /// send `identity` all the same; servers do the latter, and so does `Compression`, because
    /// a body that the client did not ask for serves it better than an error.
    NotAcceptable,
}

impl AcceptEncoding {
    /// Reads the field's lines, of which at most [`MAX_ACCEPT_ENCODING`] bytes are looked at. Without the field nothing
    /// but `identity` is chosen, although RFC 9110 allows any coding then: such clients rarely decode.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let mut accept = Self { codings: [None; 4], identity: None, any: None };
        let mut left = MAX_ACCEPT_ENCODING;
        for line in headers.get_all(ACCEPT_ENCODING) {
            let line = line.as_bytes();
            let whole = line.len() <= left;
            let seen = &line[..line.len().min(left)];
            left -= seen.len();
            let mut elements = seen.split(|byte| *byte == b',').peekable();
            while let Some(element) = elements.next() {
                if whole || elements.peek().is_some() {
                    accept.add(element);
                }
            }
            if !whole {
                break;
            }
        }
        accept
    }

    /// Returns the weight of a coding in thousandths; 0 if it must not be sent.
    pub fn weight(&self, coding: ContentCoding) -> u16 {
        self.codings[coding as usize].or(self.any).unwrap_or(0)
    }

    /// Returns the weight of the unencoded body in thousandths, `None` if neither `identity` nor `*` is listed:
    /// acceptable then, but less so than any listed coding.
    pub fn identity_weight(&self) -> Option<u16> {
        self.identity.or(self.any)
    }

    /// Chooses by the client's weight, then by the order of `preference`. Codings that cannot be encoded are skipped.
    /// `identity` is chosen over a coding only if the client gives it a greater weight.
    pub fn choose(&self, preference: &[ContentCoding]) -> NegotiatedCoding {
        let mut best = None;
        let mut best_weight = 0;
        for coding in preference.iter().copied().filter(|coding| coding.can_encode()) {
            if self.weight(coding) > best_weight {
                best_weight = self.weight(coding);
                best = Some(coding);
            }
        }
        match (best, self.identity_weight()) {
            (Some(_), Some(identity)) if identity > best_weight => NegotiatedCoding::Identity,
            (Some(coding), _) => NegotiatedCoding::Coding(coding),
            (None, Some(0)) => NegotiatedCoding::NotAcceptable,
            (None, _) => NegotiatedCoding::Identity,
        }
    }

    /// Takes in `codings [ weight ]`; an empty element is allowed in every list of RFC 9110.
    fn add(&mut self, element: &[u8]) {
        let Some((name, weight)) = std::str::from_utf8(element).ok().and_then(parse_element) else {
            return;
        };
        let slot = if name == "*" {
            &mut self.any
        } else if name.eq_ignore_ascii_case("identity") {
            &mut self.identity
        } else if let Some(coding) = ContentCoding::from_name(name) {
            &mut self.codings[coding as usize]
        } else {
            return;
        };
        *slot = Some(slot.map_or(weight, |listed| listed.min(weight)));
    }
}

/// Splits `name OWS ";" OWS "q=" qvalue`, with white space around it.
fn parse_element(element: &str) -> Option<(&str, u16)> {
    let white = [' ', '\t'];
    let Some((name, weight)) = element.split_once(';') else {
        return Some((element.trim_matches(white), FULL_WEIGHT));
    };
    let weight = weight.trim_matches(white);
    let value = weight.strip_prefix("q=").or_else(|| weight.strip_prefix("Q="))?;
    Some((name.trim_matches(white), parse_weight(value)?))
}

/// Reads a qvalue: "0" or "1" with at most three digits behind the point, which are zeros behind the 1.
fn parse_weight(value: &str) -> Option<u16> {
    let (whole, digits) = match value.split_once('.') {
        Some((whole, digits)) => (whole, digits),
        None => (value, ""),
    };
    if digits.len() > 3 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let thousandths = as_thousandths(digits);
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(FULL_WEIGHT),
        _ => None,
    }
}

/// Returns up to three digits behind a point as thousandths.
fn as_thousandths(digits: &str) -> u16 {
    let scales = [100, 10, 1];
    digits.bytes().zip(scales).map(|(digit, scale)| u16::from(digit - b'0') * scale).sum()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::ContentCoding::{Brotli, Gzip, Zstd};
    use super::NegotiatedCoding::{Coding, Identity, NotAcceptable};
    use super::*;

    const PREFERENCE: [ContentCoding; 3] = [Zstd, Brotli, Gzip];

    fn accept(lines: &[&str]) -> AcceptEncoding {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(ACCEPT_ENCODING, HeaderValue::from_str(line).unwrap());
        }
        AcceptEncoding::from_headers(&headers)
    }

    #[test]
    fn h09_a_coding_is_chosen_by_the_clients_weight_then_by_the_servers_order() {
        let table: &[(&[&str], NegotiatedCoding)] = &[
            (&[], Identity),
            (&[""], Identity),
            (&[" , ,\t,"], Identity),
            (&["gzip"], Coding(Gzip)),
            (&["GZIP"], Coding(Gzip)),
            (&["x-gzip"], Coding(Gzip)),
            (&["gzip, deflate, br, zstd"], Coding(Zstd)),
            (&["gzip, deflate, br"], Coding(Brotli)),
            (&["gzip", "br"], Coding(Brotli)),
            (&["gzip;q=1.0, br;q=0.999"], Coding(Gzip)),
            (&["gzip;q=0.5,br;q=0.25"], Coding(Gzip)),
            (&["gzip ; q=0.5\t,\tbr;\tq=0.6"], Coding(Brotli)),
            (&["gzip;Q=0.001"], Coding(Gzip)),
            (&["gzip;q=0"], Identity),
            (&["gzip;q=0.000"], Identity),
            (&["deflate"], Identity),
            (&["compress, unknown"], Identity),
            (&["*"], Coding(Zstd)),
            (&["*;q=0"], NotAcceptable),
            (&["*;q=0, identity"], Identity),
            (&["identity;q=0"], NotAcceptable),
            (&["identity;q=0, compress"], NotAcceptable),
            (&["identity;q=0, *;q=0.1"], Coding(Zstd)),
            (&["identity;q=0, gzip;q=0.1"], Coding(Gzip)),
            (&["zstd;q=0, *"], Coding(Brotli)),
            (&["*;q=0, gzip"], Coding(Gzip)),
            (&["identity, gzip"], Coding(Gzip)),
            (&["identity, gzip;q=0.5"], Identity),
            (&["identity;q=0.5, gzip;q=0.5"], Coding(Gzip)),
            (&["gzip;q=0, gzip"], Identity),
            (&["gzip", "x-gzip;q=0"], Identity),
        ];
        for (lines, chosen) in table {
            assert_eq!(accept(lines).choose(&PREFERENCE), *chosen, "{lines:?}");
        }
    }

    #[test]
    fn h09_an_element_that_breaks_the_grammar_is_ignored() {
        for element in [
            "gzip;q=",
            "gzip;q=2",
            "gzip;q=1.001",
            "gzip;q=0.1234",
            "gzip;q=.5",
            "gzip;q=0,5",
            "gzip;q=-0",
            "gzip;q=+1",
            "gzip;q=1e0",
            "gzip;q =1",
            "gzip;q= 1",
            "gzip;level=6",
            "gzip;q=0.5;x=1",
            "gzip;",
            "gzip q=1",
            "\"gzip\"",
        ] {
            if element == "gzip;q=0,5" {
                // Two elements: a refusal, and a coding of the name "5".
                assert_eq!(accept(&[element]).weight(Gzip), 0);
                continue;
            }
            let both = format!("{element}, br;q=0.3");
            assert_eq!(accept(&[&both]).choose(&PREFERENCE), Coding(Brotli), "{element:?}");
            assert_eq!(accept(&[element]).weight(Gzip), 0, "{element:?}");
        }
    }

    #[test]
    fn h09_weights_are_read_exactly() {
        for (value, weight) in [
            ("0", Some(0)),
            ("0.", Some(0)),
            ("0.5", Some(500)),
            ("0.05", Some(50)),
            ("0.123", Some(123)),
            ("1", Some(1000)),
            ("1.", Some(1000)),
            ("1.000", Some(1000)),
            ("1.0000", None),
            ("1.01", None),
            ("00", None),
            ("", None),
            ("0.1.2", None),
        ] {
            assert_eq!(parse_weight(value), weight, "{value:?}");
        }
    }

    #[test]
    fn h09_at_most_1024_bytes_of_accept_encoding_are_looked_at() {
        let filler = "x,".repeat(MAX_ACCEPT_ENCODING / 2 - 2);
        assert_eq!(filler.len() + "gzip".len(), MAX_ACCEPT_ENCODING);
        assert_eq!(accept(&[&format!("{filler}gzip")]).choose(&PREFERENCE), Coding(Gzip));
        // One byte more, and "gzip" ends beyond.
        assert_eq!(accept(&[&format!("{filler} gzip")]).choose(&PREFERENCE), Identity);
        assert_eq!(accept(&[&filler, "gzip"]).choose(&PREFERENCE), Coding(Gzip));
        assert_eq!(accept(&[&filler, "zstd,gzip"]).choose(&PREFERENCE), Identity);
        // A refusal that is cut must not be read as the coding without its weight.
        assert_eq!(accept(&[&filler, "gzip;q=0"]).choose(&PREFERENCE), Identity);
    }

    #[test]
    fn h09_the_preference_of_the_server_is_configurable() {
        let accept = accept(&["gzip, br, zstd"]);
        assert_eq!(accept.choose(&[Gzip, Brotli, Zstd]), Coding(Gzip));
        assert_eq!(accept.choose(&[Brotli]), Coding(Brotli));
        assert_eq!(accept.choose(&[]), Identity);
        assert_eq!(accept.choose(&[ContentCoding::Deflate]), Identity);
    }
}
