//! The negotiation of permessage-deflate, by the rules of RFC 7692, section 7.1.
//!
//! | parameter | in an offer | in a response |
//! |---|---|---|
//! | `server_no_context_takeover` | asks the server for it: the response has to have it | may be there without an offer |
//! | `client_no_context_takeover` | the client will do so | asks the client for it, offered or not |
//! | `server_max_window_bits=8..15` | asks the server for it: the response has the same or less | may be there without an offer |
//! | `client_max_window_bits` | the client can be asked; a value is what it will use at the most | only if offered, and not more |
//!
//! The server declines an offer with anything else: a parameter that is unknown, repeated, or has a value that is not one of
//! these. The client fails if the response has such a parameter.

use super::options::DeflateOptions;
use super::parameters::{
    CLIENT_MAX_WINDOW_BITS, CLIENT_NO_CONTEXT_TAKEOVER, DeflateParameters, EXTENSION_NAME,
    MAX_WINDOW_BITS, SERVER_MAX_WINDOW_BITS, SERVER_NO_CONTEXT_TAKEOVER, put_bits, put_flag,
};

/// A parameter of an element of `Sec-WebSocket-Extensions`: its name, and its value without quotes if it has one.
type Parameter<'a> = (&'a str, Option<&'a str>);

impl DeflateOptions {
    /// Appends the element of a client's `Sec-WebSocket-Extensions` that offers permessage-deflate with these options.
    ///
    /// ```
    /// use waterwheel_websocket::DeflateOptions;
    ///
    /// let mut offer = String::new();
    /// DeflateOptions::builder().context_takeover(true).build()?.put_offer(&mut offer);
    /// assert_eq!(offer, "permessage-deflate; server_no_context_takeover; client_max_window_bits");
    /// # Ok::<(), waterwheel_websocket::InvalidDeflateOption>(())
    /// ```
    pub fn put_offer(&self, out: &mut String) {
        out.push_str(EXTENSION_NAME);
        put_flag(out, SERVER_NO_CONTEXT_TAKEOVER, !self.peer_context_takeover);
        put_flag(out, CLIENT_NO_CONTEXT_TAKEOVER, !self.context_takeover);
        put_bits(out, SERVER_MAX_WINDOW_BITS, smaller_window(self.peer_window_bits));
        match smaller_window(self.window_bits) {
            None => put_flag(out, CLIENT_MAX_WINDOW_BITS, true),
            bits => put_bits(out, CLIENT_MAX_WINDOW_BITS, bits),
        }
    }

    /// Returns what a server with these options agrees on: the first of a client's offers of permessage-deflate that it can
    /// accept, each given as its parameters. `None` if there is no such offer; then messages are not compressed.
    ///
    /// ```
    /// use waterwheel_websocket::DeflateOptions;
    ///
    /// let offers = [vec![("client_max_window_bits", None), ("server_max_window_bits", Some("10"))]];
    /// let agreed = DeflateOptions::default().negotiate(offers).unwrap();
    /// assert_eq!(agreed.server_max_window_bits(), 10);
    /// let mut response = String::new();
    /// agreed.put_response(&mut response);
    /// assert!(response.starts_with("permessage-deflate; server_no_context_takeover; "));
    /// ```
    pub fn negotiate<'a, O>(&self, offers: impl IntoIterator<Item = O>) -> Option<DeflateParameters>
    where
        O: AsRef<[(&'a str, Option<&'a str>)]>,
    {
        offers.into_iter().find_map(|offer| self.accept(offer.as_ref()))
    }

