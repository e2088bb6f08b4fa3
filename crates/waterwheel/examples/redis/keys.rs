//! Commands on keys, whatever their values.

use waterwheel::codec::{RespCommand, RespValue};

use crate::commands::{Reply, error, integer, ok};
use crate::shard::Shard;
use crate::store::{Millis, Value, unix_time};

/// Counts those of the command's keys that this loop owns and for which `matches` is true.
fn count(
    shard: &mut Shard,
    command: &RespCommand,
    matches: fn(&mut Shard, &[u8]) -> bool,
) -> Reply {
    let mut matching = 0;
    for key in command.iter().skip(1) {
        matching += i64::from(shard.owners.owns(key) && matches(shard, key));
    }
    Ok(RespValue::Integer(matching))
}

pub(crate) fn del(shard: &mut Shard, command: &RespCommand) -> Reply {
    count(shard, command, |shard, key| shard.store.remove(key).is_some())
}

pub(crate) fn exists(shard: &mut Shard, command: &RespCommand) -> Reply {
    count(shard, command, |shard, key| shard.store.get(key).is_some())
}

pub(crate) fn type_of(shard: &mut Shard, command: &RespCommand) -> Reply {
    Ok(RespValue::simple(match shard.store.get(&command[1]) {
        None => "none",
        Some(Value::Text(_) | Value::Number(_)) => "string",
        Some(Value::List(_)) => "list",
    }))
}

pub(crate) fn dbsize(shard: &mut Shard, _: &RespCommand) -> Reply {
    Ok(RespValue::Integer(shard.store.len() as i64))
}

pub(crate) fn flushall(shard: &mut Shard, _: &RespCommand) -> Reply {
    shard.store.clear();
    Ok(ok())
}

/// Returns the time at which a key expires: an amount of time from now, or a time since 1970.
pub(crate) fn deadline(
    amount: i64,
    in_seconds: bool,
    is_absolute: bool,
    now: Millis,
) -> Option<Millis> {
    let amount = if in_seconds { amount.checked_mul(1000)? } else { amount };
    now.checked_add(if is_absolute { amount.checked_sub(unix_time())? } else { amount })
}

/// `EXPIRE`, `PEXPIRE`, `EXPIREAT` and `PEXPIREAT`.
pub(crate) fn expire(shard: &mut Shard, command: &RespCommand) -> Reply {
    let (name, key) = (command[0].to_ascii_lowercase(), &command[1]);
    let (in_seconds, is_absolute) = (name[0] == b'e', name.ends_with(b"at"));
    let now = shard.store.now();
    let deadline = deadline(integer(&command[2])?, in_seconds, is_absolute, now);
    let Some(deadline) = deadline else {
        let name = String::from_utf8_lossy(&name);
        return Err(error(format!("ERR invalid expire time in '{name}' command")));
    };
    if shard.store.get(key).is_none() {
        return Ok(RespValue::Integer(0));
    }
    if deadline <= now {
        shard.store.remove(key);
    } else {
        shard.store.set_deadline(key, Some(deadline));
    }
    Ok(RespValue::Integer(1))
}

pub(crate) fn persist(shard: &mut Shard, command: &RespCommand) -> Reply {
    let had_deadline = shard.store.deadline(&command[1]).is_some();
    shard.store.set_deadline(&command[1], None);
    Ok(RespValue::Integer(i64::from(had_deadline)))
}

pub(crate) fn ttl(shard: &mut Shard, command: &RespCommand) -> Reply {
    // Rounded to the nearest second.
    left(shard, command).map(|left| {
        RespValue::Integer(if left < 0 { left } else { left.saturating_add(500) / 1000 })
    })
}

pub(crate) fn pttl(shard: &mut Shard, command: &RespCommand) -> Reply {
    left(shard, command).map(RespValue::Integer)
}

/// Returns the milliseconds left for a key; -1 if it has no deadline, -2 if it does not exist.
fn left(shard: &mut Shard, command: &RespCommand) -> Result<Millis, RespValue> {
    if shard.store.get(&command[1]).is_none() {
        return Ok(-2);
    }
    let now = shard.store.now();
    Ok(shard.store.deadline(&command[1]).map_or(-1, |deadline| (deadline - now).max(0)))
}
