//! The file: TOML, with the line of each key.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::error::ConfigProblem;
use super::source::{ConfigEntry, ConfigSource};
use super::value::RawValue;

/// Maximum size of the file: the guide's table of all keys with their help is below 32 KiB.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads the file.
pub(super) fn read_file(path: &Path) -> Result<Vec<ConfigEntry>, ConfigProblem> {
    let read = || {
        let mut text = String::new();
        let read = File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
        if read as u64 > MAX_FILE_BYTES {
            let why = format!("it has more than {MAX_FILE_BYTES} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(text)
    };
    let text = read().map_err(|cause| ConfigProblem::Unreadable { path: path.into(), cause })?;
    parse(path, &text)
}

/// Reads the text of a file.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<ConfigEntry>, ConfigProblem> {
    let line_at = |at: usize| text.as_bytes().iter().take(at).filter(|b| **b == b'\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| ConfigProblem::Syntax {
        path: path.into(),
        line: line_at(error.span().map_or(0, |span| span.start)),
        message: error.message().to_owned(),
    })?;
    let mut entries = Vec::new();
    let source = |at| ConfigSource::File { path: path.into(), line: line_at(at) };
    collect("", table.get_ref(), &source, &mut entries);
    entries.sort_by_key(|entry| match &entry.source {
        ConfigSource::File { line, .. } => *line,
        _ => 0,
    });
    Ok(entries)
}

/// Collects the keys of a table and of the tables in it, with their full names. The parser bounds the depth.
fn collect(
    prefix: &str,
    table: &DeTable<'_>,
    source: &dyn Fn(usize) -> ConfigSource,
    entries: &mut Vec<ConfigEntry>,
) {
    for (key, value) in table {
        let name = format!("{prefix}{}", key.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) => collect(&format!("{name}."), inner, source, entries),
            value => {
                let source = source(key.span().start);
                entries.push(ConfigEntry { name, value: raw_value(value), source });
            }
        }
    }
}

fn raw_value(value: &DeValue<'_>) -> RawValue {
    match value {
        DeValue::String(text) => RawValue::Text(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => RawValue::Number(number.to_string()),
        DeValue::Integer(_) => RawValue::Other("a number that is not decimal"),
        DeValue::Boolean(is_on) => RawValue::Flag(*is_on),
        DeValue::Array(values) => {
            let texts = values.iter().map(|value| match value.get_ref() {
                DeValue::String(text) => Some(text.to_string()),
                _ => None,
            });
            let texts: Option<Vec<_>> = texts.collect();
            texts.map_or(RawValue::Other("an array of other things than texts"), RawValue::List)
        }
        DeValue::Float(_) => RawValue::Other("a fraction"),
        DeValue::Datetime(_) => RawValue::Other("a date or time"),
        DeValue::Table(_) => RawValue::Other("a table"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<(String, RawValue, String)> {
        let entries = parse(Path::new("g.toml"), text).unwrap();
        let shown = |entry: ConfigEntry| (entry.name, entry.value, entry.source.to_string());
        entries.into_iter().map(shown).collect()
    }

    #[test]
    fn g06_keys_of_the_file_have_their_tables_and_lines() {
        let text = "port = 7_001\n\n[tls]\n# The chain.\ncertificate = \"a.pem\"\n\
                    [tokens]\njwks = [\"a\",\n \"b\"]\nmust_expire = true\n";
        let expected = [
            ("port", RawValue::Number("7001".into()), "g.toml:1"),
            ("tls.certificate", RawValue::Text("a.pem".into()), "g.toml:5"),
            ("tokens.jwks", RawValue::List(vec!["a".into(), "b".into()]), "g.toml:7"),
            ("tokens.must_expire", RawValue::Flag(true), "g.toml:9"),
        ];
        let expected =
            expected.map(|(name, value, place)| (name.to_owned(), value, place.to_owned()));
        assert_eq!(entries(text), expected);
        assert_eq!(entries("tls.key = \"k\"")[0].0, "tls.key", "a dotted key is the same");
        assert_eq!(entries("")[..], []);
    }

    #[test]
    fn g06_a_file_that_is_not_toml_is_refused_with_the_line() {
        for (text, line) in [("port = 1\nport = 2\n", 2), ("a = 1\nb\n", 2), ("= 1", 1)] {
            let error = parse(Path::new("g.toml"), text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("g.toml:{line}: not TOML: ")), "{error}");
        }
        let deep = "[".repeat(100_000);
        assert!(parse(Path::new("g.toml"), &format!("a = {deep}")).is_err());
    }

    #[test]
    fn g06_a_file_that_cannot_be_read_or_is_too_large_is_named() {
        let error = read_file(Path::new("/does/not/exist.toml")).unwrap_err().to_string();
        assert!(error.starts_with("/does/not/exist.toml: the file cannot be read: "), "{error}");
        let error = read_file(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.contains("more than"), "{error}");
    }
}
