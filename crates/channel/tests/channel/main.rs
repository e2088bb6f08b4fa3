//! Channels: registration, lifecycle, and users and transports that misuse them.

mod lifecycle;
mod misuse;
