//! The configuration: one table of keys, each with its name in the file, its variable and its flag.
//!
//! ```text
//!   defaults ◄─ file (TOML) ◄─ environment (WATERWHEEL_…) ◄─ flags        stronger to the right
//!                      └───────────┬───────────┘
//!                    KEYS: name, kind, place ──► GatewaySettings ──► rules ──► the parts of the gateway
//!                      └──► --help, the table of the guide
//! ```
//!
//! # Rules
//!
//! 1. A problem names the key, the place (file and line, variable or flag) and what is accepted. All problems are told, not
//!    only the first.
//! 2. A name that is not in the table is refused, with the nearest one that is.
//! 3. Secrets are never shown, and never accepted as flags.
//!
//! | to understand | read |
//! |---|---|
//! | which keys there are | [`key_table`], [`settings`], [`engine_settings`] |
//! | what a key is, and its names | [`key`], [`value`] |
//! | where values come from | [`source`], `toml_file`, [`environment`], [`flags`] |
//! | how they are put together | [`loader`], `rules` |
//! | the help and the guide | [`guide`] |

pub mod engine_settings;
pub mod environment;
pub mod error;
pub mod flags;
pub mod guide;
pub mod key;
pub mod key_table;
pub mod loader;
mod nearest;

mod rules;
pub mod settings;
pub mod source;
mod toml_file;
pub mod value;
