//! Where a value comes from.

use std::fmt;
use std::path::PathBuf;

use super::value::RawValue;

/// Where a value comes from. The order is that of strength: a later source replaces an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// No source has set the key.
    Default,
    /// A line of the file.
    File {
        /// The path of the file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A variable of the environment.
    Variable(String),
    /// A flag of the command line.
    Flag(String),
}

/// A key that a source sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The name of the key in the file. A variable or flag without a key keeps its own name.
    pub name: String,
    /// The value.
    pub value: RawValue,
    /// The place.
    pub source: ConfigSource,
}

impl fmt::Display for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}
