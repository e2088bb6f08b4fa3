//! Problems of a configuration, for the operator: each names the key, the source and what is accepted.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::source::ConfigSource;

/// A problem of a configuration.
#[derive(Debug, Error)]
pub enum ConfigProblem {
    /// The file cannot be read.
    #[error("{}: the file cannot be read: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// The file is not TOML.
    #[error("{}:{line}: not TOML: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The message of the parser.
        message: String,
    },
    /// No key has this name.
    #[error("{place}: there is no key {name}{}", suggestion(nearest.as_deref()))]
    UnknownKey {
        /// The name.
        name: String,
        /// The place.
        place: ConfigSource,
        /// The known name that is most alike.
        nearest: Option<String>,
    },
    /// A source sets a key twice.
    #[error("{place}: {name} is set twice")]
    Repeated {
        /// The key.
        name: String,
        /// The second place.
        place: ConfigSource,
    },
    /// A key does not accept a value.
    #[error("{place}: {name} = {shown} is not accepted: {name} is {accepts}")]
    Value {
        /// The key.
        name: &'static str,
        /// The place.
        place: ConfigSource,
        /// The value; hidden if it is a secret.
        shown: String,
        /// The accepted values.
        accepts: String,
    },
    /// A flag stands at the end, without the value that it needs.
    #[error("{flag} needs a value: {accepts}")]
    MissingValue {
        /// The flag.
        flag: String,
        /// The accepted values.
        accepts: String,
    },
    /// An argument is not a flag.
    #[error("the argument {argument:?} is not a flag; flags begin with --, see --help")]
    Stray {
        /// The argument.
        argument: String,
    },
    /// A secret is given as a flag.
    #[error(
        "{flag} is not accepted: other programs of this machine can read flags; set {variable}, or {name} in the file"
    )]
    SecretFlag {
        /// The flag.
        flag: String,
        /// The variable of the key.
        variable: String,
        /// The key.
        name: &'static str,
    },
    /// A value does not go with another one.
    #[error("{place}: {name} {message}")]
    Conflict {
        /// The key.
        name: &'static str,
        /// The place of its value.
        place: ConfigSource,
        /// The rule.
        message: String,
    },
}

/// All problems of a configuration; at least one.
#[derive(Debug)]
pub struct ConfigProblems(pub Vec<ConfigProblem>);

impl fmt::Display for ConfigProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if at > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigProblems {}

impl From<ConfigProblem> for ConfigProblems {
    fn from(problem: ConfigProblem) -> Self {
        Self(vec![problem])
    }
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; {name} is the nearest one")).unwrap_or_default()
}
