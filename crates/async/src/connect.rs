//! Client connections as async channels.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use waterwheel_channel::{
    AddressSpec, Bootstrap, Channel, ChannelError, LocalLoop, Message, Pipeline,
};
use waterwheel_executor::{Error, PromiseFuture};

use crate::bridge::handler::BridgeHandler;
use crate::bridge::state::BridgeState;
use crate::channel::{AsyncChannel, new_state};
use crate::error::AsyncError;
use crate::remote::RemoteAsyncChannel;

/// A client that connects from async code.
pub trait ConnectAsync {
    /// Connects on the loop that runs the caller, and returns the connection as an [`AsyncChannel`]. The initialiser of
    /// the bootstrap adds the handlers before it. No message is lost: nothing is read before the first
    /// [`next`](AsyncChannel::next).
    ///
    /// Cancel safe: if the future is dropped, the attempt is given up, and a connection that was just made is closed.
    ///
    /// ```
    /// use waterwheel_async::ConnectAsync;
    /// use waterwheel_channel::{Address, Bootstrap};
    /// use waterwheel_executor::Error;
    ///
    /// async fn ask(bootstrap: &Bootstrap, question: String) -> Result<Option<String>, Error> {
    ///     let mut connection = bootstrap.connect_async::<String, String>(Address::local("oracle")).await?;
    ///     connection.send(question).await?;
    ///     connection.try_next().await
    /// }
    /// ```
    ///
    /// # Errors
    /// The connection cannot be made; or the caller does not run on an event loop.
    fn connect_async<In: Message, Out: Message>(
        &self,
        to: impl Into<AddressSpec>,
    ) -> impl Future<Output = Result<AsyncChannel<In, Out>, Error>> + 'static;

    /// Connects on a loop of the bootstrap, from code on any thread and any runtime, and returns the connection as a
    /// [`RemoteAsyncChannel`]. No message is lost, as with [`connect_async`](Self::connect_async).
    ///
    /// Cancel safe: if the future is dropped, the attempt is given up, and a connection that was just made is closed.
    ///
    /// ```
    /// use waterwheel_async::ConnectAsync;
    /// use waterwheel_channel::{Address, Bootstrap};
    /// use waterwheel_executor::Error;
    ///
    /// /// Runs in a task of any runtime.
    /// async fn ask(bootstrap: &Bootstrap, question: String) -> Result<Option<String>, Error> {
    ///     let mut connection = bootstrap.connect_remote::<String, String>(Address::local("oracle")).await?;
    ///     connection.send(question).await?;
    ///     connection.try_next().await
    /// }
    /// ```
    ///
    /// # Errors
    /// The connection cannot be made.
    fn connect_remote<In: Message, Out: Message>(
        &self,
        to: impl Into<AddressSpec>,
    ) -> impl Future<Output = Result<RemoteAsyncChannel<In, Out>, Error>> + Send + 'static;
}

impl ConnectAsync for Bootstrap {
    #[track_caller]
    fn connect_async<In: Message, Out: Message>(
        &self,
        to: impl Into<AddressSpec>,
    ) -> impl Future<Output = Result<AsyncChannel<In, Out>, Error>> + 'static {
        let connecting = LocalLoop::current().map(|here| {
            let bootstrap = with_bridge::<In>(self.clone().on_loops(&here.handle()));
            (here, ConnectAttempt(Some(bootstrap.connect(to))))
        });
        async move {
            let Some((here, connecting)) = connecting else {
                return Err(Error::new(AsyncError::NoLoop));
            };
            let channel = connecting.await?;
            let state = here.with_pipeline(&channel, |pipeline| bridge_of(&pipeline)).flatten();
            state.map(AsyncChannel::new).ok_or_else(|| closed_error(&channel))
        }
    }

    #[track_caller]
    fn connect_remote<In: Message, Out: Message>(
        &self,
        to: impl Into<AddressSpec>,
    ) -> impl Future<Output = Result<RemoteAsyncChannel<In, Out>, Error>> + Send + 'static {
        let connecting = ConnectAttempt(Some(with_bridge::<In>(self.clone()).connect(to)));
        async move {
            let channel = connecting.await?;
            // Closes the channel if this future is dropped, or fails, before it has the handle.
            let mut connected = CloseOnDrop(Some(channel.clone()));
            let remote = channel.with_pipeline(|pipeline| {
                bridge_of(&pipeline).map(|state| AsyncChannel::new(state).into_remote())
            });
            let remote = remote.await?.ok_or_else(|| closed_error(&channel))?;
            connected.0 = None;
            Ok(remote)
        }
    }
}

/// Adds the end of the pipeline to the bootstrap's initialiser.
fn with_bridge<In: Message>(bootstrap: Bootstrap) -> Bootstrap {
    bootstrap.extend_initialiser(|edit| {
        let state = new_state::<In>(&edit.channel())?;
        edit.add_last("async", BridgeHandler::new(state))?;
        Ok(())
    })
}

fn bridge_of<In: Message>(pipeline: &Pipeline<'_>) -> Option<Rc<BridgeState<In>>> {
    pipeline.with_handler("async", |bridge: &mut BridgeHandler<In>| bridge.state().clone())
}

fn closed_error(channel: &Channel) -> Error {
    ChannelError::Closed { cause: channel.close_cause() }.into()
}

/// A channel that is closed if this is dropped.
struct CloseOnDrop(Option<Channel>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if let Some(channel) = self.0.take() {
            channel.close_without_future();
        }
    }
}

/// An attempt to connect, which is given up if it is dropped.
struct ConnectAttempt(Option<PromiseFuture<Channel>>);

impl Future for ConnectAttempt {
    type Output = Result<Channel, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.0 else { panic!("polled again after it has completed") };
        let result = ready!(Pin::new(future).poll(context));
        self.0 = None;
        Poll::Ready(result)
    }
}

impl Drop for ConnectAttempt {
    fn drop(&mut self) {
        if let Some(mut future) = self.0.take()
            && !future.cancel()
            && let Some(Ok(channel)) = future.try_take()
        {
            channel.close_without_future();
        }
    }
}
