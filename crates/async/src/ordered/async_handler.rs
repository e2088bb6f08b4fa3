//! `AsyncHandler`: what answers a request.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;

use waterwheel_channel::Message;
use waterwheel_executor::Error;

/// Answers the requests of a connection, each with one response. Runs in a pipeline as
/// [`OrderedAnswers`](super::OrderedAnswers), which writes the answers in the order of the requests.
///
/// The futures are polled and dropped on the channel's loop; they need not be `Send`, and may borrow the handler.
/// Implement `call` as an `async fn`:
///
/// ```
/// use std::cell::RefCell;
/// use std::collections::HashMap;
/// use waterwheel_async::AsyncHandler;
/// use waterwheel_channel::Message;
/// use waterwheel_executor::Error;
///
/// struct Get(String);
/// impl Message for Get {}
///
/// struct Cache {
///     values: RefCell<HashMap<String, String>>,
/// }
///
/// impl AsyncHandler for Cache {
///     type Request = Get;
///     type Response = String;
///
///     async fn call(&self, Get(key): Get) -> Result<String, Error> {
///         let known = self.values.borrow().get(&key).cloned();
///         match known {
///             Some(value) => Ok(value),
///             None => {
///                 let value = fetch(&key).await?;
///                 self.values.borrow_mut().insert(key, value.clone());
///                 Ok(value)
///             }
///         }
///     }
///
///     /// A failure is an answer like any other, and the connection goes on.
///     fn answer_error(&self, error: Error) -> Result<String, Error> {
///         Ok(format!("failed: {error}"))
///     }
/// }
///
/// # async fn fetch(_: &str) -> Result<String, Error> { Err(Error::new("no such key")) }
/// ```
///
/// A function is a handler by [`handler_fn`].
pub trait AsyncHandler: 'static {
    /// The type of the requests, as the decoder emits them.
    type Request: Message;
    /// The type of the answers, as the encoder accepts them.
    type Response: Message;

    /// Answers a request. Up to `max_concurrent` calls of a connection run at the same time, so a later call may
    /// overtake an earlier one; only the answers keep their order.
    ///
    /// The future is dropped when the channel is closed or the pipeline's handler is removed: at any of its awaits, like
    /// every future. Work that must be finished in any case belongs in a task of its own.
    ///
    /// # Errors
    /// The request cannot be answered: see [`answer_error`](Self::answer_error).
    fn call(&self, request: Self::Request) -> impl Future<Output = Result<Self::Response, Error>>;

    /// Turns the error of a call into an answer. Not called for a panic.
    ///
    /// # Errors
    /// There is no answer: the error is fired, and the channel is closed after the earlier answers. This is the default.
    fn answer_error(&self, error: Error) -> Result<Self::Response, Error> {
        Err(error)
    }
}

/// Makes an [`AsyncHandler`] of a function that returns a future.
///
/// ```
/// use waterwheel_async::{OrderedAnswers, handler_fn};
/// use waterwheel_executor::Error;
///
/// let answers = OrderedAnswers::new(handler_fn(|line: String| async move {
///     Ok::<_, Error>(format!("{} bytes", line.len()))
/// }));
/// # drop(answers);
/// ```
pub fn handler_fn<Request, Response, F, Fut>(f: F) -> HandlerFn<Request, F>
where
    F: Fn(Request) -> Fut + 'static,
    Fut: Future<Output = Result<Response, Error>>,
{
    HandlerFn { f, request: PhantomData }
}

/// A function as an [`AsyncHandler`]. Made by [`handler_fn`].
#[derive(Clone)]
pub struct HandlerFn<Request, F> {
    f: F,
    request: PhantomData<fn(Request)>,
}

impl<Request, Response, F, Fut> AsyncHandler for HandlerFn<Request, F>
where
    Request: Message,
    Response: Message,
    F: Fn(Request) -> Fut + 'static,
    Fut: Future<Output = Result<Response, Error>>,
{
    type Request = Request;
    type Response = Response;

    fn call(&self, request: Request) -> impl Future<Output = Result<Response, Error>> {
        (self.f)(request)
    }
}

impl<Request, F> fmt::Debug for HandlerFn<Request, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HandlerFn").field(&std::any::type_name::<F>()).finish()
    }
}
