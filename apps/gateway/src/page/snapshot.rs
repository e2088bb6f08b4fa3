//! The JSON of a snapshot, as the page reads it. Names are those of the page's script.

use std::collections::BTreeMap;

use serde::Serialize;

use super::loop_sample::LoopSample;

/// The gateway at one time.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveSnapshot {
    /// The version of the gateway.
    pub version: &'static str,
    /// Seconds since the start.
    pub uptime: f64,
    /// Clients, publications, deliveries.
    pub gateway: TrafficFacts,
    /// The engine.
    pub engine: EngineFacts,
    /// The process.
    pub process: ProcessFacts,
    /// The loops, in the order of their numbers.
    pub loops: Vec<LoopSample>,
    /// The topics with the most publications per second.
    pub topics: Vec<TopicRow>,
    /// True if there are more topics.
    pub more_topics: bool,
    /// Work that has held a loop, the latest first.
    pub slow: Vec<SlowRow>,
    /// The limit of the watchdog in microseconds; `None` without a watchdog.
    pub slow_limit: Option<f64>,
}

/// Clients and messages.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrafficFacts {
    /// Clients by protocol.
    pub clients: BTreeMap<&'static str, u64>,
    /// Subscriptions.
    pub subscriptions: u64,
    /// Publications so far.
    pub published: u64,
    /// Publications per second.
    pub published_rate: f64,
    /// Deliveries so far.
    pub delivered: u64,
    /// Deliveries per second.
    pub delivered_rate: f64,
    /// Publications that slow clients have missed.
    pub missed: u64,
    /// Refused commands by the name of the error, without those that never happened.
    pub refused: BTreeMap<&'static str, u64>,
    /// True while the gateway drains.
    pub draining: bool,
}

/// The engine.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EngineFacts {
    /// The name.
    pub name: &'static str,
    /// True while it can publish.
    pub available: bool,
    /// A sentence about its state; empty if there is nothing to say.
    pub description: String,
    /// Topics.
    pub topics: u64,
    /// Publications in the history.
    pub publications: u64,
    /// The bytes of the history.
    pub bytes: u64,
}

/// The process.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ProcessFacts {
    /// Resident memory in bytes.
    pub memory: u64,
}

/// A topic.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct TopicRow {
    /// The name.
    pub topic: String,
    /// Subscriptions that match the topic.
    pub subscribers: u64,
    /// Publications per second.
    pub rate: f64,
    /// Publications so far.
    pub published: u64,
    /// Publications in the history.
    pub history: usize,
}

/// Work that has held a loop.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct SlowRow {
    /// Seconds since it began.
    pub ago: f64,
    /// The loop.
    #[serde(rename = "loop")]
    pub executor: String,
    /// The task or handler.
    pub what: String,
    /// How long it has held the loop, in microseconds.
    pub micros: f64,
}
