//! The JSON messages of the gateway, as far as the scenarios use them.

pub(crate) mod command;
pub(crate) mod server_message;
