//! The commands that clients send.

use serde_json::json;
use waterwheel::executor::Nanos;

/// The id of the command `subscribe`, the only one of its connection.
pub(crate) const SUBSCRIBE_ID: u64 = 1;

/// Returns the command that subscribes to a topic, from a position on if there is one.
pub(crate) fn subscribe(topic: &str, since: Option<&str>) -> String {
    let mut body = json!({ "topic": topic });
    if let Some(since) = since {
        body["since"] = since.into();
    }
    json!({ "id": SUBSCRIBE_ID, "subscribe": body }).to_string()
}

/// The template of the commands of a publisher: everything but the number and the time is the same.
#[derive(Debug)]
pub(crate) struct PublishTemplate {
    topic: String,
    publisher: usize,
    padding: String,
}

impl PublishTemplate {
    /// Returns the template for data of about this many bytes.
    pub(crate) fn new(topic: &str, publisher: usize, payload_bytes: usize) -> Self {
        let mut template = Self { topic: topic.to_owned(), publisher, padding: String::new() };
        let bare = template.data(1_000_000, Nanos(1_000_000_000_000_000)).len();
        template.padding = "x".repeat(payload_bytes.saturating_sub(bare));
        template
    }

    /// Returns the command for publication `number`, which is to be published at `intended`. Its id is the number.
    pub(crate) fn command(&self, number: u64, intended: Nanos) -> String {
        let (topic, data) = (&self.topic, self.data(number, intended));
        format!(r#"{{"id":{number},"publish":{{"topic":"{topic}","data":{data}}}}}"#)
    }

    fn data(&self, number: u64, intended: Nanos) -> String {
        let (publisher, padding) = (self.publisher, &self.padding);
        format!(r#"{{"p":{publisher},"n":{number},"t":{},"x":"{padding}"}}"#, intended.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g09_commands_are_those_of_the_gateway() {
        assert_eq!(subscribe("a.b", None), r#"{"id":1,"subscribe":{"topic":"a.b"}}"#);
        assert_eq!(
            subscribe("a", Some("e-7")),
            r#"{"id":1,"subscribe":{"since":"e-7","topic":"a"}}"#
        );
        let template = PublishTemplate::new("a", 3, 0);
        let expected = r#"{"id":9,"publish":{"topic":"a","data":{"p":3,"n":9,"t":12,"x":""}}}"#;
        assert_eq!(template.command(9, Nanos(12)), expected);
        let data = PublishTemplate::new("a", 3, 128).data(1_000_000, Nanos(1_000_000_000_000_000));
        assert_eq!(data.len(), 128);
    }
}
