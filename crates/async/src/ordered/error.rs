//! Errors of ordered answers.

use waterwheel_executor::Error;

/// Why the options of an [`OrderedAnswers`](super::OrderedAnswers) are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidOrderedOption {
    /// No call could begin.
    #[error("`max_concurrent` is zero: no request would ever be answered; use at least 1")]
    NoCalls,
}

impl From<InvalidOrderedOption> for Error {
    fn from(error: InvalidOrderedOption) -> Self {
        Error::new(error)
    }
}
