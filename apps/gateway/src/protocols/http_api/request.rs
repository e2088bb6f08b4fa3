//! The parts of a request that all routes look at.

use std::borrow::Cow;
use std::net::IpAddr;

use waterwheel::channel::{Address, Channel};
use waterwheel::http::{Request, query_pairs};

use crate::access::credential::credential_of;
use crate::error_code::{ErrorCode, GatewayError};
use crate::protocols::json::fields::invalid;

/// The parts of a request that all routes look at: its query, its credential and the address that it comes from.
pub(in crate::protocols) struct RequestFacts<'a> {
    request: &'a Request,
    query: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> RequestFacts<'a> {
    pub(in crate::protocols) fn of(request: &'a Request) -> Self {
        Self { request, query: query_pairs(request.uri()).collect() }
    }

    /// Returns the address of the client; `None` for local sockets.
    pub(in crate::protocols) fn peer(&self) -> Option<IpAddr> {
        match self.request.body().channel().and_then(Channel::peer_address) {
            Some(Address::Ip(address)) => Some(address.ip()),
            _ => None,
        }
    }

    /// Returns the token or the admin key of the request.
    ///
    /// # Errors
    /// `token_invalid`: the field `Authorization` is malformed.
    pub(in crate::protocols) fn credential(&self) -> Result<Option<&str>, GatewayError> {
        let field = self.request.header("authorization").map(|value| {
            std::str::from_utf8(value).map_err(|_| {
                let message = "the field Authorization is not text";
                GatewayError::new(ErrorCode::TokenInvalid, message)
            })
        });
        credential_of(field.transpose()?, self.first("token"))
    }

    /// Returns all values of a parameter.
    pub(in crate::protocols) fn all(&self, name: &'a str) -> impl Iterator<Item = &str> {
        self.query.iter().filter(move |(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Returns the value of a parameter.
    pub(in crate::protocols) fn first(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Returns the value of a parameter that must be there.
    pub(in crate::protocols) fn required(&self, name: &str) -> Result<&str, GatewayError> {
        self.first(name).ok_or_else(|| invalid(format!("the parameter `{name}` is missing")))
    }

    /// Returns a number of at least 1; `None` if there is none.
    pub(in crate::protocols) fn count(&self, name: &str) -> Result<Option<usize>, GatewayError> {
        let count = self.first(name).map(|text| match text.parse() {
            Ok(0) | Err(_) => {
                Err(invalid(format!("the parameter `{name}` must be an integer from 1")))
            }
            Ok(count) => Ok(count),
        });
        count.transpose()
    }
}