    fn accept(&self, offer: &[Parameter<'_>]) -> Option<DeflateParameters> {
        let offer = ParsedParameters::parse(offer).ok()?;
        let server_bits = match offer.server_max_window_bits {
            Some(limit) => Some(self.window_bits.min(limit)),
            None => smaller_window(self.window_bits),
        };
        let (client_bits, can_be_asked) = match offer.client_max_window_bits {
            Some(WindowBits::Value(hint)) => (Some(self.peer_window_bits.min(hint)), true),
            Some(WindowBits::NoValue) => (smaller_window(self.peer_window_bits), true),
            None => (None, self.peer_window_bits == MAX_WINDOW_BITS),
        };
        let client_no_context_takeover =
            offer.client_no_context_takeover || !self.peer_context_takeover || !can_be_asked;
        Some(DeflateParameters {
            server_no_context_takeover: offer.server_no_context_takeover || !self.context_takeover,
            client_no_context_takeover,
            server_max_window_bits: server_bits,
            client_max_window_bits: client_bits,
        })
    }

    /// Returns what a client with these options has agreed on, given the parameters of permessage-deflate in the server's
    /// response to its [offer](Self::put_offer).
    ///
    /// # Errors
    /// The response does not fit the offer: the connection has to be failed.
    pub fn check_response(
        &self,
        response: &[(&str, Option<&str>)],
    ) -> Result<DeflateParameters, DeflateNegotiationError> {
        let response = ParsedParameters::parse(response)?;
        if !self.peer_context_takeover && !response.server_no_context_takeover {
            return Err(DeflateNegotiationError::Missing { name: SERVER_NO_CONTEXT_TAKEOVER });
        }
        let server_bits = response.server_max_window_bits;
        if server_bits.is_none() && self.peer_window_bits < MAX_WINDOW_BITS {
            return Err(DeflateNegotiationError::Missing { name: SERVER_MAX_WINDOW_BITS });
        }
        check_window(SERVER_MAX_WINDOW_BITS, server_bits, self.peer_window_bits)?;
        let client_bits = match response.client_max_window_bits {
            None => smaller_window(self.window_bits),
            Some(WindowBits::Value(bits)) => Some(bits),
            Some(WindowBits::NoValue) => {
                return Err(DeflateNegotiationError::invalid(CLIENT_MAX_WINDOW_BITS, None));
            }
        };
        check_window(CLIENT_MAX_WINDOW_BITS, client_bits, self.window_bits)?;
        Ok(DeflateParameters {
            server_no_context_takeover: response.server_no_context_takeover,
            client_no_context_takeover: response.client_no_context_takeover
                || !self.context_takeover,
            server_max_window_bits: server_bits,
            client_max_window_bits: client_bits,
        })
    }
}

/// Why a client cannot accept what a server's response says about permessage-deflate.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeflateNegotiationError {
    /// A parameter that permessage-deflate does not have.
    #[error("permessage-deflate has no parameter {name:?}")]
    Unknown {
        /// The name; of a long one the beginning.
        name: String,
    },
    /// A parameter that stands there twice.
    #[error("the parameter {name} of permessage-deflate is repeated")]
    Repeated {
        /// The name of the parameter.
        name: &'static str,
    },
    /// A parameter with a value that it cannot have, or without one.
    #[error("the parameter {name} of permessage-deflate has {}", describe_value(value))]
    InvalidValue {
        /// The name of the parameter.
        name: &'static str,
        /// The value; of a long one the beginning.
        value: Option<String>,
    },
    /// A parameter that the server has to accept with the offer.
    #[error("the parameter {name} of permessage-deflate was offered, and the response lacks it")]
    Missing {
        /// The name of the parameter.
        name: &'static str,
    },
    /// A window larger than the offered one.
    #[error("the parameter {name} of permessage-deflate is {bits}, at most {offered} was offered")]
    TooLarge {
        /// The name of the parameter.
        name: &'static str,
        /// The value of the response.
        bits: u8,
        /// The value of the offer.
        offered: u8,
    },
}

/// The most characters of a peer's name or value that an error keeps.
const MAX_SHOWN: usize = 40;

impl DeflateNegotiationError {
    fn invalid(name: &'static str, value: Option<&str>) -> Self {
        Self::InvalidValue { name, value: value.map(shorten) }
    }
}

