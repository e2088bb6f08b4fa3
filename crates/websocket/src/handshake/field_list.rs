//! Lists in the values of fields: subprotocols, extensions with parameters.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue};

/// The error of a value that is not such a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedList;

/// An extension of Sec-WebSocket-Extensions, offered or accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extension<'a> {
    pub(crate) name: &'a str,
    pub(crate) parameters: Vec<(&'a str, Option<Cow<'a, str>>)>,
}

impl Extension<'_> {
    /// Returns the names and values of the parameters.
    pub(crate) fn parameters(&self) -> Vec<(&str, Option<&str>)> {
        self.parameters.iter().map(|(name, value)| (*name, value.as_deref())).collect()
    }
}

/// True if a value of the field has this element, in any case of letters: Upgrade, Connection.
pub(crate) fn has_element(headers: &HeaderMap, name: &HeaderName, element: &str) -> bool {
    headers.get_all(name).iter().any(|value| {
        let mut elements = value.as_bytes().split(|byte| *byte == b',');
        elements.any(|found| found.trim_ascii().eq_ignore_ascii_case(element.as_bytes()))
    })
}

/// Parses all values of a field as one list of tokens without duplicates: Sec-WebSocket-Protocol.
pub(crate) fn parse_tokens<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Vec<&'a str>, MalformedList> {
    let mut tokens: Vec<&str> = Vec::new();
    for value in headers.get_all(name) {
        let mut rest = ListParser::new(value)?;
        loop {
            if !rest.skip_empty_elements() {
                break;
            }
            tokens.push(rest.token()?);
            rest.end_element()?;
        }
    }
    // Sorted: to compare each with each would take the square of their number, which a peer chooses.
    let mut sorted = tokens.clone();
    sorted.sort_unstable();
    let has_duplicate = sorted.windows(2).any(|pair| pair[0] == pair[1]);
    if has_duplicate { Err(MalformedList) } else { Ok(tokens) }
}

/// Parses all values of a field as one list of extensions: Sec-WebSocket-Extensions.
pub(crate) fn parse_extensions<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Vec<Extension<'a>>, MalformedList> {
    let mut extensions = Vec::new();
    for value in headers.get_all(name) {
        let mut rest = ListParser::new(value)?;
        while rest.skip_empty_elements() {
            let name = rest.token()?;
            let mut parameters = Vec::new();
            while rest.takes(b';') {
                let name = rest.token()?;
                let value = if rest.takes(b'=') { Some(rest.token_or_quoted()?) } else { None };
                parameters.push((name, value));
            }
            extensions.push(Extension { name, parameters });
            rest.end_element()?;
        }
    }
    Ok(extensions)
}

/// Reads the parts of a list from the front of a value.
struct ListParser<'a> {
    rest: &'a str,
}

impl<'a> ListParser<'a> {
    fn new(value: &'a HeaderValue) -> Result<Self, MalformedList> {
        let rest = value.to_str().map_err(|_| MalformedList)?;
        Ok(Self { rest })
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    /// Consumes the byte, with the blanks before it, if it is the next one.
    fn takes(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let is_next = self.rest.as_bytes().first() == Some(&byte);
        if is_next {
            self.rest = &self.rest[1..];
        }
        is_next
    }

    /// Skips empty elements; returns false at the end of the list.
    fn skip_empty_elements(&mut self) -> bool {
        while self.takes(b',') {}
        !self.rest.is_empty()
    }

    fn token(&mut self) -> Result<&'a str, MalformedList> {
        self.skip_blanks();
        let is_token =
            |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
        let len = self.rest.bytes().take_while(|byte| is_token(byte)).count();
        let (token, rest) = self.rest.split_at(len);
        self.rest = rest;
        if token.is_empty() { Err(MalformedList) } else { Ok(token) }
    }

