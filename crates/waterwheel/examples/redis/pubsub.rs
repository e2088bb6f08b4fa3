//! Publishing and subscribing. Each loop knows the subscribers among its own connections; a published message goes to
//! every loop.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::rc::Rc;

use waterwheel::bytes::{Bytes, BytesMut};
use waterwheel::channel::Channel;
use waterwheel::codec::{RespCommand, RespValue, RespVersion};

use crate::client::Client;
use crate::commands::Reply;
use crate::shard::Shard;

/// Maximum number of pending bytes of a subscriber. A slower one is disconnected, as in Redis.
const MAX_PENDING_PUSHES: usize = 32 * 1024 * 1024;

/// The subscribers of one loop, by topic and client id.
#[derive(Default)]
pub(crate) struct Topics {
    subscribers: HashMap<Bytes, BTreeMap<u64, Subscriber>>,
    /// Messages to be sent when the shard is not borrowed.
    pub(crate) published: Vec<PublishedMessage>,
}

#[derive(Clone)]
struct Subscriber {
    channel: Channel,
    version: Rc<Cell<RespVersion>>,
}

/// An encoded message for one subscriber.
pub(crate) struct PublishedMessage {
    channel: Channel,
    push: Bytes,
}

impl PublishedMessage {
    pub(crate) fn send(self) {
        if self.channel.pending_bytes() > MAX_PENDING_PUSHES {
            self.channel.close_without_future();
        } else {
            self.channel.send(self.push);
        }
    }
}

impl Topics {
    fn add(&mut self, topic: Bytes, client: u64, subscriber: Subscriber) {
        self.subscribers.entry(topic).or_default().insert(client, subscriber);
    }

    fn remove(&mut self, topic: &[u8], client: u64) {
        if let Some(subscribers) = self.subscribers.get_mut(topic) {
            subscribers.remove(&client);
            if subscribers.is_empty() {
                self.subscribers.remove(topic);
            }
        }
    }
}

/// Publishes to the subscribers of this loop.
pub(crate) fn publish(shard: &mut Shard, command: &RespCommand) -> Reply {
    let Topics { subscribers, published } = &mut shard.topics;
    let Some(subscribers) = subscribers.get(&command[1]) else { return Ok(RespValue::Integer(0)) };
    // Encoded once for each version, and shared by all subscribers.
    let words = [&b"message"[..], &command[1], &command[2]];
    let push =
        RespValue::Push(words.map(|word| RespValue::Bulk(Bytes::copy_from_slice(word))).into());
    let encode = |version| {
        let mut wire = BytesMut::new();
        push.encode(version, &mut wire).map(|()| wire.freeze()).unwrap_or_default()
    };
    let (resp2, resp3) = (encode(RespVersion::Resp2), encode(RespVersion::Resp3));
    published.extend(subscribers.values().map(|subscriber| {
        let is_resp3 = subscriber.version.get() == RespVersion::Resp3;
        let push = if is_resp3 { resp3.clone() } else { resp2.clone() };
        PublishedMessage { channel: subscriber.channel.clone(), push }
    }));
    Ok(RespValue::Integer(subscribers.len() as i64))
}

pub(crate) fn subscribe(client: &mut Client, command: &RespCommand) -> Reply {
    let subscriber =
        Subscriber { channel: client.channel.clone(), version: client.version.clone() };
    let mut confirmed = RespValue::Null;
    for (number, topic) in command.iter().skip(1).map(Bytes::copy_from_slice).enumerate() {
        if number > 0 {
            client.reply(confirmed); // One reply for each topic.
        }
        client.shard.borrow_mut().topics.add(topic.clone(), client.id, subscriber.clone());
        client.topics.insert(topic.clone());
        confirmed = confirm(client, "subscribe", RespValue::Bulk(topic));
    }
    Ok(confirmed)
}

/// Ends the subscriptions to the given topics, or to all.
pub(crate) fn unsubscribe(client: &mut Client, command: &RespCommand) -> Reply {
    let mut topics: Vec<_> = command.iter().skip(1).map(Bytes::copy_from_slice).collect();
    if topics.is_empty() {
        topics.extend(client.topics.iter().cloned());
    }
    let mut confirmed = confirm(client, "unsubscribe", RespValue::Null);
    for (number, topic) in topics.into_iter().enumerate() {
        if number > 0 {
            client.reply(confirmed);
        }
        client.topics.remove(&topic);
        client.shard.borrow_mut().topics.remove(&topic, client.id);
        confirmed = confirm(client, "unsubscribe", RespValue::Bulk(topic));
    }
    Ok(confirmed)
}

fn confirm(client: &Client, what: &'static str, topic: RespValue) -> RespValue {
    let subscriptions = RespValue::Integer(client.topics.len() as i64);
    RespValue::Push(vec![RespValue::bulk(what), topic, subscriptions])
}

/// Ends all subscriptions of a client, without a reply.
pub(crate) fn leave(client: &mut Client) {
    for topic in mem::take(&mut client.topics) {
        client.shard.borrow_mut().topics.remove(&topic, client.id);
    }
}
