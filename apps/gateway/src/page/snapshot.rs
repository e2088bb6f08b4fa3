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
    /// The number of topics among which these are the busiest: the first by name.
    pub listed_topics: usize,
    /// True if there are topics that were not looked at.
    pub more_topics: bool,
    /// Work that has held a loop, by name, the latest first.
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
    /// Publications that subscriptions recovered from the history.
    pub recovered: u64,
    /// Subscriptions that were told of a gap.
    pub gaps: u64,
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
    /// How long its server takes to answer, in microseconds; `None` without a server or while it is away.
    pub lag: Option<f64>,
    /// Times that it has connected to its server again.
    pub reconnects: u64,
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
    pub subscribers: usize,
    /// Publications per second.
    pub rate: f64,
    /// Publications so far.
    pub published: u64,
    /// Publications in the history.
    pub history: usize,
}

/// The work of one name that has held a loop.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SlowRow {
    /// The task or handler.
    pub what: String,
    /// The loop that it held the last time.
    #[serde(rename = "loop")]
    pub executor: String,
    /// Seconds since it began the last time.
    pub ago: f64,
    /// How often it has held a loop.
    pub times: u64,
    /// The longest time that it has held a loop, in microseconds.
    pub micros: f64,
    /// False while it holds the loop.
    pub is_over: bool,
}
