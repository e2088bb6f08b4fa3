//! Commands on lists.

use std::collections::VecDeque;

use waterwheel::bytes::Bytes;
use waterwheel::codec::{RespCommand, RespValue};

use crate::commands::{Reply, WRONG_TYPE, error, integer, wrong_number};
use crate::shard::Shard;
use crate::store::{Store, Value};

pub(crate) type List = VecDeque<Bytes>;

fn list<'a>(store: &'a mut Store, key: &[u8]) -> Result<Option<&'a mut List>, RespValue> {
    match store.get(key) {
        None => Ok(None),
        Some(Value::List(list)) => Ok(Some(list)),
        Some(_) => Err(error(WRONG_TYPE)),
    }
}

/// Appends the elements by `push_to`, one after the other.
pub(crate) fn push(
    shard: &mut Shard,
    command: &RespCommand,
    push_to: fn(&mut List, Bytes),
) -> Reply {
    let store = &mut shard.store;
    let elements = command.iter().skip(2).map(Bytes::copy_from_slice);
    let length = match list(store, &command[1])? {
        Some(list) => {
            elements.for_each(|element| push_to(list, element));
            list.len()
        }
        None => {
            let mut list = List::new();
            elements.for_each(|element| push_to(&mut list, element));
            store.set(&command[1], Value::List(list));
            command.len() - 2
        }
    };
    Ok(RespValue::Integer(length as i64))
}

/// Removes one element by `pop_from`, or as many as the command says.
pub(crate) fn pop(
    shard: &mut Shard,
    command: &RespCommand,
    pop_from: fn(&mut List) -> Option<Bytes>,
) -> Reply {
    if command.len() > 3 {
        return Err(wrong_number(if command.is("lpop") { "lpop" } else { "rpop" }));
    }
    let store = &mut shard.store;
    let count = command.get(2).map(positive).transpose()?;
    let Some(list) = list(store, &command[1])? else { return Ok(RespValue::Null) };
    let reply = match count {
        None => pop_from(list).map_or(RespValue::Null, RespValue::Bulk),
        Some(count) => {
            let count = count.min(list.len());
            let popped = (0..count).filter_map(|_| pop_from(list));
            RespValue::Array(popped.map(RespValue::Bulk).collect())
        }
    };
    if list.is_empty() {
        store.remove(&command[1]);
    }
    Ok(reply)
}

fn positive(count: &[u8]) -> Result<usize, RespValue> {
    let count = integer(count).ok().and_then(|count| usize::try_from(count).ok());
    count.ok_or_else(|| error("ERR value is out of range, must be positive"))
}

pub(crate) fn llen(shard: &mut Shard, command: &RespCommand) -> Reply {
    let length = list(&mut shard.store, &command[1])?.map_or(0, |list| list.len());
    Ok(RespValue::Integer(length as i64))
}

pub(crate) fn lrange(shard: &mut Shard, command: &RespCommand) -> Reply {
    let (first, last) = (integer(&command[2])?, integer(&command[3])?);
    let Some(list) = list(&mut shard.store, &command[1])? else {
        return Ok(RespValue::Array(vec![]));
    };
    // A negative position counts from the end.
    let length = list.len() as i64;
    let position = |at: i64| if at < 0 { length.saturating_add(at) } else { at };
    let (first, end) = (position(first).max(0), position(last).min(length - 1) + 1);
    let range = if first < end { first as usize..end as usize } else { 0..0 };
    Ok(RespValue::Array(list.range(range).cloned().map(RespValue::Bulk).collect()))
}
