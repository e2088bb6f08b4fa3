//! The topics of the demo, and when each of them has a publication.

use std::f64::consts::TAU;
use std::time::Duration;

use waterwheel::websocket::ByteString;

use crate::engine::publication::PublicationPayload;
use crate::session::command::PublishItem;
use crate::topic::limits::TopicLimits;
use crate::topic::name::Topic;

/// A topic whose rate follows a wave: `rate` ± `swing` publications per second, once around in `period` seconds.
struct DemoTopic {
    name: &'static str,
    rate: f64,
    swing: f64,
    period: f64,
    content: Content,
}

/// The content of the publications of a topic.
#[derive(Clone, Copy)]
enum Content {
    /// A value that wanders around a middle, in these steps.
    Value { field: &'static str, middle: f64, step: f64 },
    /// One of these texts.
    Text(&'static [&'static str]),
}

const TOPICS: [DemoTopic; 7] = [
    DemoTopic {
        name: "prices.eur-usd",
        rate: 12.0,
        swing: 10.0,
        period: 31.0,
        content: Content::Value { field: "price", middle: 1.0845, step: 0.0004 },
    },
    DemoTopic {
        name: "prices.eur-chf",
        rate: 6.0,
        swing: 4.0,
        period: 23.0,
        content: Content::Value { field: "price", middle: 0.9471, step: 0.0003 },
    },
    DemoTopic {
        name: "prices.btc-eur",
        rate: 14.0,
        swing: 13.0,
        period: 47.0,
        content: Content::Value { field: "price", middle: 61_250.0, step: 35.0 },
    },
    DemoTopic {
        name: "sensors.hall.temperature",
        rate: 15.0,
        swing: 14.0,
        period: 19.0,
        content: Content::Value { field: "celsius", middle: 21.5, step: 0.05 },
    },
    DemoTopic {
        name: "weather.berlin",
        rate: 1.0,
        swing: 0.0,
        period: 60.0,
        content: Content::Value { field: "celsius", middle: 17.0, step: 0.1 },
    },
    DemoTopic {
        name: "chat.lobby",
        rate: 1.5,
        swing: 1.5,
        period: 13.0,
        content: Content::Text(&["hello", "how is everybody?", "fine, thanks", "see you tomorrow"]),
    },
    DemoTopic {
        name: "news.de",
        rate: 0.3,
        swing: 0.3,
        period: 37.0,
        content: Content::Text(&["Trains on time again", "Snow expected in the south"]),
    },
];

/// The state of all topics of the demo.
pub(super) struct DemoTopics {
    states: Vec<TopicState>,
    noise: Noise,
}

struct TopicState {
    of: &'static DemoTopic,
    topic: Topic,
    /// Publications that are due; the fraction waits for the next look.
    due: f64,
    value: f64,
}

impl DemoTopics {
    /// Creates the topics that these limits allow.
    pub(super) fn new(limits: &TopicLimits) -> Self {
        let state = |of: &'static DemoTopic| {
            let topic = Topic::parse(of.name, limits).ok()?;
            let value = match of.content {
                Content::Value { middle, .. } => middle,
                Content::Text(_) => 0.0,
            };
            Some(TopicState { of, topic, due: 0.0, value })
        };
        Self { states: TOPICS.iter().filter_map(state).collect(), noise: Noise(1) }
    }

    /// Returns what is due at this time, `since` after the last call.
    pub(super) fn due(&mut self, at: Duration, since: Duration) -> Vec<PublishItem> {
        let mut items = Vec::new();
        for state in &mut self.states {
            state.due += state.of.rate_at(at) * since.as_secs_f64();
            while state.due >= 1.0 {
                state.due -= 1.0;
                let payload = state.next_payload(&mut self.noise);
                items.push(PublishItem { topic: state.topic.clone(), payload });
            }
        }
        items
    }
}

impl DemoTopic {
    fn rate_at(&self, at: Duration) -> f64 {
        self.rate + self.swing * (TAU * at.as_secs_f64() / self.period).sin()
    }
}

impl TopicState {
    fn next_payload(&mut self, noise: &mut Noise) -> PublicationPayload {
        match self.of.content {
            Content::Value { field, middle, step } => {
                // Pulled back to the middle, so that it does not wander off for ever.
                self.value += step * noise.next() + 0.02 * (middle - self.value);
                let digits = if step >= 1.0 { 0 } else { 4 };
                let json = format!("{{\"{field}\":{:.digits$}}}", self.value);
                PublicationPayload::Json(ByteString::from(json))
            }
            Content::Text(texts) => {
                let at = ((noise.next() + 1.0) / 2.0 * texts.len() as f64) as usize;
                let text = texts.get(at).or(texts.last()).copied().unwrap_or_default();
                PublicationPayload::Text(ByteString::from(text))
            }
        }
    }
}

/// Numbers that look random (xorshift), the same in each run.
struct Noise(u64);

impl Noise {
    /// Returns a number from -1 to 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const TICK: Duration = Duration::from_millis(100);

    #[test]
    fn g04_demo_topics_have_their_rates_and_all_have_spoken_within_ten_seconds_or_so() {
        let mut topics = DemoTopics::new(&TopicLimits::default());
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut first_ten_seconds = 0;
        for tick in 1..=600 {
            let items = topics.due(TICK * tick, TICK);
            assert!(items.len() <= 20, "{} at once", items.len());
            for item in items {
                *counts.entry(item.topic.to_string()).or_default() += 1;
                if let PublicationPayload::Json(json) = &item.payload {
                    serde_json::from_str::<serde_json::Value>(json).unwrap();
                }
            }
            if tick == 100 {
                first_ten_seconds = counts.len();
            }
        }
        assert!(first_ten_seconds >= 6, "{first_ten_seconds} topics");
        assert_eq!(counts.len(), TOPICS.len());
        assert!((50..=70).contains(&counts["weather.berlin"]), "{counts:?}");
        let most: f64 = TOPICS.iter().map(|of| of.rate + of.swing).sum();
        assert!(most <= 95.0, "{most}");
    }

    #[test]
    fn g04_demo_values_stay_near_their_middle() {
        let mut topics = DemoTopics::new(&TopicLimits::default());
        for tick in 1..=36_000 {
            topics.due(TICK * tick, TICK);
        }
        for state in &topics.states {
            if let Content::Value { middle, .. } = state.of.content {
                assert!(
                    (state.value / middle - 1.0).abs() < 0.05,
                    "{}: {}",
                    state.of.name,
                    state.value
                );
            }
        }
    }
}
