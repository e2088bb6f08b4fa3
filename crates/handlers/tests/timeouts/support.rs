//! Embedded channels with a timeout handler, and the errors that it fired.

use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{ChannelError, Handler};
use waterwheel_executor::Error;
use waterwheel_handlers::TimeoutError;
use waterwheel_testkit::embedded::{Embedded, EmbeddedBuilder};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const NS: Duration = Duration::from_nanos(1);

/// A stream channel with one handler.
pub(crate) fn stream_with(handler: impl Handler) -> Embedded {
    built_with(Embedded::builder().stream(), handler)
}

pub(crate) fn built_with(builder: EmbeddedBuilder, handler: impl Handler) -> Embedded {
    let built = builder.build(|edit| {
        edit.add_last("timeout", handler)?;
        Ok(())
    });
    built.unwrap()
}

/// Takes the timeouts that reached the tail, in milliseconds of their limits.
pub(crate) fn timeouts(channel: &mut Embedded) -> Vec<TimeoutError> {
    let errors = std::iter::from_fn(|| channel.read_error());
    errors.map(|error| timeout_of(&error).expect("only timeouts are fired")).collect()
}

/// Finds the timeout in an error or its causes.
pub(crate) fn timeout_of(error: &Error) -> Option<TimeoutError> {
    error.find::<TimeoutError>().cloned()
}

/// Returns the cause with which the channel was closed.
pub(crate) fn close_cause(channel: &mut Embedded) -> Option<Error> {
    assert!(!channel.channel().is_open());
    let error = channel.write_outbound(Bytes::from_static(b"late")).join().unwrap_err();
    match error.find::<ChannelError>() {
        Some(ChannelError::Closed { cause }) => cause.clone(),
        other => panic!("closed, not {other:?}"),
    }
}

/// Sends some bytes to the channel, and drops what passes it.
pub(crate) fn receive(channel: &mut Embedded) {
    channel.write_inbound(Bytes::from_static(b"in"));
    while channel.read_inbound_any().is_some() {}
}

/// Counts the timers of the channel's loop.
pub(crate) fn timers(channel: &mut Embedded) -> usize {
    channel.run();
    channel.channel().event_loop().metrics().timers
}
