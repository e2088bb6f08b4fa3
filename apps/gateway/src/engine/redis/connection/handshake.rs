//! The first commands of a connection: who we are, who the server is, and the state of the engine.

use std::sync::Arc;

use waterwheel::codec::{RespCommand, RespValue};

use super::address::RedisAddress;
use crate::engine::EngineError;
use crate::engine::position::Position;
use crate::engine::redis::scripts::error_reply::unavailable;
use crate::engine::redis::scripts::reply::ReplyValues;
use crate::engine::redis::scripts::{RedisScript, ScriptContext};
use crate::engine::redis::shared::{RedisShared, answer_of};

/// The result of the first commands.
pub(super) struct OpenedConnection {
    /// The last position.
    pub(super) position: Position,
    /// The version of the server.
    pub(super) version: String,
    /// The nodes of the cluster, if the server belongs to one.
    pub(super) nodes: Vec<RedisAddress>,
}

/// The facts that a server tells about itself.
#[derive(Debug, Default, PartialEq, Eq)]
struct ServerFacts {
    version: String,
    /// Another one after each start.
    run: String,
    is_cluster: bool,
    /// True while the server reads its files: what it says of itself does not hold yet.
    is_loading: bool,
    /// True if publications may have been lost when the server started, or when it became the master: it writes no
    /// append-only file, or was a replica.
    may_have_lost: bool,
}

/// Opens a connection.
pub(super) async fn open(
    shared: &Arc<RedisShared>,
    number: u64,
    address: &RedisAddress,
) -> Result<OpenedConnection, EngineError> {
    let ask = |words: &[&[u8]]| answer_of(shared.ask(number, RespCommand::new(words), None));
    let options = &shared.options;
    let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
    if let Some(password) = &options.password {
        let user = options.user.as_deref().unwrap_or("default");
        hello.extend([&b"AUTH"[..], user.as_bytes(), password.as_bytes()]);
    }
    hello.extend([&b"SETNAME"[..], b"waterwheel-gateway"]);
    ask(&hello).await?;
    if options.url.database > 0 {
        ask(&[b"SELECT", options.url.database.to_string().as_bytes()]).await?;
    }
    let facts = ServerFacts::read(&text_of(&ask(&[b"INFO"]).await?));
    if facts.is_loading {
        return Err(unavailable("the server is loading its data"));
    }
    let nodes = match facts.is_cluster {
        true => read_nodes(&ask(&[b"CLUSTER", b"SLOTS"]).await?, address),
        false => Vec::new(),
    };
    for script in RedisScript::ALL {
        ask(&[b"SCRIPT", b"LOAD", script.text().as_bytes()]).await?;
    }
    let context = ScriptContext {
        key: format!("{}meta", options.key_prefix()),
        run: facts.run,
        is_cluster: facts.is_cluster,
    };
    let known = shared.lock().progress.known();
    let known_epoch = known.map_or_else(String::new, |known| format!("{:08x}", known.epoch));
    let known_sequence = known.map_or(0, |known| known.sequence).to_string();
    let may_have_lost: &[u8] = if facts.may_have_lost { b"1" } else { b"0" };
    let arguments = [may_have_lost, known_epoch.as_bytes(), known_sequence.as_bytes()];
    let command = context.command(RedisScript::Open, shared.new_epoch(), &arguments);
    let opened = answer_of(shared.ask(number, command, Some(RedisScript::Open))).await?;
    if let Some(connection) = &mut shared.lock().connection
        && connection.number == number
    {
        connection.context = Arc::new(context);
    }
    let position = ReplyValues::of(opened)?.position()?;
    Ok(OpenedConnection { position, version: facts.version, nodes })
}

impl ServerFacts {
    /// Reads the answer to INFO.
    fn read(info: &str) -> Self {
        let mut facts = Self { may_have_lost: true, ..Self::default() };
        let mut was_replica = false;
        for (name, value) in info.lines().filter_map(|line| line.split_once(':')) {
            match name {
                "redis_version" => value.clone_into(&mut facts.version),
                "run_id" => value.clone_into(&mut facts.run),
                "loading" => facts.is_loading = value == "1",
                "redis_mode" => facts.is_cluster = value == "cluster",
                "aof_enabled" => facts.may_have_lost = value != "1",
                "master_replid2" => was_replica = value.bytes().any(|byte| byte != b'0'),
                _ => {}
            }
        }
        facts.may_have_lost |= was_replica;
        facts
    }
}

fn text_of(value: &RespValue) -> String {
    match value {
        RespValue::Bulk(text) | RespValue::Verbatim { text, .. } => {
            String::from_utf8_lossy(text).into_owned()
        }
        _ => String::new(),
    }
}

/// Reads the answer to CLUSTER SLOTS: for each range of slots its bounds, then its nodes with host and port.
fn read_nodes(answer: &RespValue, sender: &RedisAddress) -> Vec<RedisAddress> {
    let RespValue::Array(ranges) = answer else { return Vec::new() };
    let of_range = |range: &RespValue| match range {
        RespValue::Array(parts) => parts.iter().skip(2).cloned().collect(),
        _ => Vec::new(),
    };
    let node = |node: RespValue| {
        let RespValue::Array(parts) = node else { return None };
        let Some(RespValue::Integer(port)) = parts.get(1) else { return None };
        let host = match parts.first() {
            Some(RespValue::Bulk(host)) if !host.is_empty() => {
                String::from_utf8_lossy(host).into_owned()
            }
            _ => sender.host.clone(),
        };
        Some(RedisAddress { host, port: u16::try_from(*port).ok()? })
    };
    ranges.iter().flat_map(of_range).filter_map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g08_a_server_says_whether_it_may_have_lost_publications() {
        let zeros = "0".repeat(40);
        let info = |aof: &str, replica: &str| {
            format!(
                "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nredis_mode:cluster\r\n\
                 aof_enabled:{aof}\r\nmaster_replid2:{replica}\r\n"
            )
        };
        let facts = ServerFacts::read(&info("1", &zeros));
        let expected = ServerFacts {
            version: "7.0.15".to_owned(),
            run: "abc".to_owned(),
            is_cluster: true,
            is_loading: false,
            may_have_lost: false,
        };
        assert_eq!(facts, expected);
        assert!(ServerFacts::read(&info("0", &zeros)).may_have_lost, "no append-only file");
        assert!(ServerFacts::read(&info("1", "8d")).may_have_lost, "was a replica");
        assert!(ServerFacts::read("").may_have_lost, "nothing is known");
        assert!(ServerFacts::read("loading:1\r\naof_enabled:0\r\n").is_loading);
    }

    #[test]
    fn g08_nodes_of_a_cluster_are_read_from_its_slots() {
        let sender = RedisAddress { host: "10.0.0.9".to_owned(), port: 1 };
        let node = |host: &str, port| {
            let id = RespValue::bulk("id");
            RespValue::Array(vec![RespValue::bulk(host.to_owned()), RespValue::Integer(port), id])
        };
        let range = |nodes: Vec<RespValue>| {
            let bounds = [RespValue::Integer(0), RespValue::Integer(5460)];
            RespValue::Array(bounds.into_iter().chain(nodes).collect())
        };
        let ranges = vec![
            range(vec![node("10.0.0.1", 6379), node("", 6380)]),
            range(vec![node("10.0.0.2", 70_000)]),
            RespValue::Null,
        ];
        let nodes = read_nodes(&RespValue::Array(ranges), &sender);
        let shown: Vec<_> = nodes.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["10.0.0.1:6379", "10.0.0.9:6380"]);
        assert!(read_nodes(&RespValue::Null, &sender).is_empty());
    }
}
