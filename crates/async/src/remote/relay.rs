//! The future on a channel's loop that works for its handles on other threads.

use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use waterwheel_channel::{ChannelError, Message, Msg};
use waterwheel_executor::Error;

use super::exchange::{Exchange, Orders};
use crate::bridge::drain_signal::DrainSignal;
use crate::bridge::round_queue::RoundQueue;
use crate::bridge::state::BridgeState;
use crate::channel::{AsyncReader, AsyncWriter};
use crate::error::AsyncError;

/// Moves rounds of messages from the bridge to the exchange, and written messages back. Lives in the channel's scope.
pub(super) struct Relay<In: Message, Out: Message> {
    bridge: Rc<BridgeState<In>>,
    exchange: Arc<Exchange<In>>,
    /// The halves, until the handles elsewhere are dropped.
    reader: Option<AsyncReader<In>>,
    writer: Option<AsyncWriter<Out, In>>,
    /// Empty between two polls: its capacity goes round between the bridge, the exchange and the reader.
    round: RoundQueue<In>,
    /// The messages that are being written.
    batch: VecDeque<Msg>,
    must_flush_batch: bool,
    /// Present until the drain has begun.
    draining: Option<DrainSignal>,
}

impl<In: Message, Out: Message> Relay<In, Out> {
    pub(super) fn new(
        reader: AsyncReader<In>,
        writer: AsyncWriter<Out, In>,
        exchange: Arc<Exchange<In>>,
    ) -> Self {
        Self {
            bridge: reader.state().clone(),
            draining: Some(reader.draining()),
            exchange,
            reader: Some(reader),
            writer: Some(writer),
            round: RoundQueue::default(),
            batch: VecDeque::new(),
            must_flush_batch: false,
        }
    }

    /// Does what the handles want; completes when both are dropped.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let orders = self.exchange.take_orders(context.waker(), &mut self.batch);
        let is_written = self.poll_write(context, orders).is_ready();
        if !orders.has_writer && is_written {
            self.writer = None;
        } else if orders.is_flush_awaited
            && is_written
            && let Poll::Ready(result) = self.bridge.poll_flush(context)
        {
            self.exchange.finish_flush(result.err());
        }
        if !orders.has_reader {
            self.reader = None;
        } else if orders.is_round_wanted
            && self.bridge.poll_round(context, &mut self.round).is_ready()
        {
            self.exchange.deliver_round(&mut self.round, self.bridge.is_input_over());
        }
        if let Some(draining) = &mut self.draining
            && Pin::new(draining).poll(context).is_ready()
        {
            self.draining = None;
            self.exchange.begin_drain();
        }
        match (&self.reader, &self.writer) {
            (None, None) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }

    /// Writes the batch while the channel is writable. Ready if there is nothing left to write.
    fn poll_write(&mut self, context: &mut Context<'_>, orders: Orders) -> Poll<()> {
        self.must_flush_batch |= orders.is_flush_requested;
        if self.batch.is_empty() {
            return Poll::Ready(());
        }
        let (mut error, mut is_full) = (None, false);
        while !self.batch.is_empty() {
            // The last messages of a writer that was dropped are limited, and the close comes behind them.
            let room = match orders.has_writer {
                true => self.bridge.poll_ready(context),
                false => Poll::Ready(Ok(())),
            };
            if room.is_pending() {
                is_full = true;
                break;
            }
            let Some(message) = self.batch.pop_front() else { break };
            let written = match room {
                Poll::Ready(Err(refused)) => Err(refused),
                _ => self.bridge.write(message, false),
            };
            error = error.or(written.err());
        }
        if !is_full && std::mem::take(&mut self.must_flush_batch) {
            self.bridge.flush();
        }
        let has_more = self.exchange.finish_writes(error, is_full);
        if has_more {
            context.waker().wake_by_ref(); // In the next turn, so that others get theirs.
        }
        if is_full || has_more { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Returns the error of calls from now on.
    fn end_error(&self) -> Error {
        let channel = self.bridge.channel();
        if channel.is_open() {
            Error::new(AsyncError::LoopEnded { channel: channel.id() })
        } else {
            ChannelError::Closed { cause: channel.close_cause() }.into()
        }
    }
}

/// The relay is dropped when it has completed, when the channel is closed, when the bridge is removed from its
/// pipeline, or when the loop ends or has died.
impl<In: Message, Out: Message> Drop for Relay<In, Out> {
    fn drop(&mut self) {
        let error = self.end_error();
        self.bridge.take_round(&mut self.round);
        if !self.bridge.is_input_over() {
            self.round.push(Err(error.clone()));
        }
        let is_flushed = self.batch.is_empty() && self.bridge.has_written_all();
        self.exchange.end(error, &mut self.round, is_flushed);
    }
}
