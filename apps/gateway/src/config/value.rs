//! Values as people write them: times, sizes, numbers, lists.

use std::fmt;
use std::time::Duration;

use waterwheel::channel::Network;

/// A value as a source has it, before its key is known to accept it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawValue {
    /// A text: a string of the file, or a variable or flag of any kind.
    Text(String),
    /// A number of the file, in its digits.
    Number(String),
    /// A truth value of the file.
    Flag(bool),
    /// An array of strings of the file.
    List(Vec<String>),
    /// A value of the file that no key accepts, such as a date or a table; its kind.
    Other(&'static str),
}

/// A value that its key has accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigValue {
    /// True or false.
    Flag(bool),
    /// A number, or a size in bytes.
    Number(u64),
    /// A time.
    Time(Duration),
    /// A text.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
    /// No value: the feature is off, or the gateway chooses.
    Off,
}

/// The values that a key accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// `true` or `false`.
    Flag,
    /// A whole number within these bounds.
    Count(u64, u64),
    /// A number of bytes within these bounds.
    Size(u64, u64),
    /// A time within these bounds.
    Time(Duration, Duration),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A text that is not empty.
    Text,
    /// The path of a file.
    Path,
    /// A text that is never shown, and not accepted as a flag.
    Secret,
    /// A list of texts.
    Texts,
    /// A list of paths.
    Paths,
    /// A list of networks, `10.0.0.0/8`, and addresses.
    Networks,
}

impl ValueKind {
    /// Reads a value; `None` if the key does not accept it.
    #[must_use]
    pub fn read(self, raw: &RawValue) -> Option<ConfigValue> {
        match (self, raw) {
            (Self::Flag, RawValue::Flag(is_on)) => Some(ConfigValue::Flag(*is_on)),
            (Self::Flag, RawValue::Text(text)) => text.parse().ok().map(ConfigValue::Flag),
            (Self::Count(min, max), RawValue::Text(text) | RawValue::Number(text)) => {
                let number: u64 = text.parse().ok()?;
                (min..=max).contains(&number).then_some(ConfigValue::Number(number))
            }
            (Self::Size(min, max), RawValue::Text(text) | RawValue::Number(text)) => {
                let bytes = read_size(text)?;
                (min..=max).contains(&bytes).then_some(ConfigValue::Number(bytes))
            }
            (Self::Time(min, max), RawValue::Text(text)) => {
                let time = read_time(text)?;
                (min..=max).contains(&time).then_some(ConfigValue::Time(time))
            }
            (Self::Choice(words), RawValue::Text(text)) => {
                words.contains(&text.as_str()).then(|| ConfigValue::Text(text.clone()))
            }
            (Self::Text | Self::Path | Self::Secret, RawValue::Text(text)) => {
                (!text.is_empty()).then(|| ConfigValue::Text(text.clone()))
            }
            (Self::Networks, _) => match Self::Texts.read(raw)? {
                ConfigValue::List(networks) => {
                    let are_valid = networks.iter().all(|each| each.parse::<Network>().is_ok());
                    are_valid.then_some(ConfigValue::List(networks))
                }
                _ => None,
            },
            (Self::Texts | Self::Paths, RawValue::List(texts)) => read_list(texts.iter()),
            (Self::Texts | Self::Paths, RawValue::Text(text)) if text.is_empty() => {
                Some(ConfigValue::List(Vec::new()))
            }
            (Self::Texts | Self::Paths, RawValue::Text(text)) => read_list(text.split(',')),
            _ => None,
        }
    }
}

/// The values that a key accepts, as a phrase: "a time from 1s to 1h".
impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("true or false"),
            Self::Count(min, max) => write!(f, "a number from {min} to {max}"),
            Self::Size(min, max) => write!(f, "a size from {} to {}", Size(*min), Size(*max)),
            Self::Time(min, max) => write!(f, "a time from {} to {}", Time(*min), Time(*max)),
            Self::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Self::Text => f.write_str("a text"),
            Self::Path => f.write_str("a path"),
            Self::Secret => f.write_str("a secret"),
            Self::Texts => f.write_str("a list of texts"),
            Self::Paths => f.write_str("a list of paths"),
            Self::Networks => f.write_str("a list of networks"),
        }
    }
}

/// Shows a value in a form that can be read again. Numbers are shown as sizes where the key has sizes.
pub struct ShownValue<'a>(pub ValueKind, pub &'a ConfigValue);

impl fmt::Display for ShownValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (ValueKind::Secret, _) => f.write_str("(hidden)"),
            (ValueKind::Size(..), ConfigValue::Number(bytes)) => Size(*bytes).fmt(f),
            (_, ConfigValue::Number(number)) => number.fmt(f),
            (_, ConfigValue::Flag(is_on)) => is_on.fmt(f),
            (_, ConfigValue::Time(time)) => Time(*time).fmt(f),
            (_, ConfigValue::Text(text)) => f.write_str(text),
            (_, ConfigValue::List(texts)) => f.write_str(&texts.join(",")),
            (_, ConfigValue::Off) => Ok(()),
        }
    }
}

