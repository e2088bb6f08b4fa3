//! Commands on the connection itself, with which clients begin and end.

use std::process;

use waterwheel::bytes::Bytes;
use waterwheel::codec::{RespCommand, RespValue, RespVersion};

use crate::client::Client;
use crate::commands::{
    COMMANDS, CommandSpec, Reply, Route, bulk, error, integer, ok, shortened, wrong_number,
};
use crate::pubsub;

const VERSION: &str = "7.0.0";
/// The configuration that clients ask for. It cannot be changed.
const CONFIGURATION: [(&str, &str); 4] =
    [("appendonly", "no"), ("databases", "1"), ("maxmemory", "0"), ("save", "")];

pub(crate) fn ping(client: &mut Client, command: &RespCommand) -> Reply {
    match (command.get(1), command.len()) {
        // A subscriber of RESP2 tells replies from messages by their shape.
        (text, 1 | 2) if client.is_in_push_mode() => {
            Ok(RespValue::Array(vec![RespValue::bulk("pong"), bulk(text.unwrap_or_default())]))
        }
        (text, 1 | 2) => Ok(text.map_or_else(|| RespValue::simple("PONG"), bulk)),
        _ => Err(wrong_number("ping")),
    }
}

pub(crate) fn echo(_: &mut Client, command: &RespCommand) -> Reply {
    Ok(bulk(&command[1]))
}

pub(crate) fn select(_: &mut Client, command: &RespCommand) -> Reply {
    match integer(&command[1])? {
        0 => Ok(ok()),
        _ => Err(error("ERR DB index is out of range")),
    }
}

pub(crate) fn quit(client: &mut Client, _: &RespCommand) -> Reply {
    client.quit();
    Ok(ok())
}

pub(crate) fn reset(client: &mut Client, _: &RespCommand) -> Reply {
    pubsub::leave(client);
    client.name = Bytes::new();
    client.version.set(RespVersion::Resp2);
    Ok(RespValue::simple("RESET"))
}

/// `HELLO [VERSION]`
pub(crate) fn hello(client: &mut Client, command: &RespCommand) -> Reply {
    let number = command
        .get(1)
        .map(integer)
        .transpose()
        .map_err(|_| error("ERR Protocol version is not an integer or out of range"))?;
    let version = match number {
        None => client.version.get(),
        Some(2) => RespVersion::Resp2,
        Some(3) => RespVersion::Resp3,
        Some(_) => return Err(error("NOPROTO unsupported protocol version")),
    };
    if let Some(option) = command.get(2) {
        let option = shortened(option, 128);
        return Err(error(format!("ERR Syntax error in HELLO option '{option}'")));
    }
    client.version.set(version);
    let pairs = [
        ("server", RespValue::bulk("redis")),
        ("version", RespValue::bulk(VERSION)),
        ("proto", RespValue::Integer(if version == RespVersion::Resp3 { 3 } else { 2 })),
        ("id", RespValue::Integer(client.id as i64)),
        ("mode", RespValue::bulk("standalone")),
        ("role", RespValue::bulk("master")),
        ("modules", RespValue::Array(vec![])),
    ];
    Ok(RespValue::Map(pairs.map(|(key, value)| (RespValue::bulk(key), value)).into()))
}

pub(crate) fn client(client: &mut Client, command: &RespCommand) -> Reply {
    Ok(match (command[1].to_ascii_lowercase().as_slice(), command.len()) {
        (b"id", 2) => RespValue::Integer(client.id as i64),
        (b"getname", 2) if client.name.is_empty() => RespValue::Null,
        (b"getname", 2) => RespValue::Bulk(client.name.clone()),
        (b"setname", 3) if !command[2].iter().all(u8::is_ascii_graphic) => {
            let why = "ERR Client names cannot contain spaces, newlines or special characters.";
            return Err(error(why));
        }
        (b"setname", 3) => {
            client.name = Bytes::copy_from_slice(&command[2]);
            ok()
        }
        (b"setinfo", 4) => ok(),
        (b"id" | b"getname" | b"setname" | b"setinfo", _) => return Err(wrong_subcommand(command)),
        _ => return Err(unknown_subcommand(command)),
    })
}

/// `CONFIG GET name…`; `*` stands for all.
pub(crate) fn config(_: &mut Client, command: &RespCommand) -> Reply {
    match (command[1].eq_ignore_ascii_case(b"GET"), command.len()) {
        (true, 3..) => {}
        (true, _) => return Err(wrong_subcommand(command)),
        (false, _) => return Err(unknown_subcommand(command)),
    }
    let is_asked = |name: &str| {
        command
            .iter()
            .skip(2)
            .any(|word| word == b"*" || word.eq_ignore_ascii_case(name.as_bytes()))
    };
    let asked = CONFIGURATION.into_iter().filter(|(name, _)| is_asked(name));
    let pairs = asked.map(|(name, value)| (RespValue::bulk(name), RespValue::bulk(value)));
    Ok(RespValue::Map(pairs.collect()))
}

pub(crate) fn command(_: &mut Client, command: &RespCommand) -> Reply {
    match command.get(1).map(<[u8]>::to_ascii_lowercase).as_deref() {
        None => Ok(RespValue::Array(COMMANDS.iter().map(describe).collect())),
        Some(b"count") => Ok(RespValue::Integer(COMMANDS.len() as i64)),
        Some(b"docs") => Ok(RespValue::Map(vec![])),
        Some(_) => Err(unknown_subcommand(command)),
    }
}

/// Describes a command as `COMMAND` does: name, arity, flags, first and last key, step.
fn describe(CommandSpec(name, arity, route): &CommandSpec) -> RespValue {
    let keys = match route {
        Route::Client(_) | Route::EveryLoop(_) => [0, 0, 0],
        Route::Key(_) => [1, 1, 1],
        Route::Keys(step, _) => [1, -1, *step as i64],
    };
    let mut words =
        vec![RespValue::bulk(*name), RespValue::Integer(*arity), RespValue::Array(vec![])];
    words.extend(keys.map(RespValue::Integer));
    RespValue::Array(words)
}

pub(crate) fn info(client: &mut Client, _: &RespCommand) -> Reply {
    let (loops, id) = (client.owners.loops.len(), process::id());
    let text = format!(
        "# Server\r\nredis_version:{VERSION}\r\nredis_mode:standalone\r\nprocess_id:{id}\r\n\
         event_loops:{loops}\r\n\r\n# Persistence\r\nloading:0\r\n\r\n# Replication\r\nrole:master\r\n"
    );
    Ok(RespValue::Verbatim { format: *b"txt", text: text.into() })
}

fn wrong_subcommand(command: &RespCommand) -> RespValue {
    let names = command.iter().take(2).map(|name| String::from_utf8_lossy(name).to_lowercase());
    wrong_number(&names.collect::<Vec<_>>().join("|"))
}

fn unknown_subcommand(command: &RespCommand) -> RespValue {
    let (name, found) = (shortened(&command[0], 128).to_uppercase(), shortened(&command[1], 128));
    error(format!("ERR unknown subcommand '{found}'. Try {name} HELP."))
}
