//! The events of a client, as the response takes them.

use std::rc::Rc;
use std::task::{Context, Poll};

use waterwheel::executor::Error;
use waterwheel::http::{EncodedEvent, EventSource};

use super::connection::{EventsConnection, NextEvent};
use crate::session::Session;

/// The events of a client. The session ends when this is dropped: with the response.
pub(super) struct ClientEvents {
    connection: Rc<EventsConnection>,
    _session: Session,
}

impl ClientEvents {
    pub(super) fn new(connection: Rc<EventsConnection>, session: Session) -> Self {
        Self { connection, _session: session }
    }
}

impl EventSource for ClientEvents {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<EncodedEvent, Error>>> {
        match self.connection.next(cx) {
            NextEvent::Event(event) => Poll::Ready(Some(Ok(event))),
            NextEvent::Waits => Poll::Pending,
            NextEvent::End => Poll::Ready(None),
        }
    }
}
