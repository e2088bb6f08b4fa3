//! Cases about the head of a request.

pub(crate) mod fields;
pub(crate) mod host;
pub(crate) mod methods;
pub(crate) mod request_line;
pub(crate) mod targets;
pub(crate) mod versions;
