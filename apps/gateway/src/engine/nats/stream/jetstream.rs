//! The interface of JetStream: its requests and answers as JSON, and what the subject of a delivery tells.

use serde::{Deserialize, Serialize};
use waterwheel::codec::{NatsMessage, NatsOperation};

use super::subject::SubjectNames;
use crate::engine::limits::HistoryLimits;

/// The beginning of the subjects of requests.
const API: &str = "$JS.API";

/// Publications of a topic that the stream holds beyond the history, for gateways that lag behind: some 0.4 s of all that
/// a stream takes, or a minute without a connection at 130 publications a second.
const MAX_LAG: usize = 8_192;

/// The code of the error of a stream that does not exist.
const STREAM_NOT_FOUND: u32 = 10059;

/// The configuration of the stream, as far as the engine sets it.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(in crate::engine::nats) struct StreamConfig {
    name: String,
    /// The run of the stream: replaced when the stream has lost its end, because its numbers are then given again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(in crate::engine::nats) description: String,
    subjects: Vec<String>,
    retention: String,
    storage: String,
    discard: String,
    num_replicas: u8,
    /// Nanoseconds.
    max_age: u64,
    max_bytes: i64,
    max_msgs_per_subject: i64,
}

impl StreamConfig {
    /// Returns the configuration for the limits of a history.
    ///
    /// The stream holds more of each topic than its history. So a gateway has time to read a burst before the stream evicts it; and
    /// one that reads the stream anew evicts what is too much by itself, and knows that those before it are missing.
    pub(in crate::engine::nats) fn new(
        names: &SubjectNames,
        limits: &HistoryLimits,
        replicas: u8,
    ) -> Self {
        let no_limit = |number: usize| i64::try_from(number).unwrap_or(-1);
        Self {
            name: names.stream().to_owned(),
            description: String::new(),
            subjects: vec![names.all_topics()],
            retention: "limits".to_owned(),
            storage: "file".to_owned(),
            discard: "old".to_owned(),
            num_replicas: replicas,
            max_age: u64::try_from(limits.max_age.as_nanos()).unwrap_or(0),
            max_bytes: no_limit(limits.total_bytes.saturating_mul(2)),
            max_msgs_per_subject: no_limit(limits.topic_publications.saturating_add(MAX_LAG)),
        }
    }
}

/// An answer of JetStream. Fields of other answers are absent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::engine::nats) struct ApiAnswer {
    pub(in crate::engine::nats) error: Option<ApiError>,
    /// The number of a message that was published.
    pub(in crate::engine::nats) seq: u64,
    pub(in crate::engine::nats) config: Option<serde_json::Value>,
    /// When a stream was created.
    pub(in crate::engine::nats) created: String,
    pub(in crate::engine::nats) state: Option<StreamState>,
}

/// The error in an answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::engine::nats) struct ApiError {
    pub(in crate::engine::nats) err_code: u32,
    pub(in crate::engine::nats) description: String,
}

impl ApiError {
    /// True if the stream does not exist.
    pub(in crate::engine::nats) fn is_stream_missing(&self) -> bool {
        self.err_code == STREAM_NOT_FOUND
    }
}

/// The numbers of the messages in a stream.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::engine::nats) struct StreamState {
    pub(in crate::engine::nats) first_seq: u64,
    pub(in crate::engine::nats) last_seq: u64,
}

impl ApiAnswer {
    /// Reads an answer.
    pub(in crate::engine::nats) fn parse(message: &NatsMessage) -> Result<Self, String> {
        if message.headers.as_ref().is_some_and(|headers| headers.status() == Some(503)) {
            return Err(NO_RESPONDERS.to_owned());
        }
        let answer: Self = serde_json::from_slice(&message.payload)
            .map_err(|error| format!("an answer of JetStream is not understood: {error}"))?;
        Ok(answer)
    }

    /// Returns the configuration of the stream; `None` if it has kinds of values that the engine never sets.
    pub(in crate::engine::nats) fn stream_config(&self) -> Option<StreamConfig> {
        serde_json::from_value(self.config.clone()?).ok()
    }

    /// Returns the epoch of the stream: a number that differs, as far as 32 bits can, between streams that were created at
    /// different times, and between runs of one stream.
    pub(in crate::engine::nats) fn epoch(&self) -> u32 {
        let text =
            |value: &serde_json::Value| value.get("description")?.as_str().map(str::to_owned);
        let run = self.config.as_ref().and_then(text).unwrap_or_default();
        // FNV-1a: every gateway has to get the same number from the same text.
        self.created
            .bytes()
            .chain(run.bytes())
            .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    }
}

/// The text of the error of a request that nobody answers.
pub(in crate::engine::nats) const NO_RESPONDERS: &str = "no server answers for the stream";

/// Makes the question for the stream's state.
pub(in crate::engine::nats) fn stream_info(names: &SubjectNames, reply: String) -> NatsOperation {
    request(format!("{API}.STREAM.INFO.{}", names.stream()), Vec::new(), reply)
}

