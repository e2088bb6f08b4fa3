//! Allocation budgets of ordered answers: what a request costs beyond a handler that answers in place.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Poll, Waker};

use bytes::Bytes;
use waterwheel_async::{OrderedAnswers, handler_fn};
use waterwheel_channel::{Ctx, Edit, HandlerResult, In, InboundHandler, Msg, yield_now};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

#[path = "../../../support/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::allocations_in;

const ROUNDS: usize = 200;

const ANSWER: Bytes = Bytes::from_static(b"+PONG\r\n");

struct AnswerInPlace;

impl InboundHandler for AnswerInPlace {
    type In = Bytes;

    fn on_read(&mut self, ctx: &Ctx<'_>, _: Bytes) -> HandlerResult {
        ctx.write(ANSWER);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }
}

/// Counts the allocations of rounds with `depth` pipelined requests each, after a warm-up.
fn allocated(depth: usize, initialiser: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>) -> u64 {
    let mut channel = Embedded::builder().stream().build(initialiser).unwrap();
    let mut rounds = || {
        for _ in 0..ROUNDS {
            channel.with_pipeline(|pipeline| {
                for _ in 0..depth {
                    pipeline.fire_read(Msg::new(Bytes::from_static(b"PING\r\n")));
                }
                pipeline.fire_read_complete();
            });
            channel.run();
            let answers = std::iter::from_fn(|| channel.read_outbound::<Bytes>());
            assert_eq!(answers.map(|bytes| bytes.len()).sum::<usize>(), depth * ANSWER.len());
        }
    };
    rounds();
    allocations_in(rounds).0
}

fn allocated_in_place(depth: usize) -> u64 {
    allocated(depth, |edit| {
        edit.add_last("in place", In(AnswerInPlace))?;
        Ok(())
    })
}

#[test]
fn c19_ordered_calls_that_are_ready_at_once_allocate_nothing() {
    for depth in [1, 16] {
        let ordered = allocated(depth, |edit| {
            let answers = handler_fn(|_: Bytes| async { Ok::<_, Error>(ANSWER) });
            edit.add_last("answers", OrderedAnswers::new(answers))?;
            Ok(())
        });
        assert_eq!(ordered, allocated_in_place(depth), "{depth} requests at a time");
    }
}

#[test]
fn c19_ordered_calls_that_wait_allocate_nothing_while_few_are_under_way() {
    for depth in [1, 4] {
        let ordered = allocated(depth, |edit| {
            let answers = handler_fn(|_: Bytes| async {
                yield_now().await;
                Ok::<_, Error>(ANSWER)
            });
            edit.add_last("answers", OrderedAnswers::new(answers))?;
            Ok(())
        });
        assert_eq!(ordered, allocated_in_place(depth), "{depth} requests at a time");
    }
}

#[test]
fn c19_ordered_many_calls_that_wait_cost_two_allocations_each() {
    let depth = 16;
    let ordered = allocated(depth, |edit| {
        let answers = handler_fn(|_: Bytes| async {
            yield_now().await;
            Ok::<_, Error>(ANSWER)
        });
        edit.add_last("answers", OrderedAnswers::new(answers))?;
        Ok(())
    });
    // The future and its waker, for each call beyond the four whose places are kept.
    let beyond = ((depth - 4) * ROUNDS) as u64;
    assert_eq!(ordered, allocated_in_place(depth) + 2 * beyond);
}

#[test]
fn a05_ordered_a_wake_from_outside_of_the_loop_allocates_nothing() {
    let wakers = Rc::new(RefCell::new(Vec::<Waker>::with_capacity(4)));
    let waiting = wakers.clone();
    let mut channel = Embedded::builder()
        .stream()
        .build(|edit| {
            let answers = handler_fn(move |_: Bytes| {
                let (wakers, mut polls) = (waiting.clone(), 0);
                std::future::poll_fn(move |cx| {
                    polls += 1;
                    if polls > 2 {
                        return Poll::Ready(Ok::<_, Error>(ANSWER));
                    }
                    wakers.borrow_mut().push(cx.waker().clone());
                    Poll::Pending
                })
            });
            edit.add_last("answers", OrderedAnswers::new(answers))?;
            Ok(())
        })
        .unwrap();
    let mut rounds = |allowed: u64| {
        for _ in 0..ROUNDS {
            channel.with_pipeline(|pipeline| {
                pipeline.fire_read(Msg::new(Bytes::from_static(b"PING\r\n")));
                pipeline.fire_read_complete();
            });
            // Until the call is ready; the first one of the connection is polled once more.
            while channel.read_outbound_any().is_none() {
                let (allocations, ()) = allocations_in(|| {
                    let mut wakers = wakers.borrow_mut();
                    while let Some(waker) = wakers.pop() {
                        waker.wake();
                    }
                });
                assert!(allocations <= allowed);
                channel.run();
            }
        }
    };
    rounds(u64::MAX);
    rounds(0);
}