fn read_list<'a, S: AsRef<str> + ?Sized + 'a>(
    texts: impl Iterator<Item = &'a S>,
) -> Option<ConfigValue> {
    let texts: Vec<_> = texts.map(|text| text.as_ref().trim().to_owned()).collect();
    texts.iter().all(|text| !text.is_empty()).then_some(ConfigValue::List(texts))
}

/// The units of times, the longest first.
const TIME_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// The units of sizes, the largest first in each system.
const SIZE_UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1000),
    ("B", 1),
];

/// Reads a time: numbers with units, the longest first: `90s`, `1m30s`, `0s`.
fn read_time(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let (mut millis, mut units) = (0u64, TIME_UNITS.iter());
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..end].parse().ok()?;
        let unit = rest[end..].split(|c: char| c.is_ascii_digit()).next()?;
        let (_, factor) = units.find(|(name, _)| *name == unit)?;
        millis = millis.checked_add(number.checked_mul(*factor)?)?;
        rest = &rest[end + unit.len()..];
    }
    (!text.trim().is_empty()).then(|| Duration::from_millis(millis))
}

/// Reads a size: bytes, or a number with a unit.
fn read_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let factor = match text[end..].trim_start() {
        "" => 1,
        unit => SIZE_UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.checked_mul(factor)
}

struct Time(Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        if millis == 0 {
            return f.write_str("0s");
        }
        let exact =
            TIME_UNITS.iter().find(|(_, factor)| millis.is_multiple_of(u128::from(*factor)));
        let (unit, factor) = exact.unwrap_or(&("ms", 1));
        write!(f, "{}{unit}", millis / u128::from(*factor))
    }
}

struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary =
            SIZE_UNITS[..3].iter().find(|(_, factor)| self.0.is_multiple_of(*factor) && self.0 > 0);
        match binary {
            Some((unit, factor)) => write!(f, "{}{unit}", self.0 / factor),
            None => self.0.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g06_times_have_units() {
        let millis = |text| read_time(text).map(|time| time.as_millis());
        let of = [("0s", 0), ("250ms", 250), ("90s", 90_000), ("1m30s", 90_000), ("2h", 7_200_000)];
        for (text, expected) in of {
            assert_eq!(millis(text), Some(expected), "{text}");
        }
        let wrong = ["", " ", "5", "s", "5 s", "1s1m", "1s2s", "-1s", "1.5s", "1y", "1ms5"];
        for text in wrong.into_iter().chain(["99999999999999999999s", "300000000000d"]) {
            assert_eq!(millis(text), None, "{text:?}");
        }
        for (text, shown) in [("90s", "90s"), ("60s", "1m"), ("48h", "2d"), ("1500ms", "1500ms")] {
            assert_eq!(Time(read_time(text).unwrap()).to_string(), shown);
        }
    }

    #[test]
    fn g06_sizes_have_units_of_1000_or_1024() {
        let of = [("0", 0), ("512", 512), ("64KiB", 65536), ("64 KiB", 65536), ("1kB", 1000)];
        for (text, bytes) in of {
            assert_eq!(read_size(text), Some(bytes), "{text}");
        }
        for text in ["", "KiB", "-1", "1.5MiB", "64k", "64Kib", "99999999999GiB"] {
            assert_eq!(read_size(text), None, "{text:?}");
        }
        for (bytes, shown) in [(0, "0"), (1000, "1000"), (65536, "64KiB"), (3 << 29, "1536MiB")] {
            assert_eq!(Size(bytes).to_string(), shown);
        }
    }

    #[test]
    fn g06_values_beyond_their_bounds_and_of_another_kind_are_refused() {
        let text = |text: &str| RawValue::Text(text.to_owned());
        let kind = ValueKind::Count(1, 10);
        assert_eq!(kind.read(&RawValue::Number("10".into())), Some(ConfigValue::Number(10)));
        for raw in [text("0"), text("11"), text("x"), RawValue::Flag(true)] {
            assert_eq!(kind.read(&raw), None, "{raw:?}");
        }
        assert_eq!(ValueKind::Text.read(&RawValue::Number("1".into())), None, "1 is no text");
        let time = ValueKind::Time(Duration::ZERO, Duration::from_secs(60));
        assert_eq!(time.read(&RawValue::Number("30".into())), None, "which unit?");
        let listed = ConfigValue::List(vec!["a".into(), "b".into()]);
        assert_eq!(ValueKind::Texts.read(&text("a, b")), Some(listed.clone()));
        let list = RawValue::List(vec!["a".into(), "b".into()]);
        assert_eq!(ValueKind::Texts.read(&list), Some(listed));
        assert_eq!(ValueKind::Texts.read(&text("a,,b")), None);
        assert_eq!(ValueKind::Flag.read(&text("yes")), None);
    }
}
