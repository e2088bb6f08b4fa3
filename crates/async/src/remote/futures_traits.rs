//! `Stream` and `Sink` of the futures crates.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_sink::Sink;
use waterwheel_channel::Message;
use waterwheel_executor::Error;

use super::{RemoteAsyncChannel, RemoteAsyncReader, RemoteAsyncWriter};

impl<In: Message> Stream for RemoteAsyncReader<In> {
    type Item = Result<In, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_next_item(context)
    }
}

/// `poll_close` flushes; dropping the writer shuts down the output.
impl<Out: Message, In: Message> Sink<Out> for RemoteAsyncWriter<Out, In> {
    type Error = Error;

    fn poll_ready(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.poll_room(context)
    }

    fn start_send(mut self: Pin<&mut Self>, message: Out) -> Result<(), Error> {
        self.write(message, false)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.poll_flushed(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.poll_flushed(context)
    }
}

impl<In: Message, Out: Message> Stream for RemoteAsyncChannel<In, Out> {
    type Item = Result<In, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.reader.poll_next_item(context)
    }
}

/// `poll_close` flushes; dropping the value closes the channel.
impl<In: Message, Out: Message> Sink<Out> for RemoteAsyncChannel<In, Out> {
    type Error = Error;

    fn poll_ready(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.writer.poll_room(context)
    }

    fn start_send(mut self: Pin<&mut Self>, message: Out) -> Result<(), Error> {
        self.writer.write(message, false)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.writer.poll_flushed(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.writer.poll_flushed(context)
    }
}
