//! Reading the answers of scripts.

use waterwheel::bytes::Bytes;
use waterwheel::codec::RespValue;

use super::error_reply::unavailable;
use crate::engine::EngineError;
use crate::engine::position::Position;

/// The values of an answer, taken one after the other.
pub(in crate::engine::redis) struct ReplyValues(std::vec::IntoIter<RespValue>);

impl ReplyValues {
    /// Takes an answer apart.
    pub(in crate::engine::redis) fn of(answer: RespValue) -> Result<Self, EngineError> {
        match answer {
            RespValue::Array(values) => Ok(Self(values.into_iter())),
            other => Err(unexpected(&other)),
        }
    }

    /// True if nothing is left.
    pub(in crate::engine::redis) fn is_empty(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    /// Returns the next value as a number.
    pub(in crate::engine::redis) fn number(&mut self) -> Result<u64, EngineError> {
        match self.0.next() {
            Some(RespValue::Integer(number)) => {
                u64::try_from(number).map_err(|_| unexpected(&RespValue::Integer(number)))
            }
            Some(RespValue::Bulk(text)) => {
                let digits = std::str::from_utf8(&text).ok();
                let number = digits.and_then(|digits| digits.parse().ok());
                number.ok_or_else(|| unexpected(&RespValue::Bulk(text)))
            }
            other => Err(unexpected(&other.unwrap_or(RespValue::Null))),
        }
    }

    /// Returns the next value as bytes.
    pub(in crate::engine::redis) fn bytes(&mut self) -> Result<Bytes, EngineError> {
        match self.0.next() {
            Some(RespValue::Bulk(bytes)) => Ok(bytes),
            other => Err(unexpected(&other.unwrap_or(RespValue::Null))),
        }
    }

    /// Returns the next value as a text.
    pub(in crate::engine::redis) fn text(&mut self) -> Result<String, EngineError> {
        let bytes = self.bytes()?;
        let text = std::str::from_utf8(&bytes).map(str::to_owned);
        text.map_err(|_| unexpected(&RespValue::Bulk(bytes)))
    }

    /// Returns the next two values as a position.
    pub(in crate::engine::redis) fn position(&mut self) -> Result<Position, EngineError> {
        let epoch = self.text()?;
        let epoch = u32::from_str_radix(&epoch, 16);
        let epoch = epoch.map_err(|_| unavailable("the epoch in Redis is no number"))?;
        Ok(Position { epoch, sequence: self.number()? })
    }
}

fn unexpected(value: &RespValue) -> EngineError {
    let mut shown = format!("{value:?}");
    if let Some((end, _)) = shown.char_indices().nth(200) {
        shown.truncate(end);
    }
    unavailable(format!("an answer has an unexpected part: {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g08_answers_are_read_value_by_value_and_others_are_errors() {
        let values = || {
            let values = vec![
                RespValue::bulk("0000001f"),
                RespValue::Integer(7),
                RespValue::bulk("12"),
                RespValue::bulk("text"),
            ];
            ReplyValues::of(RespValue::Array(values)).unwrap()
        };
        let mut read = values();
        assert_eq!(read.position().unwrap(), Position { epoch: 0x1f, sequence: 7 });
        assert_eq!(read.number().unwrap(), 12);
        assert_eq!(read.text().unwrap(), "text");
        assert!(read.is_empty());
        assert!(read.number().is_err() && read.bytes().is_err());
        assert!(values().number().is_err(), "1f is no number");
        assert!(ReplyValues::of(RespValue::Integer(1)).is_err());
        let long = RespValue::Error("ä".repeat(10_000).into());
        assert!(ReplyValues::of(long).err().unwrap().to_string().len() < 1_000);
    }
}
