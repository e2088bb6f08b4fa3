//! Calls into a tokio runtime of the user's (A05).
//!
//! ```text
//!   event loop                                   tokio runtime
//!   ──────────                                   ─────────────
//!   runtime.spawn(future) ───── task ──────────► polls the future
//!   awaits the TokioTask                         …
//!   polls the TokioTask  ◄── wake: one command ─ the output is stored in the task
//!   drops the TokioTask  ────── abort ─────────► drops the future at its next await
//! ```
//!
//! Rules:
//! 1. The future is polled and dropped by the tokio runtime; its output is moved to the awaiting thread, and dropped
//!    there if nobody takes it. The one exception: a runtime that is shut down drops a new future in the call of
//!    `spawn`.
//! 2. Every task ends in one of three ways, which its [`TokioTask`] returns: an output, a panic, a runtime that was shut
//!    down. None of them is a hang.
//! 3. A [`TokioTask`] that is dropped aborts its task. An owner of such futures, a channel or a loop that ends,
//!    therefore leaves no task behind.
//! 4. A call costs the allocation of the tokio task and one wake of the loop. The wake does not allocate.
//!
//! The order of several answers is not decided here: [`AsyncHandler`](crate::AsyncHandler) writes answers in the order
//! of their requests, in whatever order the tasks complete.

mod task;

use std::fmt;

use tokio::runtime::Handle;
use waterwheel_executor::Origin;

pub use self::task::{TokioTask, TokioTaskError};

/// A tokio runtime of the user's, for calling crates that need tokio (database drivers, HTTP clients) from handlers and
/// from futures on a loop.
///
/// [`spawn`](Self::spawn) runs a future on the runtime and returns a [`TokioTask`], which is awaited on a loop, or
/// anywhere else. A loop is not blocked meanwhile, and is woken once, when the output is there.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_async::TokioRuntime;
/// use waterwheel_channel::EventLoopGroup;
/// use waterwheel_channel::driver::TaskOnly;
///
/// let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build()?;
/// let runtime = TokioRuntime::new(tokio.handle().clone());
/// let group = EventLoopGroup::builder(TaskOnly).threads(1).build()?;
///
/// let answer = group.next().spawn(async move {
///     // On the loop. The inner block runs on the tokio runtime, so that tokio's timers work in it.
///     let task = runtime.spawn(async {
///         tokio::time::sleep(Duration::from_millis(1)).await;
///         42
///     });
///     task.await
/// })?;
/// assert_eq!(answer.join()??, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # From a pipeline
///
/// Requests of a peer that pipelines are answered in order, in whatever order their tasks complete, by an
/// [`AsyncHandler`](crate::AsyncHandler) that awaits the task. Its [`OrderedAnswers`](crate::OrderedAnswers) limits the
/// tasks of a connection, makes drains wait for them and drops them with the channel.
///
/// ```
/// use waterwheel_async::{AsyncHandler, OrderedAnswers, TokioRuntime};
/// use waterwheel_executor::Error;
/// # use waterwheel_testkit::embedded::Embedded;
///
/// struct Session {
///     runtime: TokioRuntime,
/// }
///
/// impl AsyncHandler for Session {
///     type Request = String;
///     type Response = String;
///
///     async fn call(&self, name: String) -> Result<String, Error> {
///         let row = self.runtime.spawn(async move { query(&name).await });
///         Ok(row.await??) // A failure of the task (panic, runtime gone), or of the query.
///     }
///
///     fn answer_error(&self, error: Error) -> Result<String, Error> {
///         Ok(format!("error: {error}")) // The connection goes on.
///     }
/// }
///
/// # async fn query(name: &str) -> Result<String, std::io::Error> { Ok(format!("row of {name}")) }
/// # let tokio = tokio::runtime::Builder::new_current_thread().build()?;
/// # let runtime = TokioRuntime::new(tokio.handle().clone());
/// let mut channel = Embedded::new(|edit| {
///     edit.add_last("answers", OrderedAnswers::new(Session { runtime }))?;
///     Ok(())
/// })?;
/// channel.write_inbound(String::from("ann"));
/// # tokio.block_on(tokio::task::yield_now());
/// # channel.run();
/// assert_eq!(channel.read_outbound::<String>().unwrap(), "row of ann");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # When a call is aborted
///
/// A task is aborted when the future that awaits it is dropped: with the channel, by a `timeout`, by losing a `select`. The
/// channel of a peer that goes away is closed when its end is read, or at once if the peer resets the connection (RST).
/// While nothing is read, the end of the peer's data (FIN) is not seen: that is so while `max_concurrent` requests are
/// under way, and while an async function of a connection awaits a task and not its channel.
///
/// # Rules for the future
///
/// - Calls that need tokio stand inside of the `async` block: outside of it, on the loop, there is no tokio runtime, and
///   functions that look for one panic ("there is no reactor running"). `spawn(client.get(url).send())` creates the
///   future of the request on the loop; `spawn(async move { client.get(url).send().await })` creates it on the runtime.
/// - The future and its output are `Send`: what belongs to the loop ([`Ctx`](waterwheel_channel::Ctx),
///   [`LocalCtx`](waterwheel_channel::LocalCtx), an `Rc`) stays outside. Move the arguments in, and the output back.
/// - The future must yield now and then, as every future on tokio: one that never does can be neither aborted nor ended
///   by a shutdown of the runtime.
///
/// # The runtime belongs to the user
///
/// A `TokioRuntime` is a handle: cheap to clone, usable from any thread, and it does not keep the runtime alive. Keep
/// the `tokio::runtime::Runtime` in `main`, and drop it after the loops have ended; its drop blocks, which an event loop
/// must not.
///
/// | runtime | what happens to a task |
/// |---|---|
/// | multi-thread | runs on the worker threads; one worker is enough for most drivers |
/// | current-thread, driven by `block_on` | runs while a thread is in `block_on` |
/// | current-thread that no thread drives | does not run, and does not end before the runtime is driven or dropped: limit the wait by [`timeout`](waterwheel_channel::timeout) |
/// | shut down before the call | the call fails with [`TokioTaskError::RuntimeGone`] |
/// | shut down during the call | the task is dropped at its next await; the call fails with [`TokioTaskError::RuntimeGone`] |
///
/// A program whose `main` is `#[tokio::main]` passes `Handle::current()`, and may await the futures of channels and
/// bootstraps in its tokio tasks: they depend on no runtime. So do channels and locks of `tokio::sync`, which can be
/// awaited on a loop without a call of this type: a bounded `tokio::sync::mpsc` brings a series of results to the loop.
///
/// # Limits
///
/// The number of tasks is not limited here. A pipeline limits it by connection
/// ([`max_concurrent`](crate::OrderedAnswersBuilder::max_concurrent)), a pool of database connections or a
/// `tokio::sync::Semaphore` limits it for the program.
#[derive(Clone)]
pub struct TokioRuntime {
    handle: Handle,
    /// The origin of all tasks; `None` stands for the source line of the call.
    label: Option<Origin>,
}

