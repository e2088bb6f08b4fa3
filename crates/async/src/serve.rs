//! An async function for each connection of a server.
//!
//! ```text
//!   on_active ──► task in the channel's scope: f(connection).await ──► Ok: dropped, which closes the channel
//!                                                                  ──► Err: error of the pipeline, close with the cause
//!                                                                  ──► panic: reported, close with the cause
//! ```

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use waterwheel_channel::{Edit, Message, ServerBootstrap};
use waterwheel_executor::{Error, Origin};

use crate::bridge::handler::BridgeHandler;
use crate::bridge::state::BridgeState;
use crate::channel::{AsyncChannel, new_state};
use crate::error::AsyncError;

/// A server whose connections are async functions.
pub trait Serve: Sized {
    /// Runs an async function for each connection, on the connection's loop: it need not be `Send`. The function reads
    /// what the handlers of the child initialiser pass on, and writes what they accept; without such handlers, `Bytes`.
    ///
    /// The channel is closed when the function has returned and its [`AsyncChannel`] is dropped. An error it returns is
    /// an error of the pipeline, and the cause of the close. When the channel is closed by others, the function is
    /// polled once more, and dropped before the channel is unregistered; so are the futures it has
    /// [spawned](AsyncChannel::spawn).
    ///
    /// Connections allow half-closure, unless an option that is set later says otherwise: after the end of the peer's
    /// data ([`AsyncChannel::next`] returns `None`) the function can still write.
    ///
    /// ```
    /// use waterwheel_async::{AsyncChannel, Serve};
    /// use waterwheel_channel::driver::TaskOnly;
    /// use waterwheel_channel::{Address, EventLoopGroup, ServerBootstrap, local};
    ///
    /// let group = EventLoopGroup::builder(TaskOnly).threads(1).build()?;
    /// let server = ServerBootstrap::new(&group, local::Local)
    ///     .serve(|mut connection: AsyncChannel<String>| async move {
    ///         while let Some(line) = connection.next().await {
    ///             connection.send(line?).await?;
    ///         }
    ///         Ok::<_, waterwheel_executor::Error>(())
    ///     })
    ///     .bind(Address::local("echo"))
    ///     .join()?;
    /// # drop(server);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    fn serve<In, Out, F>(
        self,
        connection: impl Fn(AsyncChannel<In, Out>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        In: Message,
        Out: Message,
        F: Future<Output: ConnectionResult> + 'static;
}

impl Serve for ServerBootstrap {
    fn serve<In, Out, F>(
        self,
        connection: impl Fn(AsyncChannel<In, Out>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        In: Message,
        Out: Message,
        F: Future<Output: ConnectionResult> + 'static,
    {
        let (origin, connection) = (Origin::here(), Arc::new(connection));
        self.child_allow_half_closure(true).extend_child_initialiser(move |edit| {
            let connection = connection.clone();
            add_task(edit, origin, move |channel| connection(channel))
        })
    }
}

/// Runs an async function for one channel: for an initialiser that chooses, or a channel that is no connection of a
/// server. See [`Serve::serve`]. Half-closure is as the channel's options say.
///
/// # Errors
/// As [`AsyncChannel::install`].
#[track_caller]
pub fn serve_channel<In, Out, F>(
    edit: &mut Edit<'_>,
    connection: impl FnOnce(AsyncChannel<In, Out>) -> F + 'static,
) -> Result<(), Error>
where
    In: Message,
    Out: Message,
    F: Future<Output: ConnectionResult> + 'static,
{
    add_task(edit, Origin::here(), connection)
}

fn add_task<In, Out, F>(
    edit: &mut Edit<'_>,
    origin: Origin,
    connection: impl FnOnce(AsyncChannel<In, Out>) -> F + 'static,
) -> Result<(), Error>
where
    In: Message,
    Out: Message,
    F: Future<Output: ConnectionResult> + 'static,
{
    let state = new_state::<In>(&edit.channel())?;
    let (shared, channel) = (state.clone(), AsyncChannel::new(state.clone()));
    let start = Box::new(move || {
        let scope = shared.scope().clone();
        scope.spawn_from(origin, run_connection(shared, channel, connection))
    });
    edit.add_last("async", BridgeHandler::with_task(state, start))?;
    Ok(())
}

async fn run_connection<In, Out, F>(
    state: Rc<BridgeState<In>>,
    channel: AsyncChannel<In, Out>,
    connection: impl FnOnce(AsyncChannel<In, Out>) -> F,
) where
    In: Message,
    Out: Message,
    F: Future<Output: ConnectionResult>,
{
    // Dropped last, after the future: the cause of the close is known by then, and nothing is closed before.
    let mut end = TaskOutcome { state: state.clone(), result: None };
    let mut future = pin!(async move { connection(channel).await });
    let outcome = poll_fn(|context| state.poll_task(|| future.as_mut().poll(context))).await;
    end.result = Some(outcome.into_result());
}

/// Tells the channel how its async function has ended.
struct TaskOutcome<In: Message> {
    state: Rc<BridgeState<In>>,
    /// `None` if the function has panicked, or was dropped.
    result: Option<Result<(), Error>>,
}

impl<In: Message> Drop for TaskOutcome<In> {
    fn drop(&mut self) {
        let panicked = || Err(Error::new(AsyncError::ConnectionPanicked));
        if let Err(error) = self.result.take().unwrap_or_else(panicked) {
            self.state.fail(error);
        }
        self.state.end_task_poll();
    }
}

/// The value that the async function of a connection returns: nothing, or a `Result` without a value.
pub trait ConnectionResult {
    /// Returns the failure, if there is one.
    ///
    /// # Errors
    /// The function has failed.
    fn into_result(self) -> Result<(), Error>;
}

impl ConnectionResult for () {
    fn into_result(self) -> Result<(), Error> {
        Ok(())
    }
}

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> ConnectionResult for Result<(), E> {
    fn into_result(self) -> Result<(), Error> {
        self.map_err(|error| match error.into().downcast::<Error>() {
            Ok(error) => *error,
            Err(other) => Error::new(other),
        })
    }
}
