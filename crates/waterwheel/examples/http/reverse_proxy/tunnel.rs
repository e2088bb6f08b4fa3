//! Upgrades: the two connections become a tunnel.

use futures_util::future::try_join;
use waterwheel::async_bridge::{AsyncChannel, AsyncReader, AsyncWriter};
use waterwheel::bytes::Bytes;
use waterwheel::channel::LocalLoop;
use waterwheel::executor::Error;
use waterwheel::http::{Body, ClientError, Incoming, Response, into_upgraded};

use crate::abandoned;

/// Returns the response with status 101 for the client, after which both connections forward to each other what they
/// read, beginning with what came behind the two heads.
pub(crate) fn switch_protocols(response: Response<Incoming>) -> Result<Response, ClientError> {
    let mut switched = Response::new(());
    *switched.status_mut() = response.status();
    *switched.headers_mut() = response.headers().clone();
    let back = into_upgraded(response)?;
    Ok(switched.map(|()| {
        Body::upgrade(move |edit| {
            abandoned::remove_handler(edit)?;
            let front = AsyncChannel::install(edit)?;
            if let Some(here) = LocalLoop::current() {
                // Ends with its connections, and not before everything that was read is written.
                drop(here.spawn_local(join_channels(front, back)));
            }
            Ok(())
        })
    }))
}

/// Forwards in both directions until both have ended, or one has failed: then both connections are closed.
async fn join_channels(front: AsyncChannel<Bytes>, back: AsyncChannel<Bytes>) {
    let (front_reader, front_writer) = front.split();
    let (back_reader, back_writer) = back.split();
    let both = try_join(copy(front_reader, back_writer), copy(back_reader, front_writer));
    // An end of a tunnel that is reset is nothing to report.
    let _ = both.await;
}

/// Forwards one direction, and its end.
async fn copy(
    mut from: AsyncReader<Bytes>,
    mut to: AsyncWriter<Bytes>,
) -> Result<AsyncReader<Bytes>, Error> {
    while let Some(bytes) = from.try_next().await? {
        to.send(bytes).await?;
    }
    to.finish();
    // Dropped with the other direction: the two halves close the channel.
    Ok(from)
}
