//! The members of an object of JSON, read one by one, with errors that name them.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error_code::{ErrorCode, GatewayError};

/// Maximum number of members of an object: more than any command has.
const MAX_MEMBERS: usize = 16;

/// The bytes of an unknown name that an error repeats.
const SHOWN_BYTES: usize = 32;

/// The members of an object, in their order, with values that are not read yet.
pub(in crate::protocols) struct Members<'a>(pub(in crate::protocols) Vec<(String, &'a RawValue)>);

/// The fields of an object with a name.
pub(in crate::protocols) struct Fields<'a> {
    /// The name of the object, for errors; empty if it has none.
    object: &'static str,
    members: Members<'a>,
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<String, &'de RawValue>()? {
                    if members.len() == MAX_MEMBERS {
                        return Err(serde::de::Error::custom("too many members"));
                    }
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

impl<'a> Fields<'a> {
    /// Reads an object with these fields.
    ///
    /// # Errors
    /// `invalid_field`: the value is no object, or has another field, or one twice.
    pub(in crate::protocols) fn read(
        object: &'static str,
        value: &'a RawValue,
        known: &[&str],
    ) -> Result<Self, GatewayError> {
        let accepted = match known {
            [] => String::from("no fields"),
            known => known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        };
        let Ok(members) = serde_json::from_str::<Members<'a>>(value.get()) else {
            let message = format!("{} must be an object with {accepted}", subject(object));
            return Err(invalid(message));
        };
        for (at, (name, _)) in members.0.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let name = shown(name);
                let message = format!("{} has no field {name}, but {accepted}", subject(object));
                return Err(invalid(message));
            }
            if members.0[..at].iter().any(|(before, _)| before == name) {
                return Err(invalid(format!("{} is there twice", path(object, name))));
            }
        }
        Ok(Self { object, members })
    }

    /// Returns a value as it was written. `null` is a value.
    pub(in crate::protocols) fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.members.0.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// Returns a text; `None` if it is missing or `null`.
    pub(in crate::protocols) fn text(&self, name: &str) -> Result<Option<String>, GatewayError> {
        self.value(name, "a string")
    }

    /// Returns a text that must be there.
    pub(in crate::protocols) fn required_text(&self, name: &str) -> Result<String, GatewayError> {
        self.text(name)?.ok_or_else(|| invalid(format!("{} is missing", path(self.object, name))))
    }

    /// Returns a truth value; false if it is missing or `null`.
    pub(in crate::protocols) fn flag(&self, name: &str) -> Result<bool, GatewayError> {
        Ok(self.value(name, "true or false")?.unwrap_or(false))
    }

    /// Returns a number of at least 1; `None` if it is missing or `null`.
    pub(in crate::protocols) fn count(&self, name: &str) -> Result<Option<usize>, GatewayError> {
        let count = self.value::<u64>(name, "an integer from 1")?;
        match count {
            Some(0) => {
                let message = format!("{} must be an integer from 1", path(self.object, name));
                Err(invalid(message))
            }
            count => Ok(count.map(|count| usize::try_from(count).unwrap_or(usize::MAX))),
        }
    }

    fn value<T: DeserializeOwned>(
        &self,
        name: &str,
        kind: &str,
    ) -> Result<Option<T>, GatewayError> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        serde_json::from_str::<Option<T>>(raw.get())
            .map_err(|_| invalid(format!("{} must be {kind}", path(self.object, name))))
    }
}

/// Returns the error of a field.
pub(in crate::protocols) fn invalid(message: impl Into<String>) -> GatewayError {
    GatewayError::new(ErrorCode::InvalidField, message.into())
}

/// Returns a text of a client for an error: shortened, quoted and escaped.
pub(in crate::protocols) fn shown(text: &str) -> String {
    let end = text.floor_char_boundary(SHOWN_BYTES);
    match end < text.len() {
        true => format!("{:?}…", &text[..end]),
        false => format!("{text:?}"),
    }
}

fn subject(object: &str) -> String {
    match object {
        "" => String::from("the body"),
        object => format!("`{object}`"),
    }
}

fn path(object: &str, name: &str) -> String {
    match object {
        "" => format!("`{name}`"),
        object => format!("`{object}.{name}`"),
    }
}