/// Makes the request that creates the stream, or changes its configuration.
pub(in crate::engine::nats) fn set_stream(
    names: &SubjectNames,
    config: &StreamConfig,
    is_new: bool,
    reply: String,
) -> NatsOperation {
    let verb = if is_new { "CREATE" } else { "UPDATE" };
    // A struct of texts and numbers is always JSON.
    let config = serde_json::to_vec(config).unwrap_or_default();
    request(format!("{API}.STREAM.{verb}.{}", names.stream()), config, reply)
}

/// Makes the request for an ordered consumer: one that pushes everything from a number on, and is forgotten with its reader.
pub(in crate::engine::nats) fn create_consumer(
    names: &SubjectNames,
    deliver_to: &str,
    start: u64,
    heartbeat: std::time::Duration,
    reply: String,
) -> NatsOperation {
    let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let config = serde_json::json!({
        "stream_name": names.stream(),
        "config": {
            "deliver_subject": deliver_to,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": start.max(1),
            "ack_policy": "none",
            "replay_policy": "instant",
            "max_deliver": 1,
            "flow_control": true,
            "idle_heartbeat": nanos(heartbeat),
            "inactive_threshold": nanos(heartbeat * 10),
            "mem_storage": true,
            "num_replicas": 1,
        },
    });
    let subject = format!("{API}.CONSUMER.CREATE.{}", names.stream());
    request(subject, config.to_string().into_bytes(), reply)
}

fn request(subject: String, payload: Vec<u8>, reply: String) -> NatsOperation {
    NatsOperation::Publish(NatsMessage::new(subject, payload).with_reply(reply))
}

/// The place of a delivered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::nats) struct DeliveryPlace {
    /// The number in the stream.
    pub(in crate::engine::nats) stream_sequence: u64,
    /// The number among the deliveries of the consumer.
    pub(in crate::engine::nats) consumer_sequence: u64,
    /// When the server stored the message: nanoseconds since 1970.
    pub(in crate::engine::nats) stored: u64,
}

impl DeliveryPlace {
    /// Reads the subject for the acknowledgement of a delivery:
    /// `$JS.ACK.STREAM.CONSUMER.DELIVERED.STREAM_SEQUENCE.CONSUMER_SEQUENCE.TIME.PENDING`, with two more names before the
    /// stream's on newer servers.
    pub(in crate::engine::nats) fn parse(reply: &[u8]) -> Option<Self> {
        let text = str::from_utf8(reply).ok()?.strip_prefix("$JS.ACK.")?;
        let names: Vec<&str> = text.split('.').collect();
        let numbers = match names.len() {
            7 => &names[2..],
            9.. => &names[4..],
            _ => return None,
        };
        let number = |index: usize| numbers.get(index)?.parse().ok();
        Some(Self {
            stream_sequence: number(1)?,
            consumer_sequence: number(2)?,
            stored: number(3)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g08_the_place_of_a_delivery_is_read_from_servers_of_both_forms() {
        let place = |reply: &str| DeliveryPlace::parse(reply.as_bytes());
        let expected =
            DeliveryPlace { stream_sequence: 7, consumer_sequence: 3, stored: 1_700_000_000_000 };
        assert_eq!(place("$JS.ACK.push.abc.1.7.3.1700000000000.0"), Some(expected));
        assert_eq!(place("$JS.ACK._.hash.push.abc.1.7.3.1700000000000.0.rnd"), Some(expected));
        for reply in ["", "$JS.FC.push.abc.x", "$JS.ACK.push.abc.1", "$JS.ACK.push.abc.1.x.3.4.0"] {
            assert_eq!(place(reply), None, "{reply}");
        }
    }

    #[test]
    fn g08_streams_of_different_times_and_runs_have_different_epochs() {
        let epoch = |created: &str, run: &str| {
            let config = Some(serde_json::json!({ "description": run }));
            ApiAnswer { created: created.to_owned(), config, ..ApiAnswer::default() }.epoch()
        };
        let created = ["2026-11-19T20:00:00.000000001Z", "2026-11-19T20:00:00.000000002Z"];
        assert_ne!(epoch(created[0], ""), epoch(created[1], ""));
        assert_ne!(epoch(created[0], "run 1"), epoch(created[0], "run 2"));
        assert_eq!(epoch(created[0], "run 1"), epoch(created[0], "run 1"));
    }

    #[test]
    fn g08_the_stream_follows_the_limits_of_the_history() {
        let names = SubjectNames::new("push.live");
        let config = StreamConfig::new(&names, &HistoryLimits::default(), 3);
        let json = serde_json::to_value(&config).unwrap();
        assert_eq!(json["name"], "push=live");
        assert_eq!(json["subjects"], serde_json::json!(["push.live.topic.>"]));
        assert_eq!(json["max_msgs_per_subject"], 9_192);
        assert_eq!(json["max_age"], 3_600_000_000_000_u64);
        let limits = HistoryLimits::builder().topic_publications(usize::MAX).build().unwrap();
        let endless = StreamConfig::new(&names, &limits, 1);
        assert_eq!(endless.max_msgs_per_subject, -1);
    }
}
