//! The stock accept guards (K10), asked about connections that a test describes.

mod support;

mod accept_rate;
mod address_limit;
mod network_filter;
mod properties;