    /// Reads a token, or a quoted string whose text is a token.
    fn token_or_quoted(&mut self) -> Result<Cow<'a, str>, MalformedList> {
        if !self.takes(b'"') {
            return self.token().map(Cow::Borrowed);
        }
        let mut text = String::new();
        let mut characters = self.rest.char_indices();
        loop {
            match characters.next().ok_or(MalformedList)? {
                (end, '"') => {
                    self.rest = &self.rest[end + 1..];
                    break;
                }
                (_, '\\') => text.push(characters.next().ok_or(MalformedList)?.1),
                (_, character) => text.push(character),
            }
        }
        let value = HeaderValue::from_str(&text).map_err(|_| MalformedList)?;
        let mut inner = ListParser::new(&value)?;
        match inner.token() {
            Ok(token) if token.len() == text.len() => Ok(Cow::Owned(text)),
            _ => Err(MalformedList),
        }
    }

    /// Reads the end of an element: a comma, or the end of the list.
    fn end_element(&mut self) -> Result<(), MalformedList> {
        if self.takes(b',') || self.rest.is_empty() { Ok(()) } else { Err(MalformedList) }
    }
}

#[cfg(test)]
mod tests {
    use http::header::{SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_PROTOCOL};

    use super::*;

    fn fields(name: HeaderName, values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn w01_subprotocols_are_tokens_in_one_or_several_fields() {
        let parse = |values: &[&str]| {
            let fields = fields(SEC_WEBSOCKET_PROTOCOL, values);
            parse_tokens(&fields, &SEC_WEBSOCKET_PROTOCOL)
                .map(|tokens| tokens.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(parse(&[]).unwrap(), [""; 0]);
        assert_eq!(parse(&["chat"]).unwrap(), ["chat"]);
        assert_eq!(
            parse(&["chat,\tv1.x , ,z", "", "last"]).unwrap(),
            ["chat", "v1.x", "z", "last"]
        );
        for wrong in [&["chat room"][..], &["chat;q=1"], &["\"chat\""], &["chat", "chat"], &["a/b"]]
        {
            assert_eq!(parse(wrong), Err(MalformedList), "{wrong:?}");
        }
    }

    #[test]
    fn r04_a_long_list_of_tokens_takes_time_by_its_length_not_by_its_square() {
        const COUNT: usize = 200_000;
        let mut list: Vec<String> = (0..COUNT).map(|n| format!("v{n:06}")).collect();
        let parse = |list: &[String]| {
            let fields = fields(SEC_WEBSOCKET_PROTOCOL, &[&list.join(",")]);
            parse_tokens(&fields, &SEC_WEBSOCKET_PROTOCOL).map(|tokens| tokens.len())
        };
        // Each with each: minutes.
        assert_eq!(parse(&list), Ok(COUNT));
        list.push("v000000".into());
        assert_eq!(parse(&list), Err(MalformedList));
    }

    #[test]
    fn w01_extensions_have_parameters_with_and_without_values() {
        let headers = fields(
            SEC_WEBSOCKET_EXTENSIONS,
            &["permessage-deflate; a ; b=15;c=\"1\\0\" , x", "y; d = e,"],
        );
        let found = parse_extensions(&headers, &SEC_WEBSOCKET_EXTENSIONS).unwrap();
        let names: Vec<_> = found.iter().map(|extension| extension.name).collect();
        assert_eq!(names, ["permessage-deflate", "x", "y"]);
        assert_eq!(found[0].parameters(), [("a", None), ("b", Some("15")), ("c", Some("10"))]);
        assert_eq!(found[1].parameters(), []);
        assert_eq!(found[2].parameters(), [("d", Some("e"))]);
    }

    #[test]
    fn w01_a_malformed_list_of_extensions_is_refused() {
        for wrong in [
            "a;",
            "a; =1",
            ";a",
            "a b",
            "a; b=",
            "a; b=\"",
            "a; b=\"x y\"",
            "a; b=\"\"",
            "a; b=\"x\\",
            "a; b=1 2",
            "a=1",
            "(",
        ] {
            let headers = fields(SEC_WEBSOCKET_EXTENSIONS, &[wrong]);
            let parsed = parse_extensions(&headers, &SEC_WEBSOCKET_EXTENSIONS);
            assert_eq!(parsed, Err(MalformedList), "{wrong}");
        }
    }
}
