//! Responses that end HTTP: 101, and 2xx to CONNECT.

use bytes::Bytes;
use http::StatusCode;
use waterwheel_async::AsyncChannel;
use waterwheel_channel::{Edit, LocalLoop};
use waterwheel_executor::Error;

use super::connection::handler::{CLIENT, ClientConnection};
use super::error::ClientError;
use crate::body::incoming::Incoming;
use crate::service::service::Response;

/// Takes over the connection of a response that ends HTTP: 101 to a request with Upgrade, or 2xx to CONNECT. What the
/// server has sent behind the response is read first. The connection has left its pool, and is closed when the channel
/// is dropped; a response that is dropped instead closes it too.
///
/// ```
/// use waterwheel_executor::Error;
/// use waterwheel_http::{Client, into_upgraded};
/// use http::Method;
///
/// async fn ask(client: &Client) -> Result<(), Error> {
///     let request = client.request(Method::GET, "http://example.org/").header("upgrade", "echo");
///     let mut channel = into_upgraded(request.send().await?)?;
///     channel.send("hello".into()).await?;
///     let answer = channel.try_next().await?;
///     println!("{answer:?}");
///     Ok(())
/// }
/// ```
///
/// # Errors
/// [`ClientError::NotUpgraded`] for any other response, and if the connection has ended meanwhile;
/// [`ClientError::NoLoop`] on another thread.
pub fn into_upgraded(response: Response<Incoming>) -> Result<AsyncChannel<Bytes>, ClientError> {
    upgrade_connection(response, AsyncChannel::install)
}

/// Takes over the connection of a response that ends HTTP, for the handlers that `initialiser` adds: they take the place
/// of HTTP's, see the connection from its beginning (`on_active`), and are given what the server has sent behind the
/// response. Returns the value of the initialiser. [`into_upgraded`] does this for an async function.
///
/// ```
/// use waterwheel_channel::{Channel, Ctx, Handler, HandlerResult, Msg};
/// use waterwheel_http::{ClientError, Incoming, Response, upgrade_connection};
///
/// struct Echo;
///
/// impl Handler for Echo {
///     fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
///         ctx.write_and_flush(msg);
///         Ok(())
///     }
/// }
///
/// fn echo(response: Response<Incoming>) -> Result<Channel, ClientError> {
///     upgrade_connection(response, |edit| {
///         edit.add_last("echo", Echo)?;
///         Ok(edit.channel())
///     })
/// }
/// # drop(echo);
/// ```
///
/// # Errors
/// As [`into_upgraded`]; [`ClientError::Upgrade`] if the initialiser fails. The connection is closed.
pub fn upgrade_connection<T>(
    response: Response<Incoming>,
    initialiser: impl FnOnce(&mut Edit<'_>) -> Result<T, Error>,
) -> Result<T, ClientError> {
    let status = response.status();
    let may_be = status == StatusCode::SWITCHING_PROTOCOLS || status.is_success();
    let (true, Some(channel)) = (may_be, response.body().channel()) else {
        return Err(ClientError::NotUpgraded { status });
    };
    let here = LocalLoop::current().filter(|_| channel.in_event_loop());
    let Some(here) = here else { return Err(ClientError::NoLoop) };
    let link = here.with_pipeline(channel, |pipeline| {
        pipeline.with_handler(CLIENT, |handler: &mut ClientConnection| handler.link())
    });
    match link.flatten().and_then(|link| link.take_over(response.body(), initialiser)) {
        Some(Ok(upgraded)) => Ok(upgraded),
        Some(Err(cause)) => Err(ClientError::Upgrade { cause }),
        None => Err(ClientError::NotUpgraded { status }),
    }
}
