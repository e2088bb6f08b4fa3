//! The client that asks for an operation.

use std::net::IpAddr;
use std::sync::Arc;

use crate::access::identity::ClientIdentity;

/// The client that asks for an operation: a session, or a request of HTTP.
#[derive(Clone, Debug)]
pub struct Requester {
    /// The identity that the credential proves.
    pub identity: ClientIdentity,
    /// The name that the client chose, if it has one.
    pub name: Option<Arc<str>>,
    /// The address of the client; `None` for local sockets.
    pub peer: Option<IpAddr>,
}

impl Requester {
    /// Returns the user that others see: the token's, or else the name that the client chose.
    #[must_use]
    pub fn user(&self) -> Option<&Arc<str>> {
        self.identity.user.as_ref().or(self.name.as_ref())
    }
}
