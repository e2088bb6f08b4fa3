//! Processes of the gateway, and clients of its protocols.

pub(crate) mod events;
pub(crate) mod http;
pub(crate) mod lines;
pub(crate) mod process;
pub(crate) mod temp;
pub(crate) mod tls;

use std::time::Duration;

/// Upper bound of every wait; a test that reaches it fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
