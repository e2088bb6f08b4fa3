//! The environment: a variable for each key.

use super::key::VARIABLE_PREFIX;
use super::key_table::find_variable;
use super::source::{ConfigEntry, ConfigSource};
use super::value::RawValue;

/// The variable with the path of the file.
pub const FILE_VARIABLE: &str = "WATERWHEEL_CONFIG";

/// Variables with the prefix that are not keys: the path of the file, the sign of a take-over, and those of the project's
/// tests.
const OTHER_VARIABLES: [&str; 5] = [
    FILE_VARIABLE,
    "WATERWHEEL_TAKE_OVER",
    "WATERWHEEL_SEED",
    "WATERWHEEL_SOAK",
    "WATERWHEEL_FUZZ",
];

/// Returns the keys that variables set. An empty variable counts as not set. A variable with the prefix that belongs to no
/// key keeps its own name.
pub(super) fn read_variables(
    variables: impl IntoIterator<Item = (String, String)>,
) -> Vec<ConfigEntry> {
    let is_ours =
        |name: &str| name.starts_with(VARIABLE_PREFIX) && !OTHER_VARIABLES.contains(&name);
    let set = variables.into_iter().filter(|(name, value)| is_ours(name) && !value.is_empty());
    let mut entries: Vec<_> = set
        .map(|(variable, value)| ConfigEntry {
            name: find_variable(&variable).map_or_else(|| variable.clone(), |key| key.name.into()),
            value: RawValue::Text(value),
            source: ConfigSource::Variable(variable),
        })
        .collect();
    // The order of the environment is not one that people see.
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g06_variables_set_keys_and_empty_or_foreign_ones_do_not() {
        let variables = [
            ("WATERWHEEL_PORT", "7001"),
            ("WATERWHEEL_TLS_CLIENT_CA", "ca.pem"),
            ("WATERWHEEL_BIND", ""),
            ("WATERWHEEL_CONFIG", "g.toml"),
            ("WATERWHEEL_PROT", "1"),
            ("PATH", "/bin"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let entries = read_variables(variables);
        let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["WATERWHEEL_PROT", "port", "tls.client_ca"]);
        assert_eq!(entries[1].source.to_string(), "WATERWHEEL_PORT");
    }
}
