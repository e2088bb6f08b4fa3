//! The fields that a server adds to every response: Date and Server, encoded once a second.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderValue;
use httpdate::HttpDate;
use waterwheel_executor::Nanos;

use crate::protocol::encoder::ServerFields;

/// `date: Sun, 06 Nov 1994 08:49:37 GMT` and its line end.
const DATE_FIELD_LEN: usize = 37;

/// The encoded fields. Nothing wakes for the date: it is made anew when it is asked for and its second is over, so an
/// idle loop sleeps.
pub(crate) struct StandingFields {
    text: String,
    /// The field `server`, or nothing.
    server: String,
    /// The loop's time at which the second ends.
    ends: Nanos,
}

impl StandingFields {
    pub(crate) fn new(server_name: Option<&HeaderValue>) -> Self {
        let server = server_name.and_then(|name| name.to_str().ok());
        let server = server.map_or_else(String::new, |name| format!("server: {name}\r\n"));
        Self { text: String::new(), server, ends: Nanos(0) }
    }

    /// Returns the fields as of this time of the loop.
    #[inline]
    pub(crate) fn at(&mut self, now: Nanos) -> ServerFields<'_> {
        if now >= self.ends {
            self.refresh(now);
        }
        let both = self.text.as_bytes();
        let (date, server) = both.split_at(DATE_FIELD_LEN.min(both.len()));
        ServerFields { date, server, both }
    }

    #[cold]
    fn refresh(&mut self, now: Nanos) {
        let since_epoch = wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default();
        let rest =
            Duration::from_secs(1) - Duration::from_nanos(u64::from(since_epoch.subsec_nanos()));
        self.ends = now.plus(rest);
        self.text.clear();
        let date = HttpDate::from(UNIX_EPOCH + Duration::from_secs(since_epoch.as_secs()));
        // Writing to a string does not fail.
        let _ = write!(self.text, "date: {date}\r\n{}", self.server);
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the date of a response is that of the world; the loop's clock has no date"
)]
fn wall_clock() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h13_the_date_is_made_once_a_second() {
        let mut fields = StandingFields::new(Some(&HeaderValue::from_static("wheel")));
        let begin = Nanos(5);
        let first = fields.at(begin);
        assert_eq!((first.date.len(), first.server), (DATE_FIELD_LEN, &b"server: wheel\r\n"[..]));
        assert!(first.date.starts_with(b"date: ") && first.date.ends_with(b" GMT\r\n"));
        let ends = fields.ends;
        assert!(ends > begin && ends <= begin.plus(Duration::from_secs(1)));
        fields.text.replace_range(6..9, "???");
        assert!(
            fields.at(Nanos(ends.0 - 1)).date.starts_with(b"date: ???"),
            "kept within the second"
        );
        assert!(!fields.at(ends).date.starts_with(b"date: ???"), "made anew after it");
        assert!(httpdate::parse_http_date(fields.text[6..35].trim()).is_ok());
    }

    #[test]
    fn h13_a_server_without_a_name_sends_none() {
        let mut fields = StandingFields::new(None);
        let sent = fields.at(Nanos(0));
        assert!(sent.server.is_empty() && sent.both.len() == DATE_FIELD_LEN);
    }
}
