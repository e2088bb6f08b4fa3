//! A key of the configuration: its names, what it accepts, and its place in the settings.

use std::path::PathBuf;
use std::time::Duration;

use waterwheel::channel::Network;

use super::settings::GatewaySettings;
use super::value::{ConfigValue, RawValue, ShownValue, ValueKind};
use crate::access::secret::Secret;

/// The beginning of the names of all variables.
pub const VARIABLE_PREFIX: &str = "WATERWHEEL_";

/// A key of the configuration.
#[derive(Debug)]
pub struct ConfigKey {
    /// The name in the file: a table and a key with a dot between them, or a key before the first table.
    pub name: &'static str,
    /// The accepted values.
    pub kind: ValueKind,
    /// The word that stands for no value, if the key accepts one.
    pub off: Option<&'static str>,
    /// The sentence for the help and the guide.
    pub help: &'static str,
    /// True if SIGHUP applies a new value.
    pub can_reload: bool,
    /// Puts a value of the kind into the settings.
    pub(super) set: fn(&mut GatewaySettings, ConfigValue),
    /// Reads the value in the settings.
    pub(super) get: fn(&GatewaySettings) -> ConfigValue,
}

impl ConfigKey {
    /// Returns the name of the variable: `WATERWHEEL_TLS_CLIENT_CA`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("{VARIABLE_PREFIX}{}", self.name.replace('.', "_").to_uppercase())
    }

    /// Returns the name of the flag: `--tls-client-ca`.
    #[must_use]
    pub fn flag(&self) -> String {
        format!("--{}", self.name.replace(['.', '_'], "-"))
    }

    /// True if the value is not accepted as a flag, which any program of the machine can read.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.kind == ValueKind::Secret
    }

    /// Reads a value; `None` if the key does not accept it.
    #[must_use]
    pub fn read(&self, raw: &RawValue) -> Option<ConfigValue> {
        match (raw, self.off) {
            (RawValue::Text(text), Some(off)) if text == off => Some(ConfigValue::Off),
            _ => self.kind.read(raw),
        }
    }

    /// Returns the accepted values as a phrase.
    #[must_use]
    pub fn accepts(&self) -> String {
        match self.off {
            Some(off) => format!("{}, or {off}", self.kind),
            None => self.kind.to_string(),
        }
    }

    /// Shows the value in the settings; empty without one.
    #[must_use]
    pub fn shown_in(&self, settings: &GatewaySettings) -> String {
        match ((self.get)(settings), self.off) {
            (ConfigValue::Off, off) => off.unwrap_or_default().to_owned(),
            (value, _) => ShownValue(self.kind, &value).to_string(),
        }
    }
}

/// A field of the settings that a key can fill.
pub(super) trait ConfigField: Sized {
    /// Returns the field for a value; `None` if the value is of another kind, or too large.
    fn from_value(value: ConfigValue) -> Option<Self>;

    /// Returns the value of the field.
    fn to_value(&self) -> ConfigValue;
}

/// Fills a field. A value that does not fit is a fault of the table, which its tests find.
pub(super) fn fill<F: ConfigField>(field: &mut F, value: ConfigValue) {
    let value = F::from_value(value);
    *field = value.unwrap_or_else(|| unreachable!("the kind of the key is not that of its field"));
}

macro_rules! number_fields {
    ($($number:ty),*) => { $(impl ConfigField for $number {
        fn from_value(value: ConfigValue) -> Option<Self> {
            match value {
                ConfigValue::Number(number) => number.try_into().ok(),
                _ => None,
            }
        }

        fn to_value(&self) -> ConfigValue {
            ConfigValue::Number(u64::try_from(*self).unwrap_or(u64::MAX))
        }
    })* };
}

number_fields!(u8, u16, u32, u64, usize);

macro_rules! plain_fields {
    ($($variant:ident $field:ty,)*) => { $(impl ConfigField for $field {
        fn from_value(value: ConfigValue) -> Option<Self> {
            match value {
                ConfigValue::$variant(value) => Some(value),
                _ => None,
            }
        }

        fn to_value(&self) -> ConfigValue {
            ConfigValue::$variant(self.clone())
        }
    })* };
}

plain_fields! {
    Flag bool,
    Time Duration,
    Text String,
    List Vec<String>,
}

impl ConfigField for PathBuf {
    fn from_value(value: ConfigValue) -> Option<Self> {
        String::from_value(value).map(Self::from)
    }

    fn to_value(&self) -> ConfigValue {
        ConfigValue::Text(self.display().to_string())
    }
}

impl ConfigField for Vec<PathBuf> {
    fn from_value(value: ConfigValue) -> Option<Self> {
        Some(Vec::<String>::from_value(value)?.into_iter().map(PathBuf::from).collect())
    }

    fn to_value(&self) -> ConfigValue {
        ConfigValue::List(self.iter().map(|path| path.display().to_string()).collect())
    }
}

impl ConfigField for Vec<Network> {
    fn from_value(value: ConfigValue) -> Option<Self> {
        Vec::<String>::from_value(value)?.iter().map(|network| network.parse().ok()).collect()
    }

    fn to_value(&self) -> ConfigValue {
        ConfigValue::List(self.iter().map(ToString::to_string).collect())
    }
}

impl ConfigField for Secret {
    fn from_value(value: ConfigValue) -> Option<Self> {
        String::from_value(value).map(Self::new)
    }

    fn to_value(&self) -> ConfigValue {
        ConfigValue::Text(String::new()) // Never shown.
    }
}

impl<F: ConfigField> ConfigField for Option<F> {
    fn from_value(value: ConfigValue) -> Option<Self> {
        match value {
            ConfigValue::Off => Some(None),
            value => F::from_value(value).map(Some),
        }
    }

    fn to_value(&self) -> ConfigValue {
        self.as_ref().map_or(ConfigValue::Off, F::to_value)
    }
}

/// Implements [`ConfigField`] for an enum: the words of its variants.
macro_rules! choice_field {
    ($choice:ty { $($word:literal => $variant:path,)* }) => {
        impl $crate::config::key::ConfigField for $choice {
            fn from_value(value: $crate::config::value::ConfigValue) -> Option<Self> {
                match value {
                    $crate::config::value::ConfigValue::Text(word) => match word.as_str() {
                        $($word => Some($variant),)*
                        _ => None,
                    },
                    _ => None,
                }
            }

            fn to_value(&self) -> $crate::config::value::ConfigValue {
                let word = match self { $($variant => $word,)* };
                $crate::config::value::ConfigValue::Text(word.to_owned())
            }
        }
    };
}
pub(super) use choice_field;
