//! What can be wrong with a change of a pipeline.

use waterwheel_executor::Error;

use super::slots::slot_list::SlotId;
use super::typed::type_check::TypeMismatch;

/// Why a pipeline could not be changed. In a handler's method `?` makes it the [`Error`] of that method:
///
/// ```
/// use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};
///
/// struct Pass;
///
/// impl Handler for Pass {}
///
/// /// Puts another handler in its place once the first message has come.
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
    /// There is a handler of this name.
    #[error("there is already a handler named `{name}`")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// There is no handler of this name.
    #[error("there is no handler named `{name}`; there are {there}")]
    UnknownName {
        /// The name.
        name: String,
        /// The names there are.
        there: String,
    },
    /// The handler of this slot has been removed.
    #[error("the handler of {slot:?} is no longer in the pipeline")]
    UnknownSlot {
        /// The slot.
        slot: SlotId,
    },
    /// The types of messages do not fit.
    #[error(transparent)]
    Types(#[from] TypeMismatch),
    /// A handler could not work here; it has been removed again.
    #[error("`{name}` could not be added: {cause}")]
    NotAdded {
        /// The handler's name.
        name: String,
        /// What its [`on_added`](super::Handler::on_added) said.
        cause: Error,
    },
    /// The channel is closed: its handlers have been removed, or are about to be.
    #[error("the channel is closed, its pipeline can no longer be changed")]
    Closed,
}

impl From<PipelineError> for Error {
    fn from(error: PipelineError) -> Self {
        Error::new(error)
    }
}