/// Returns the beginning of a peer's text, for an error.
pub(crate) fn shorten(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

fn describe_value(value: &Option<String>) -> String {
    match value {
        Some(value) => format!("the value {value:?}"),
        None => "no value".to_owned(),
    }
}

/// The parameters of an offer or a response, each of them valid by itself.
#[derive(Clone, Copy, Debug, Default)]
struct ParsedParameters {
    server_no_context_takeover: bool,
    client_no_context_takeover: bool,
    server_max_window_bits: Option<u8>,
    client_max_window_bits: Option<WindowBits>,
}

/// The value of `client_max_window_bits`, which an offer may leave out.
#[derive(Clone, Copy, Debug)]
enum WindowBits {
    NoValue,
    Value(u8),
}

impl ParsedParameters {
    fn parse(parameters: &[Parameter<'_>]) -> Result<Self, DeflateNegotiationError> {
        let mut parsed = Self::default();
        for &(name, value) in parameters {
            match name {
                SERVER_NO_CONTEXT_TAKEOVER => {
                    let flag = &mut parsed.server_no_context_takeover;
                    set_flag(flag, SERVER_NO_CONTEXT_TAKEOVER, value)?;
                }
                CLIENT_NO_CONTEXT_TAKEOVER => {
                    let flag = &mut parsed.client_no_context_takeover;
                    set_flag(flag, CLIENT_NO_CONTEXT_TAKEOVER, value)?;
                }
                SERVER_MAX_WINDOW_BITS => {
                    let bits = parse_bits(SERVER_MAX_WINDOW_BITS, value)?;
                    set_once(&mut parsed.server_max_window_bits, SERVER_MAX_WINDOW_BITS, bits)?;
                }
                CLIENT_MAX_WINDOW_BITS => {
                    let bits = match value {
                        None => WindowBits::NoValue,
                        value => WindowBits::Value(parse_bits(CLIENT_MAX_WINDOW_BITS, value)?),
                    };
                    set_once(&mut parsed.client_max_window_bits, CLIENT_MAX_WINDOW_BITS, bits)?;
                }
                name => return Err(DeflateNegotiationError::Unknown { name: shorten(name) }),
            }
        }
        Ok(parsed)
    }
}

fn set_flag(
    flag: &mut bool,
    name: &'static str,
    value: Option<&str>,
) -> Result<(), DeflateNegotiationError> {
    if value.is_some() {
        return Err(DeflateNegotiationError::invalid(name, value));
    }
    if std::mem::replace(flag, true) {
        return Err(DeflateNegotiationError::Repeated { name });
    }
    Ok(())
}

fn set_once<T>(
    place: &mut Option<T>,
    name: &'static str,
    value: T,
) -> Result<(), DeflateNegotiationError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(DeflateNegotiationError::Repeated { name }),
    }
}

/// Parses 8 to 15, without leading zeros.
fn parse_bits(name: &'static str, value: Option<&str>) -> Result<u8, DeflateNegotiationError> {
    match value.map(str::as_bytes) {
        Some(&[digit @ b'8'..=b'9']) => Ok(digit - b'0'),
        Some(&[b'1', digit @ b'0'..=b'5']) => Ok(10 + digit - b'0'),
        _ => Err(DeflateNegotiationError::invalid(name, value)),
    }
}

/// Returns the window if it is smaller than that of DEFLATE itself.
fn smaller_window(bits: u8) -> Option<u8> {
    (bits < MAX_WINDOW_BITS).then_some(bits)
}

fn check_window(
    name: &'static str,
    bits: Option<u8>,
    offered: u8,
) -> Result<(), DeflateNegotiationError> {
    match bits {
        Some(bits) if bits > offered => {
            Err(DeflateNegotiationError::TooLarge { name, bits, offered })
        }
        _ => Ok(()),
    }
}
