//! An embedded channel with a decoder that makes several requests of one read, and calls that the test completes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use waterwheel_async::{AsyncHandler, OrderedAnswers, OrderedAnswersBuilder};
use waterwheel_channel::{
    ChannelOptions, Ctx, Events, HalfClosed, Handler, HandlerResult, In, InboundHandler, Message,
    Msg,
};
use waterwheel_executor::{Error, Report, Reporter};
use waterwheel_testkit::embedded::Embedded;

/// The requests of one read.
pub(crate) struct Batch(pub(crate) Vec<u32>);

impl Message for Batch {}

/// Makes the requests of a batch, as a decoder does.
pub(crate) struct Unpack;

impl InboundHandler for Unpack {
    type In = Batch;

    fn on_read(&mut self, ctx: &Ctx<'_>, batch: Batch) -> HandlerResult {
        batch.0.into_iter().for_each(|number| ctx.fire_read(number));
        Ok(())
    }
}

/// Calls that the test completes, by the number of their request.
#[derive(Clone, Default)]
pub(crate) struct Calls {
    pub(crate) gates: Rc<RefCell<BTreeMap<u32, Gate>>>,
    /// The numbers of the calls, in the order in which they began.
    pub(crate) begun: Rc<RefCell<Vec<u32>>>,
    /// The numbers of the calls that were dropped before they were ready.
    pub(crate) dropped: Rc<RefCell<Vec<u32>>>,
    pub(crate) polls: Rc<Cell<usize>>,
    /// Answers `oops` with an answer instead of closing.
    pub(crate) answers_errors: Rc<Cell<bool>>,
}

#[derive(Default)]
pub(crate) struct Gate {
    outcome: Option<Result<(), Error>>,
    pub(crate) waker: Option<Waker>,
}

impl Calls {
    /// Makes a call ready, and wakes it if it waits.
    pub(crate) fn finish(&self, number: u32) {
        self.set(number, Ok(()));
    }

    pub(crate) fn fail(&self, number: u32) {
        self.set(number, Err(Error::new("oops")));
    }

    fn set(&self, number: u32, outcome: Result<(), Error>) {
        let mut gates = self.gates.borrow_mut();
        let gate = gates.entry(number).or_default();
        gate.outcome = Some(outcome);
        let waker = gate.waker.take();
        drop(gates);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes the numbers of the calls that began since the last time.
    pub(crate) fn begun(&self) -> Vec<u32> {
        self.begun.take()
    }
}

impl AsyncHandler for Calls {
    type Request = u32;
    type Response = String;

    async fn call(&self, number: u32) -> Result<String, Error> {
        self.begun.borrow_mut().push(number);
        assert!(number != PANICS, "the call panics");
        GateOpens { calls: self, number, is_ready: false }.await?;
        Ok(format!("a{number}"))
    }

    fn answer_error(&self, error: Error) -> Result<String, Error> {
        if self.answers_errors.get() { Ok(format!("error: {error}")) } else { Err(error) }
    }
}

/// The request whose call panics.
pub(crate) const PANICS: u32 = 666;

struct GateOpens<'a> {
    calls: &'a Calls,
    number: u32,
    is_ready: bool,
}

impl Future for GateOpens<'_> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.calls.polls.set(self.calls.polls.get() + 1);
        let mut gates = self.calls.gates.borrow_mut();
        let gate = gates.entry(self.number).or_default();
        match gate.outcome.take() {
            Some(outcome) => {
                drop(gates);
                self.is_ready = true;
                Poll::Ready(outcome)
            }
            None => {
                gate.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for GateOpens<'_> {
    fn drop(&mut self) {
        if !self.is_ready {
            self.calls.dropped.borrow_mut().push(self.number);
        }
    }
}

/// Writes down events that pass the answers; the last handler of the pipeline.
#[derive(Clone, Default)]
pub(crate) struct Tail(pub(crate) Rc<RefCell<Vec<String>>>);

impl Tail {
    fn log(&self, line: impl Into<String>) {
        self.0.borrow_mut().push(line.into());
    }
}

impl Handler for Tail {
    fn interest(&self) -> Events {
        Events::USER_EVENT | Events::ERROR | Events::INACTIVE | Events::UNREGISTERED
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        match event.get() {
            Some(HalfClosed::Input) => self.log("input over"),
            Some(HalfClosed::Output) => self.log("output over"),
            None => ctx.fire_user_event(event),
        }
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        self.log(error.to_string());
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.log("inactive");
        ctx.fire_inactive();
        Ok(())
    }

    fn on_unregistered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.log("unregistered");
        ctx.fire_unregistered();
        Ok(())
    }
}

/// Keeps what is reported.
#[derive(Clone, Default)]
pub(crate) struct Reports(pub(crate) Arc<Mutex<Vec<String>>>);

impl Reporter for Reports {
    fn report(&self, report: &Report<'_>) {
        self.0.lock().unwrap().push(report.fault.to_string());
    }
}

pub(crate) struct Bench {
    channel: Embedded,
    pub(crate) calls: Calls,
    pub(crate) tail: Tail,
    pub(crate) reports: Reports,
}

/// A channel that runs at most `max_concurrent` calls.
pub(crate) fn bench(max_concurrent: usize) -> Bench {
    bench_with(ChannelOptions::default(), |builder| builder.max_concurrent(max_concurrent))
}

pub(crate) fn bench_with(
    options: ChannelOptions,
    build: impl FnOnce(OrderedAnswersBuilder<Calls>) -> OrderedAnswersBuilder<Calls>,
) -> Bench {
    let (calls, tail, reports) = (Calls::default(), Tail::default(), Reports::default());
    let answers = build(OrderedAnswers::builder(calls.clone())).build().unwrap();
    let last = tail.clone();
    let channel = Embedded::builder().options(options).reporter(Arc::new(reports.clone()));
    let channel = channel.build(|edit| {
        edit.add_last("unpack", In(Unpack))?;
        edit.add_last("answers", answers)?;
        edit.add_last("tail", last)?;
        Ok(())
    });
    Bench { channel: channel.unwrap(), calls, tail, reports }
}

impl Bench {
    /// Sends requests that are decoded from one read.
    pub(crate) fn send(&mut self, numbers: impl IntoIterator<Item = u32>) {
        self.channel.write_inbound(Msg::new(Batch(numbers.into_iter().collect())));
    }

    /// Completes a call from outside of the loop, and runs the loop.
    pub(crate) fn finish(&mut self, number: u32) {
        self.calls.finish(number);
        self.channel.run();
    }

    /// Completes calls on the loop, in one turn.
    pub(crate) fn finish_together(&mut self, numbers: impl IntoIterator<Item = u32>) {
        let calls = self.calls.clone();
        self.channel.on_loop(|_| numbers.into_iter().for_each(|number| calls.finish(number)));
        self.channel.run();
    }

    /// Takes the answers that the peer has received since the last time.
    pub(crate) fn answers(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.channel.read_outbound::<String>()).collect()
    }

    pub(crate) fn dropped(&self) -> Vec<u32> {
        self.calls.dropped.take()
    }

    pub(crate) fn tail(&self) -> Vec<String> {
        self.tail.0.take()
    }

    pub(crate) fn reports(&self) -> Vec<String> {
        std::mem::take(&mut self.reports.0.lock().unwrap())
    }
}

impl Deref for Bench {
    type Target = Embedded;

    fn deref(&self) -> &Embedded {
        &self.channel
    }
}

impl DerefMut for Bench {
    fn deref_mut(&mut self) -> &mut Embedded {
        &mut self.channel
    }
}
