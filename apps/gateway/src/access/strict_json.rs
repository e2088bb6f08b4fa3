//! Objects of JSON without duplicate members: readers that disagree about which of two members counts can be played off
//! against each other (RFC 7519, 4).

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Reads an object. Duplicate members are refused at every depth; depth itself is limited by the parser, to 128.
///
/// # Errors
/// The bytes are not JSON, not an object, or a member comes twice.
pub fn read_object(bytes: &[u8]) -> Result<Map<String, Value>, serde_json::Error> {
    match serde_json::from_slice(bytes)? {
        UniqueValue(Value::Object(object)) => Ok(object),
        UniqueValue(_) => Err(serde_json::Error::custom("not an object")),
    }
}

/// A value whose objects have no duplicate members.
struct UniqueValue(Value);

impl<'de> Deserialize<'de> for UniqueValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(UniqueValue(value)) = elements.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((name, UniqueValue(value))) = members.next_entry::<String, _>()? {
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a member comes twice"));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g03_objects_are_read_as_serde_json_reads_them() {
        let text = r#"{"a":[1,-2,3.5,"x\n",null,true,{"b":{}}],"c":18446744073709551615}"#;
        let read = Value::Object(read_object(text.as_bytes()).unwrap());
        assert_eq!(read, serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn g03_duplicate_members_and_what_is_no_object_are_refused() {
        let deep = format!(r#"{{"a":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
        let of = [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"a":[{"b":1,"b":2}]}"#,
            r#"{"a":1}x"#,
            r#"{"a":1"#,
            r#"{"a":1e999}"#,
            "[]",
            "1",
            "",
            "{\"a\":\"\u{1}\"}",
            &deep,
        ];
        for text in of {
            assert!(read_object(text.as_bytes()).is_err(), "{text}");
        }
        assert!(read_object(b"{\"a\":\"\xff\"}").is_err());
    }
}
