//! The command line: a flag for each key, and those that say what the program does.

use std::path::PathBuf;

use super::error::ConfigProblem;
use super::key_table::{KEYS, find_flag};
use super::nearest::nearest_name;
use super::source::{ConfigEntry, ConfigSource};
use super::value::{RawValue, ValueKind};

/// The task that the command line gives the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProgramAction {
    /// Serve.
    #[default]
    Run,
    /// Read the configuration and the files that it names, say what is wrong, and end.
    Check,
    /// Print the flags, and end.
    Help,
    /// Print the version, and end.
    Version,
}

/// The flags that are not keys, with their help.
pub(super) const OTHER_FLAGS: [(&str, &str); 4] = [
    ("--config FILE", "The configuration file (TOML)"),
    ("--check", "Check the configuration and the files that it names, and end"),
    ("--help", "Print this help, and end"),
    ("--version", "Print the version, and end"),
];

/// The command line.
#[derive(Debug, Default)]
pub(super) struct CommandLine {
    pub(super) action: ProgramAction,
    pub(super) file: Option<PathBuf>,
    pub(super) entries: Vec<ConfigEntry>,
    pub(super) problems: Vec<ConfigProblem>,
}

/// Reads the arguments after the name of the program.
pub(super) fn read_flags(arguments: impl IntoIterator<Item = String>) -> CommandLine {
    let mut line = CommandLine::default();
    let mut arguments = arguments.into_iter().peekable();
    while let Some(argument) = arguments.next() {
        if argument == "-h" {
            line.action = ProgramAction::Help;
            continue;
        }
        if !argument.starts_with("--") {
            line.problems.push(ConfigProblem::Stray { argument });
            continue;
        }
        let (flag, value) = match argument.split_once('=') {
            Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
            None => (argument, None),
        };
        let mut next = || value.clone().or_else(|| arguments.next_if(|next| !is_flag(next)));
        match flag.as_str() {
            "--help" => line.action = ProgramAction::Help,
            "--version" => line.action = ProgramAction::Version,
            "--check" => line.action = ProgramAction::Check,
            "--config" => match next() {
                Some(path) => line.file = Some(path.into()),
                None => line.problems.push(ConfigProblem::MissingValue {
                    flag,
                    accepts: String::from("the path of a file"),
                }),
            },
            _ => match read_flag(flag, value.as_deref(), &mut next) {
                Ok(entry) => line.entries.push(entry),
                Err(problem) => line.problems.push(problem),
            },
        }
    }
    line
}

/// Reads the flag of a key.
fn read_flag(
    flag: String,
    own_value: Option<&str>,
    next: &mut dyn FnMut() -> Option<String>,
) -> Result<ConfigEntry, ConfigProblem> {
    let Some(key) = find_flag(&flag) else {
        let known = KEYS.iter().filter(|key| !key.is_secret()).map(|key| key.flag());
        let others = OTHER_FLAGS.iter().map(|(flag, _)| flag.split(' ').next().unwrap_or(flag));
        let nearest = nearest_name(&flag, known.chain(others.map(String::from)));
        let place = ConfigSource::Flag(String::from("command line"));
        return Err(ConfigProblem::UnknownKey { name: flag, place, nearest });
    };
    if key.is_secret() {
        let variable = key.variable();
        // Takes the value along, so that it is not reported as a stray argument.
        next();
        return Err(ConfigProblem::SecretFlag { flag, variable, name: key.name });
    }
    let value = match (key.kind, own_value) {
        // A flag of a truth value stands alone; the next argument is not its value.
        (ValueKind::Flag, None) => RawValue::Flag(true),
        _ => match next() {
            Some(value) => RawValue::Text(value),
            None => return Err(ConfigProblem::MissingValue { flag, accepts: key.accepts() }),
        },
    };
    Ok(ConfigEntry { name: key.name.to_owned(), value, source: ConfigSource::Flag(flag) })
}

fn is_flag(argument: &str) -> bool {
    argument.starts_with("--")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &str) -> CommandLine {
        read_flags(arguments.split_whitespace().map(String::from))
    }

    #[test]
    fn g06_flags_have_their_value_behind_or_beside_them() {
        let line = read("--port 7001 --bind=::1 --open --config g.toml --check");
        let values: Vec<_> =
            line.entries.iter().map(|entry| (entry.name.as_str(), entry.value.clone())).collect();
        let expected = [
            ("port", RawValue::Text("7001".into())),
            ("bind", RawValue::Text("::1".into())),
            ("open", RawValue::Flag(true)),
        ];
        assert_eq!(values, expected);
        assert_eq!((line.action, line.file), (ProgramAction::Check, Some("g.toml".into())));
        assert!(line.problems.is_empty(), "{:?}", line.problems);
        assert_eq!(read("--open=false").entries[0].value, RawValue::Text("false".into()));
        assert_eq!(read("-h").action, ProgramAction::Help);
    }

    #[test]
    fn g06_wrong_flags_are_refused_with_the_nearest_one() {
        let problem = |arguments| read(arguments).problems[0].to_string();
        assert!(problem("--prot 1").ends_with("there is no key --prot; --port is the nearest one"));
        assert!(problem("--hepl").ends_with("--help is the nearest one"));
        assert_eq!(problem("--port"), "--port needs a value: a number from 0 to 65535");
        assert_eq!(problem("--port --open"), "--port needs a value: a number from 0 to 65535");
        assert!(problem("serve").starts_with("the argument \"serve\" is not a flag"));
    }

    #[test]
    fn g06_a_secret_is_no_flag_and_is_not_repeated() {
        let line = read("--admin-key 0123456789abcdef0123456789abcdef");
        let told = line.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(told.contains("set WATERWHEEL_ADMIN_KEY, or admin.key in the file"), "{told}");
        assert!(line.problems.len() == 1 && !told.contains("0123"), "{told}");
    }
}
