//! Errors of changes to a pipeline.

use waterwheel_executor::Error;

use super::slots::slot_list::SlotId;
use super::typed::type_check::TypeMismatch;

/// The reason why a change to a pipeline was refused. In a handler's method, `?` converts it to the
/// [`Error`] of that method:
///
/// ```
/// use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};
///
/// struct Pass;
///
/// impl Handler for Pass {}
///
/// /// Replaces itself by another handler when the first message arrives.
/// struct Greeting;
///
/// impl Handler for Greeting {
///     fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
///         let pipeline = ctx.pipeline();
///         pipeline.add_after(ctx.slot(), "session", Pass)?;
///         pipeline.remove_if_present("first-message-timeout")?;
///         pipeline.remove(ctx.slot())?;
///         ctx.fire_read(msg);
///         Ok(())
///     }
/// }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// The name is used by another handler of the pipeline.
    #[error("the pipeline already has a handler named `{name}`")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// The pipeline has no handler of this name.
    #[error("the pipeline has no handler named `{name}`; its handlers are: {present}")]
    UnknownName {
        /// The name.
        name: String,
        /// The names of the handlers in the pipeline, joined by commas.
        present: String,
    },
    /// The handler of this slot was removed.
    #[error("the handler of {slot:?} was removed from the pipeline")]
    UnknownSlot {
        /// The slot.
        slot: SlotId,
    },
    /// The message types of two neighbours do not fit.
    #[error(transparent)]
    Types(#[from] TypeMismatch),
    /// A handler refused to be added; it was removed again.
    #[error("`{name}` could not be added: {cause}")]
    NotAdded {
        /// The handler's name.
        name: String,
        /// The error of its [`on_added`](super::Handler::on_added).
        #[source]
        cause: Error,
    },
    /// The channel is closed: its handlers were removed, or are being removed.
    #[error("the channel is closed; its pipeline can no longer be changed")]
    Closed,
}

impl From<PipelineError> for Error {
    fn from(error: PipelineError) -> Self {
        Error::new(error)
    }
}
