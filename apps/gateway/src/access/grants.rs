//! The permissions of tokens that name none, and of clients without a token: filters, with a place for the user.

use thiserror::Error;

use crate::topic::filter::TopicFilter;
use crate::topic::limits::TopicLimits;
use crate::topic::name::InvalidTopic;

/// The text that stands for the user in a configured filter.
pub const USER_PLACEHOLDER: &str = "{user}";

/// Filters that are granted, such as `news.>` and `inbox.{user}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(Vec<Grant>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Grant {
    Filter(TopicFilter),
    /// A filter with the placeholder.
    OfUser(Box<str>),
}

/// A text that is no filter.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the filter {filter:?} is malformed: {cause}")]
pub struct InvalidGrant {
    /// The text.
    pub filter: String,
    /// The reason.
    #[source]
    pub cause: InvalidTopic,
}

impl Grants {
    /// Reads the filters of a configuration.
    ///
    /// # Errors
    /// A text is no filter.
    pub fn parse<S: AsRef<str>>(filters: &[S], limits: &TopicLimits) -> Result<Self, InvalidGrant> {
        let parse = |text: &S| {
            let text = text.as_ref();
            let parsed = TopicFilter::parse(&text.replace(USER_PLACEHOLDER, "u"), limits);
            match parsed {
                Ok(_) if text.contains(USER_PLACEHOLDER) => Ok(Grant::OfUser(text.into())),
                Ok(filter) => Ok(Grant::Filter(filter)),
                Err(cause) => Err(InvalidGrant { filter: text.to_owned(), cause }),
            }
        };
        filters.iter().map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the filters for a user.
    ///
    /// A filter with the placeholder is left out unless the user is one segment and no wildcard: a user `*` would be
    /// permitted what belongs to all users, and `ann.notes` what belongs to `ann`.
    #[must_use]
    pub fn for_user(&self, user: Option<&str>, limits: &TopicLimits) -> Vec<TopicFilter> {
        let user = user.filter(|user| !user.contains('.') && *user != "*" && *user != ">");
        let filter = |grant: &Grant| match grant {
            Grant::Filter(filter) => Some(filter.clone()),
            Grant::OfUser(text) => {
                TopicFilter::parse(&text.replace(USER_PLACEHOLDER, user?), limits).ok()
            }
        };
        self.0.iter().filter_map(filter).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(user: Option<&str>) -> Vec<String> {
        let limits = TopicLimits::default();
        let grants = Grants::parse(&["news.>", "inbox.{user}", "of-{user}.{user}.*"], &limits);
        let filters = grants.unwrap().for_user(user, &limits);
        filters.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn g03_the_placeholder_stands_for_the_user_of_the_token() {
        assert_eq!(granted(Some("ann")), ["news.>", "inbox.ann", "of-ann.ann.*"]);
        assert_eq!(granted(None), ["news.>"]);
    }

    #[test]
    fn g03_no_user_gets_what_belongs_to_others_by_its_name() {
        let long = "a".repeat(300);
        for user in ["*", ">", "ann.notes", ".", "", "a b", "a\n", &long] {
            assert_eq!(granted(Some(user)), ["news.>"], "{user:?}");
        }
    }

    #[test]
    fn g03_a_configured_filter_is_checked_when_it_is_read() {
        let limits = TopicLimits::default();
        for text in ["", "a..{user}", ">.{user}", "{user}.>.a", "a b"] {
            assert!(Grants::parse(&[text], &limits).is_err(), "{text}");
        }
    }
}
