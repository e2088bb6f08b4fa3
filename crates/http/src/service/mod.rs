//! Services: what answers requests.

pub(crate) mod into_response;
#[cfg(feature = "json")]
pub(crate) mod json;
pub(crate) mod path_params;
mod percent;
pub(crate) mod query;
pub(crate) mod request;
mod route_calls;
pub(crate) mod route_pattern;
mod route_tree;
pub(crate) mod router;
#[allow(clippy::module_inception, reason = "the trait has the name of its folder")]
pub(crate) mod service;
#[cfg(feature = "tower")]
pub(crate) mod tower;
