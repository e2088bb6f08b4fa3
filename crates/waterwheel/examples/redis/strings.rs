//! Commands on strings and counters.

use waterwheel::bytes::{Bytes, BytesMut};
use waterwheel::codec::{RespCommand, RespValue};

use crate::commands::{Reply, SYNTAX_ERROR, WRONG_TYPE, error, integer, ok};
use crate::keys::deadline;
use crate::shard::Shard;
use crate::store::{Millis, Store, Value};

pub(crate) fn get(shard: &mut Shard, command: &RespCommand) -> Reply {
    text(&mut shard.store, &command[1]).map(|text| text.map_or(RespValue::Null, RespValue::Bulk))
}

/// Returns the value of a key, or an error if it is not a string.
fn text(store: &mut Store, key: &[u8]) -> Result<Option<Bytes>, RespValue> {
    Ok(match store.get(key) {
        None => None,
        Some(Value::Text(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string().into()),
        Some(Value::List(_)) => return Err(error(WRONG_TYPE)),
    })
}

#[derive(Default)]
struct SetOptions {
    deadline: Option<Millis>,
    keep_deadline: bool,
    only_new: bool,
    only_existing: bool,
    return_old: bool,
}

impl SetOptions {
    fn parse(command: &RespCommand, now: impl Fn() -> Millis) -> Result<Self, RespValue> {
        let (mut options, mut at) = (Self::default(), 3);
        while let Some(word) = command.get(at) {
            let has_expiry = options.keep_deadline || options.deadline.is_some();
            match word.to_ascii_uppercase().as_slice() {
                b"NX" if !options.only_existing => options.only_new = true,
                b"XX" if !options.only_new => options.only_existing = true,
                b"GET" => options.return_old = true,
                b"KEEPTTL" if options.deadline.is_none() => options.keep_deadline = true,
                unit @ (b"EX" | b"PX" | b"EXAT" | b"PXAT") if !has_expiry => {
                    at += 1;
                    let amount = command.get(at).ok_or_else(|| error(SYNTAX_ERROR))?;
                    let (in_seconds, is_absolute) = (unit[0] == b'E', unit.ends_with(b"AT"));
                    let invalid = || error("ERR invalid expire time in 'set' command");
                    let amount = integer(amount)?;
                    let deadline = deadline(amount, in_seconds, is_absolute, now());
                    options.deadline = Some(deadline.filter(|_| amount > 0).ok_or_else(invalid)?);
                }
                _ => return Err(error(SYNTAX_ERROR)),
            }
            at += 1;
        }
        Ok(options)
    }
}

pub(crate) fn set(shard: &mut Shard, command: &RespCommand) -> Reply {
    let (store, key) = (&mut shard.store, &command[1]);
    let options = SetOptions::parse(command, || store.now())?;
    let old = if options.return_old { text(store, key)? } else { None };
    let reply =
        if options.return_old { old.map_or(RespValue::Null, RespValue::Bulk) } else { ok() };
    if (options.only_new || options.only_existing)
        && store.get(key).is_some() != options.only_existing
    {
        return Ok(if options.return_old { reply } else { RespValue::Null });
    }
    store.set(key, Value::Text(Bytes::copy_from_slice(&command[2])));
    if !options.keep_deadline {
        store.set_deadline(key, options.deadline);
    }
    Ok(reply)
}

/// Sets the keys that this loop owns.
pub(crate) fn mset(shard: &mut Shard, command: &RespCommand) -> Reply {
    for at in (1..command.len() - 1).step_by(2) {
        if shard.owners.owns(&command[at]) {
            shard.store.set(&command[at], Value::Text(Bytes::copy_from_slice(&command[at + 1])));
            shard.store.set_deadline(&command[at], None);
        }
    }
    Ok(ok())
}

/// Returns the values of the keys that this loop owns, and nulls for the others.
pub(crate) fn mget(shard: &mut Shard, command: &RespCommand) -> Reply {
    let Shard { store, owners, .. } = shard;
    let value = |key: &[u8]| owners.owns(key).then(|| text(store, key).ok().flatten()).flatten();
    let values = command.iter().skip(1).map(value);
    Ok(RespValue::Array(
        values.map(|value| value.map_or(RespValue::Null, RespValue::Bulk)).collect(),
    ))
}

pub(crate) fn append(shard: &mut Shard, command: &RespCommand) -> Reply {
    let old = text(&mut shard.store, &command[1])?.unwrap_or_default();
    let mut new = BytesMut::with_capacity(old.len() + command[2].len());
    new.extend_from_slice(&old);
    new.extend_from_slice(&command[2]);
    let length = new.len() as i64;
    shard.store.set(&command[1], Value::Text(new.freeze()));
    Ok(RespValue::Integer(length))
}

pub(crate) fn strlen(shard: &mut Shard, command: &RespCommand) -> Reply {
    let length = text(&mut shard.store, &command[1])?.map_or(0, |text| text.len());
    Ok(RespValue::Integer(length as i64))
}

pub(crate) fn incrby(shard: &mut Shard, command: &RespCommand) -> Reply {
    add(shard, command, integer(&command[2])?)
}

pub(crate) fn decrby(shard: &mut Shard, command: &RespCommand) -> Reply {
    let less = integer(&command[2])?.checked_neg();
    add(shard, command, less.ok_or_else(|| error("ERR decrement would overflow"))?)
}

/// Adds to a counter; a missing one is 0.
pub(crate) fn add(shard: &mut Shard, command: &RespCommand, change: i64) -> Reply {
    let overflow = || error("ERR increment or decrement would overflow");
    let Some(value) = shard.store.get(&command[1]) else {
        shard.store.set(&command[1], Value::Number(change));
        return Ok(RespValue::Integer(change));
    };
    let old = match value {
        Value::Number(number) => *number,
        Value::Text(text) => integer(text)?,
        Value::List(_) => return Err(error(WRONG_TYPE)),
    };
    let new = old.checked_add(change).ok_or_else(overflow)?;
    *value = Value::Number(new);
    Ok(RespValue::Integer(new))
}
