//! Loom models of the exchange: no message, wake or end is lost between a handle and the relay.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::Notify;
use loom::thread;
use waterwheel_executor::{Error, ErrorKind};

use super::exchange::Exchange;
use crate::bridge::round_queue::RoundQueue;

/// The waker of a thread of the model.
struct NotifyThread(Notify);

impl Wake for NotifyThread {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

/// Polls until it is ready. A lost wake shows as a deadlock.
fn block_on<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let thread = Arc::new(NotifyThread(Notify::new()));
    let waker = Waker::from(thread.clone());
    loop {
        if let Poll::Ready(value) = poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        thread.0.wait();
    }
}

/// A relay without a channel: delivers these rounds, counts what is written, and ends when both handles are dropped,
/// or after as many polls as it may have.
struct ModelRelay {
    rounds: VecDeque<u32>,
    written: usize,
    polls_left: usize,
}

impl ModelRelay {
    fn run(mut self, exchange: &Exchange<u32>) -> usize {
        let (mut batch, mut round) = (VecDeque::new(), RoundQueue::default());
        block_on(|context| {
            let orders = exchange.take_orders(context.waker(), &mut batch);
            self.written += batch.len();
            let has_more = !batch.is_empty() && {
                batch.clear();
                exchange.finish_writes(None, false)
            };
            if has_more {
                context.waker().wake_by_ref();
            } else if orders.is_flush_awaited {
                exchange.finish_flush(None);
            }
            if orders.is_round_wanted {
                if let Some(item) = self.rounds.pop_front() {
                    round.push(Ok(item));
                }
                exchange.deliver_round(&mut round, self.rounds.is_empty());
            }
            self.polls_left -= 1;
            let is_done = !orders.has_reader && !orders.has_writer && !has_more;
            if is_done || self.polls_left == 0 { Poll::Ready(()) } else { Poll::Pending }
        });
        exchange.end(Error::from(ErrorKind::Cancelled), &mut round, false);
        self.written
    }
}

fn read(exchange: &Exchange<u32>, round: &mut RoundQueue<u32>) -> Option<Result<u32, Error>> {
    block_on(|context| {
        if round.is_empty() && exchange.poll_round(context, round).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(round.pop())
    })
}

#[test]
fn a01_a_reader_gets_every_round_and_the_end() {
    loom::model(|| {
        let exchange = Arc::new(Exchange::<u32>::new());
        let shared = exchange.clone();
        thread::spawn(move || {
            let mut round = RoundQueue::default();
            assert!(matches!(read(&shared, &mut round), Some(Ok(1))));
            assert!(matches!(read(&shared, &mut round), Some(Ok(2))));
            assert!(read(&shared, &mut round).is_none());
            shared.drop_reader();
        });
        exchange.drop_writer();
        ModelRelay { rounds: [1, 2].into(), written: 0, polls_left: usize::MAX }.run(&exchange);
    });
}

#[test]
fn a01_a_writer_loses_no_message_and_no_flush() {
    loom::model(|| {
        let exchange = Arc::new(Exchange::<u32>::new());
        let shared = exchange.clone();
        exchange.drop_reader();
        thread::spawn(move || {
            block_on(|context| shared.poll_room(context)).unwrap();
            shared.push(1_u32.into(), true).unwrap();
            shared.push(2_u32.into(), false).unwrap();
            block_on(|context| shared.poll_flush(context)).unwrap();
            shared.push(3_u32.into(), false).unwrap();
            shared.drop_writer();
        });
        let relay = ModelRelay { rounds: VecDeque::new(), written: 0, polls_left: usize::MAX };
        assert_eq!(relay.run(&exchange), 3);
    });
}

/// The relay ends after its first poll, as with a loop that dies: both handles get an answer.
#[test]
fn a01_whatever_waits_completes_when_the_relay_ends() {
    loom::model(|| {
        let exchange = Arc::new(Exchange::<u32>::new());
        let (reader, writer) = (exchange.clone(), exchange.clone());
        thread::spawn(move || {
            let mut round = RoundQueue::default();
            while read(&reader, &mut round).is_some() {}
            reader.drop_reader();
        });
        thread::spawn(move || {
            let sent = writer.push(1_u32.into(), true);
            let flushed = block_on(|context| writer.poll_flush(context));
            assert!(sent.is_ok() || flushed.is_ok(), "a message that was refused is not flushed");
            writer.drop_writer();
        });
        ModelRelay { rounds: [1, 2].into(), written: 0, polls_left: 1 }.run(&exchange);
    });
}
