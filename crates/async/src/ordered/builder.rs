//! Options of ordered answers.

use std::fmt;

use super::answers::OrderedAnswers;
use super::async_handler::AsyncHandler;
use super::error::InvalidOrderedOption;

/// The default of [`OrderedAnswersBuilder::max_concurrent`].
pub const DEFAULT_MAX_CONCURRENT: usize = 16;

/// Builds an [`OrderedAnswers`]. Created by [`OrderedAnswers::builder`].
///
/// ```
/// use waterwheel_async::{InvalidOrderedOption, OrderedAnswers, handler_fn};
/// use waterwheel_executor::Error;
///
/// let handler = || handler_fn(|line: String| async { Ok::<_, Error>(line) });
/// let answers = OrderedAnswers::builder(handler()).max_concurrent(64).build()?;
/// # drop(answers);
/// let refused = OrderedAnswers::builder(handler()).max_concurrent(0).build().unwrap_err();
/// assert_eq!(refused, InvalidOrderedOption::NoCalls);
/// # Ok::<(), Error>(())
/// ```
#[must_use]
pub struct OrderedAnswersBuilder<H> {
    handler: H,
    options: AnswerOptions,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerOptions {
    pub(super) max_concurrent: usize,
    pub(super) keeps_output_open: bool,
}

impl Default for AnswerOptions {
    fn default() -> Self {
        Self { max_concurrent: DEFAULT_MAX_CONCURRENT, keeps_output_open: false }
    }
}

impl<H: AsyncHandler> OrderedAnswersBuilder<H> {
    pub(super) fn new(handler: H) -> Self {
        Self { handler, options: AnswerOptions::default() }
    }

    /// Sets how many requests of the connection may be under way: calls that are not ready, and answers that wait for
    /// an earlier one. [`DEFAULT_MAX_CONCURRENT`] by default; 1 runs one call after the other.
    pub fn max_concurrent(mut self, max: usize) -> Self {
        self.options.max_concurrent = max;
        self
    }

    /// Leaves the output open when the peer has finished and everything is answered: for channels that other handlers
    /// write to, such as another `OrderedAnswers` after this one, which still has calls under way. By default the output is shut down then, which closes the channel.
    pub fn keep_output_open(mut self) -> Self {
        self.options.keeps_output_open = true;
        self
    }

    /// Builds the handler.
    ///
    /// # Errors
    /// [`InvalidOrderedOption`] names the option.
    pub fn build(self) -> Result<OrderedAnswers<H>, InvalidOrderedOption> {
        if self.options.max_concurrent == 0 {
            return Err(InvalidOrderedOption::NoCalls);
        }
        Ok(OrderedAnswers::with_options(self.handler, self.options))
    }
}

impl<H> fmt::Debug for OrderedAnswersBuilder<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderedAnswersBuilder")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