impl TokioRuntime {
    /// Creates a handle to the runtime.
    #[must_use]
    pub fn new(handle: Handle) -> Self {
        Self { handle, label: None }
    }

    /// Returns a handle to the same runtime whose tasks carry this label, in place of the source line of their call.
    /// Errors name it.
    ///
    /// ```
    /// # use waterwheel_async::TokioRuntime;
    /// let tokio = tokio::runtime::Builder::new_current_thread().build()?;
    /// let runtime = TokioRuntime::new(tokio.handle().clone()).labelled("user database");
    /// drop(tokio);
    /// let task = runtime.spawn(async {});
    /// let error = waterwheel_channel::EventLoopGroup::builder(waterwheel_channel::driver::TaskOnly)
    ///     .threads(1)
    ///     .build()?
    ///     .spawn(task)?
    ///     .join()?
    ///     .unwrap_err();
    /// assert_eq!(error.to_string(), "tokio task from user database was dropped: its runtime is shut down");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn labelled(&self, label: &'static str) -> Self {
        Self { handle: self.handle.clone(), label: Some(Origin::labelled(label)) }
    }

    /// Starts a task on the runtime, at once and without blocking; can be called from any thread. The output, a panic or
    /// the end of the runtime is returned by the [`TokioTask`]. If that is dropped, the task is aborted.
    ///
    /// A future that is not `Send` stays on its loop:
    ///
    /// ```compile_fail,E0277
    /// # fn call(runtime: waterwheel_async::TokioRuntime) {
    /// let local = std::rc::Rc::new(1);
    /// runtime.spawn(async move { *local });
    /// # }
    /// ```
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> TokioTask<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let origin = match self.label {
            Some(label) => label,
            None => Origin::here(), // The caller's line: within a closure it would be that of the closure's call.
        };
        TokioTask::new(self.handle.spawn(future), origin)
    }

    /// Returns tokio's own handle.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl From<Handle> for TokioRuntime {
    fn from(handle: Handle) -> Self {
        Self::new(handle)
    }
}

impl fmt::Debug for TokioRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokioRuntime")
            .field("id", &self.handle.id())
            .field("label", &self.label)
            .finish_non_exhaustive()
    }
}
