//! The table of commands, and what they have in common.

use std::borrow::Cow;
use std::sync::LazyLock;

use waterwheel::bytes::Bytes;
use waterwheel::codec::{RespCommand, RespValue};

use crate::client::Client;
use crate::lists::List;
use crate::shard::Run;
use crate::{keys, lists, pubsub, session, strings};

/// The result of a command. An error is a reply too.
pub(crate) type Reply = Result<RespValue, RespValue>;

pub(crate) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
pub(crate) const SYNTAX_ERROR: &str = "ERR syntax error";
pub(crate) const WRONG_TYPE: &str =
    "WRONGTYPE Operation against a key holding the wrong kind of value";

/// A row of the table: the name, the number of words with the name (a negative number is a minimum), and where the
/// command is executed.
pub(crate) struct CommandSpec(pub(crate) &'static str, pub(crate) i64, pub(crate) Route);

#[derive(Clone, Copy)]
pub(crate) enum Route {
    /// With the state of the connection.
    Client(fn(&mut Client, &RespCommand) -> Reply),
    /// On the loop that owns the first key.
    Key(Run),
    /// On all loops that own one of the keys, which are the arguments, or every second one.
    Keys(usize, Run),
    /// On all loops.
    EveryLoop(Run),
}

use Route::{Client as OnClient, EveryLoop, Key, Keys};

/// The commands. Of those with names of equal length the frequent ones are first.
pub(crate) static COMMANDS: &[CommandSpec] = &[
    CommandSpec("get", 2, Key(strings::get)),
    CommandSpec("set", -3, Key(strings::set)),
    CommandSpec("incr", 2, Key(|shard, command| strings::add(shard, command, 1))),
    CommandSpec("decr", 2, Key(|shard, command| strings::add(shard, command, -1))),
    CommandSpec("incrby", 3, Key(strings::incrby)),
    CommandSpec("decrby", 3, Key(strings::decrby)),
    CommandSpec("append", 3, Key(strings::append)),
    CommandSpec("strlen", 2, Key(strings::strlen)),
    CommandSpec("mget", -2, Keys(1, strings::mget)),
    CommandSpec("mset", -3, Keys(2, strings::mset)),
    CommandSpec("lpush", -3, Key(|shard, command| lists::push(shard, command, List::push_front))),
    CommandSpec("rpush", -3, Key(|shard, command| lists::push(shard, command, List::push_back))),
    CommandSpec("lpop", -2, Key(|shard, command| lists::pop(shard, command, List::pop_front))),
    CommandSpec("rpop", -2, Key(|shard, command| lists::pop(shard, command, List::pop_back))),
    CommandSpec("llen", 2, Key(lists::llen)),
    CommandSpec("lrange", 4, Key(lists::lrange)),
    CommandSpec("del", -2, Keys(1, keys::del)),
    CommandSpec("unlink", -2, Keys(1, keys::del)),
    CommandSpec("exists", -2, Keys(1, keys::exists)),
    CommandSpec("type", 2, Key(keys::type_of)),
    CommandSpec("expire", 3, Key(keys::expire)),
    CommandSpec("pexpire", 3, Key(keys::expire)),
    CommandSpec("expireat", 3, Key(keys::expire)),
    CommandSpec("pexpireat", 3, Key(keys::expire)),
    CommandSpec("ttl", 2, Key(keys::ttl)),
    CommandSpec("pttl", 2, Key(keys::pttl)),
    CommandSpec("persist", 2, Key(keys::persist)),
    CommandSpec("dbsize", 1, EveryLoop(keys::dbsize)),
    CommandSpec("flushall", -1, EveryLoop(keys::flushall)),
    CommandSpec("flushdb", -1, EveryLoop(keys::flushall)),
    CommandSpec("publish", 3, EveryLoop(pubsub::publish)),
    CommandSpec("subscribe", -2, OnClient(pubsub::subscribe)),
    CommandSpec("unsubscribe", -1, OnClient(pubsub::unsubscribe)),
    CommandSpec("ping", -1, OnClient(session::ping)),
    CommandSpec("echo", 2, OnClient(session::echo)),
    CommandSpec("hello", -1, OnClient(session::hello)),
    CommandSpec("select", 2, OnClient(session::select)),
    CommandSpec("client", -2, OnClient(session::client)),
    CommandSpec("config", -2, OnClient(session::config)),
    CommandSpec("command", -1, OnClient(session::command)),
    CommandSpec("info", -1, OnClient(session::info)),
    CommandSpec("reset", 1, OnClient(session::reset)),
    CommandSpec("quit", -1, OnClient(session::quit)),
];

static BY_LENGTH: LazyLock<[Vec<&CommandSpec>; 16]> = LazyLock::new(|| {
    std::array::from_fn(|length| COMMANDS.iter().filter(|spec| spec.0.len() == length).collect())
});

/// Finds the row of a command, and checks the number of its arguments.
pub(crate) fn find(command: &RespCommand) -> Result<&'static CommandSpec, RespValue> {
    let name = &command[0];
    let same_length = BY_LENGTH.get(name.len()).map_or(&[][..], Vec::as_slice);
    let found = same_length.iter().find(|spec| name.eq_ignore_ascii_case(spec.0.as_bytes()));
    let Some(&spec) = found else { return Err(unknown_command(command)) };
    let words = command.len() as i64;
    if words == spec.1 || (spec.1 < 0 && words >= -spec.1) {
        return Ok(spec);
    }
    Err(wrong_number(spec.0))
}

pub(crate) fn ok() -> RespValue {
    RespValue::simple("OK")
}

/// Creates an error reply. Text that a client has sent may contain line ends, which an error must not.
pub(crate) fn error(text: impl Into<String>) -> RespValue {
    RespValue::error(text.into().replace(['\r', '\n'], " "))
}

pub(crate) fn wrong_number(command: &str) -> RespValue {
    error(format!("ERR wrong number of arguments for '{command}' command"))
}

/// Quotes the beginning of the command, as Redis does.
fn unknown_command(command: &RespCommand) -> RespValue {
    let name = shortened(&command[0], 128);
    let mut text = format!("ERR unknown command '{name}', with args beginning with: ");
    let limit = text.len() + 128;
    for word in command.iter().skip(1) {
        let left = limit.saturating_sub(text.len());
        if left == 0 {
            break;
        }
        text += &format!("'{}' ", shortened(word, left));
    }
    error(text)
}

pub(crate) fn shortened(word: &[u8], limit: usize) -> Cow<'_, str> {
    String::from_utf8_lossy(&word[..word.len().min(limit)])
}

/// Parses an integer as Redis does: no sign but a minus, no leading zeros.
pub(crate) fn integer(text: &[u8]) -> Result<i64, RespValue> {
    let is_canonical = matches!(text, b"0" | [b'-', b'1'..=b'9', ..] | [b'1'..=b'9', ..]);
    let text = str::from_utf8(text).ok().filter(|_| is_canonical);
    text.and_then(|text| text.parse().ok()).ok_or_else(|| error(NOT_AN_INTEGER))
}

/// Returns a copy of an argument as a bulk string.
pub(crate) fn bulk(argument: &[u8]) -> RespValue {
    RespValue::Bulk(Bytes::copy_from_slice(argument))
}
