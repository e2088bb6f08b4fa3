//! `Stream` and `Sink` of the futures crates.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_sink::Sink;
use waterwheel_executor::Error;

use super::WebSocket;
use super::halves::{WebSocketReader, WebSocketWriter};
use crate::protocol::message::WebSocketMessage;

impl Stream for WebSocketReader {
    type Item = Result<WebSocketMessage, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_ended() {
            return Poll::Ready(None);
        }
        let next = ready!(Pin::new(&mut self.messages).poll_next(context));
        Poll::Ready(self.note(next))
    }
}

/// `poll_close` flushes; dropping the writer begins the closing handshake.
impl Sink<WebSocketMessage> for WebSocketWriter {
    type Error = Error;

    fn poll_ready(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.messages).poll_ready(context)
    }

    fn start_send(mut self: Pin<&mut Self>, message: WebSocketMessage) -> Result<(), Error> {
        Pin::new(&mut self.messages).start_send(message)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.messages).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.messages).poll_close(context)
    }
}

impl Stream for WebSocket {
    type Item = Result<WebSocketMessage, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.reader).poll_next(context)
    }
}

/// `poll_close` flushes; dropping the value begins the closing handshake.
impl Sink<WebSocketMessage> for WebSocket {
    type Error = Error;

    fn poll_ready(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.writer).poll_ready(context)
    }

    fn start_send(mut self: Pin<&mut Self>, message: WebSocketMessage) -> Result<(), Error> {
        Pin::new(&mut self.writer).start_send(message)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.writer).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.writer).poll_close(context)
    }
}
