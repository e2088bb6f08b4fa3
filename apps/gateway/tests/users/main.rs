//! The gateway as its users know it: a browser, scripts of Python and Node, curl, and the client that the gateway serves.
//!
//! No test is skipped. A tool that is missing is a failure that names the command to install it.

mod client_for_browsers;
mod gateway;
mod guide;
mod metrics;
mod other_pages;
mod page;
mod reconnect_storm;
mod shared_topics;
mod slow_readers;
mod tokens;
mod tools;
