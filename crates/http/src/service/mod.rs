//! Services: what answers requests.

pub(crate) mod into_response;
#[allow(clippy::module_inception, reason = "the trait has the name of its folder")]
pub(crate) mod service;
