//! Any actions on any pipeline: nothing is lost, doubled or out of order, and everything comes to an end.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use waterwheel_channel::{Channel, ChannelFuture, ChannelOptions, DrainOptions, WaterMarks};
use waterwheel_executor::{Error, Report, Reporter};
use waterwheel_handlers::TrafficRate;
use waterwheel_testkit::embedded::Embedded;

use crate::actions::{Action, EndAction, Limits, action, limits};
use crate::model::{ModelWrite, Outcome, Source, SourceEnd, check_order, check_sent};
use crate::pipelines::{ReadPlan, Sabotage, Shared, Stock, any_order, write_local};

/// How a test ends.
#[derive(Clone, Copy, Debug)]
enum Finish {
    /// The peer reads everything: all of it arrives.
    Deliver,
    /// The channel is closed while the peer does not read.
    CloseStalled,
    /// The loop is drained.
    Drain,
    /// The channel is closed, or its output shut down, at once after the last flush, and everything arrives.
    CloseAfterFlush,
    ShutdownAfterFlush,
}

struct Quiet;

impl Reporter for Quiet {
    fn report(&self, _: &Report<'_>) {}
}

/// A channel under test, with its model.
struct Run {
    channel: Embedded,
    shared: Shared,
    order: Vec<Stock>,
    operations: Vec<ChannelFuture>,
    sent: Vec<u8>,
    /// The bytes that the peer has sent.
    inbound: Vec<u8>,
    /// True once something may have ended the output or the channel.
    may_be_over: bool,
    /// True once the input may end, or messages may be lost to it.
    may_lose_input: bool,
    /// True once a panic may unwind through the application, which is dropped then.
    may_lose_app: bool,
}

impl Run {
    fn new(
        order: Vec<Stock>,
        rate: Option<u64>,
        half_closure: bool,
        auto_read: bool,
        limits: Limits,
    ) -> Self {
        let shared = Shared::new(rate, limits.write_timeout);
        let mut water_marks = WaterMarks::new(200, 600).unwrap();
        if limits.has_hard_cap {
            water_marks = water_marks.with_hard_cap(12_000).unwrap();
        }
        let options = ChannelOptions {
            water_marks,
            allow_half_closure: half_closure,
            auto_read,
            ..ChannelOptions::default()
        };
        let builder = Embedded::builder().stream().options(options).reporter(Arc::new(Quiet));
        let mut channel = builder.build(|edit| shared.build(&order, edit)).unwrap();
        channel.run();
        Self {
            channel,
            shared,
            order,
            operations: Vec::new(),
            sent: Vec::new(),
            inbound: Vec::new(),
            may_be_over: limits.has_hard_cap || limits.write_timeout < Duration::from_secs(20),
            may_lose_input: false,
            may_lose_app: false,
        }
    }

    fn write(&mut self, len: usize, is_local: bool) {
        if is_local {
            let (app, channel) = (self.shared.app.clone(), self.channel.channel().clone());
            self.channel.with_pipeline(|pipeline| {
                write_local(&app, len, 0, &channel, |msg, done| pipeline.write_with(msg, done));
            });
            return;
        }
        let bytes = self.shared.app.borrow_mut().bytes(len);
        let at = self.shared.app.borrow().writes.len();
        self.shared.app.borrow_mut().writes.push(ModelWrite::unmade(bytes.clone()));
        let future = self.channel.write(bytes);
        self.shared.app.borrow_mut().writes[at].made(future);
    }

    fn write_source(&mut self, lens: &[usize], given: usize) {
        let mut app = self.shared.app.borrow_mut();
        let chunks: Vec<_> = lens.iter().map(|len| app.bytes(*len)).collect();
        let (source, at) = (Source::default(), app.writes.len());
        let message = source.message(&chunks, given);
        app.writes.push(ModelWrite::unmade_source(chunks, source));
        drop(app);
        let future = self.channel.write(message);
        self.shared.app.borrow_mut().writes[at].made(future);
    }

    fn sources(&self) -> Vec<Source> {
        self.shared.app.borrow().writes.iter().filter_map(|write| write.source.clone()).collect()
    }

    fn pick_source(&self, at: usize) -> Option<Source> {
        let open: Vec<_> = self.sources().into_iter().filter(|it| !it.is_dropped()).collect();
        (!open.is_empty()).then(|| open[at % open.len()].clone())
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Write(len, is_local) => self.write(*len, *is_local),
            Action::WriteSource(lens, given) => self.write_source(lens, *given),
            Action::Give(count) => {
                if let Some(source) = self.pick_source(0) {
                    source.give(*count);
                }
            }
            Action::EndSource(at, end) => {
                if let Some(source) = self.pick_source(*at) {
                    self.may_be_over |= !matches!(end, SourceEnd::Finish);
                    source.end(*end);
                }
            }
            Action::Cancel(at) => {
                let writes = &mut self.shared.app.borrow_mut().writes;
                let count = writes.len().max(1);
                writes.get_mut(at % count).into_iter().for_each(ModelWrite::cancel);
            }
            Action::Flush => self.channel.flush(),
            Action::Room(room) => self.channel.set_room(*room),
            Action::ShortWrites(most) => self.channel.short_writes(*most),
            Action::Pass(millis) => self.pass(*millis),
            Action::Jump(millis) => {
                self.channel.advance(Duration::from_millis(u64::from(*millis)));
            }
            Action::SetRate(rate) => {
                let rate = rate.map(TrafficRate::per_second);
                self.shared.shaping.set_channel_write_rate(rate);
                self.shared.shaping.set_channel_read_rate(rate);
            }
            Action::SetGroupRate(rate) => {
                self.shared.group.set_rate(rate.map(TrafficRate::per_second));
            }
            Action::Inbound(lens) => self.send_inbound(lens),
            Action::Plan(plan) => {
                match plan {
                    ReadPlan::ShutdownOutput => self.may_be_over = true,
                    ReadPlan::Close | ReadPlan::Remove(_) => {
                        (self.may_be_over, self.may_lose_input) = (true, true);
                    }
                    _ => {}
                }
                self.shared.app.borrow_mut().plan.push(*plan);
            }
            Action::AutoRead(is_on) => {
                self.channel.on_loop(|channel| channel.set_auto_read(*is_on))
            }
            Action::Read => self.channel.read(),
            Action::Deregister => {
                self.operate(Channel::deregister);
                self.pass(3);
                self.operate(Channel::register);
            }
            Action::Remove(at) => self.remove(*at),
            Action::End(end) => self.end(*end),
        }
        self.channel.run();
    }

    fn send_inbound(&mut self, lens: &[usize]) {
        let mut msgs = Vec::new();
        for len in lens {
            let start = self.inbound.len();
            self.inbound.extend((start..start + len).map(|at| (at * 7 / 3) as u8));
            msgs.push(Bytes::copy_from_slice(&self.inbound[start..]).into());
        }
        self.channel.write_inbound_all(msgs);
    }

    fn remove(&mut self, at: usize) {
        if self.order.is_empty() {
            return;
        }
        let stock = self.order.remove(at % self.order.len());
        // A source that has begun cannot be finished without the handler, and the channel is closed.
        self.may_be_over |= stock == Stock::Chunked;
        self.channel.with_pipeline(|pipeline| {
            let _gone = pipeline.remove(stock.name());
            if stock == Stock::Codec {
                let _gone = pipeline.remove("decoder");
            }
        });
    }

    fn end(&mut self, end: EndAction) {
        self.may_be_over = true;
        self.may_lose_input |= !matches!(end, EndAction::ShutdownOutput | EndAction::FinishInbound);
        match end {
            EndAction::ShutdownOutput => self.operate(Channel::shutdown_output),
            EndAction::Close => self.operate(Channel::close),
            EndAction::Disconnect => self.operate(Channel::disconnect),
            EndAction::FinishInbound => {
                self.may_lose_input = true;
                self.channel.finish_inbound();
            }
            EndAction::Fail => self.channel.fail(Error::new("reset")),
            EndAction::FailWrite => self.channel.fail_write(std::io::ErrorKind::BrokenPipe.into()),
            EndAction::Sabotage(act) => {
                self.may_lose_app |= matches!(act, Sabotage::PanicLater);
                self.channel.fire_user_event(act);
            }
        }
    }

    fn operate(&mut self, operation: impl FnOnce(&Channel) -> ChannelFuture) {
        let done = self.channel.on_loop(operation);
        self.operations.push(done);
    }

    fn pass(&mut self, millis: u32) {
        for _ in 0..millis {
            self.channel.advance(Duration::from_millis(1));
        }
    }

    /// Checks what must hold at any time.
    fn check(&mut self, is_over: bool) -> Result<(), String> {
        while let Some(msg) = self.channel.read_outbound_any() {
            self.sent.extend_from_slice(&msg.into_bytes().map_err(|_| "not bytes")?);
        }
        let mut app = self.shared.app.borrow_mut();
        check_sent(&self.sent, &mut app.writes, is_over)?;
        check_order(&mut app.writes)?;
        let most: usize = app.writes.iter_mut().map(ModelWrite::most_pending).sum();
        let pending = self.channel.channel().pending_bytes();
        if pending > most {
            return Err(format!("{pending} bytes pending, of {most} that were not written"));
        }
        if self.inbound.starts_with(&app.read) { Ok(()) } else { Err("the input changed".into()) }
    }

    fn finish(&mut self, finish: Finish) -> Result<(), String> {
        self.shared.app.borrow_mut().plan.clear();
        match finish {
            Finish::Deliver => self.deliver()?,
            Finish::CloseStalled => self.close_stalled()?,
            Finish::CloseAfterFlush => {
                self.channel.clear_faults();
                self.end_after_flush(Channel::close)?;
            }
            Finish::ShutdownAfterFlush => {
                self.channel.set_room(10);
                self.end_after_flush(Channel::shutdown_output)?;
            }
            // The loop has ended, and its channels with it.
            Finish::Drain => return self.drain().and_then(|()| self.check_closed()),
        }
        self.channel.close();
        for _ in 0..70 {
            self.channel.advance(Duration::from_secs(1));
        }
        self.check_closed()
    }

    fn finish_sources(&mut self) {
        self.channel.clear_faults();
        self.act(&Action::SetRate(None));
        self.act(&Action::SetGroupRate(None));
        self.sources().iter().for_each(|source| source.end(SourceEnd::Finish));
        self.channel.run();
        self.channel.flush();
    }

    fn deliver(&mut self) -> Result<(), String> {
        self.finish_sources();
        self.channel.on_loop(|channel| channel.set_auto_read(true));
        for _ in 0..400 {
            self.channel.advance(Duration::from_millis(100));
        }
        self.check(false)?;
        let pending = self.channel.channel().pending_bytes();
        if pending > 0 {
            return Err(format!("{pending} bytes pending, and nothing to wait for"));
        }
        if !self.may_be_over {
            if !self.channel.channel().is_open() {
                let cause = self.channel.channel().close_cause();
                return Err(format!("the channel was closed: {cause:?}"));
            }
            self.check_written(usize::MAX)?;
            self.check_input()?;
            self.check_rest()?;
        }
        Ok(())
    }

    /// Checks that the first `count` writes have succeeded.
    fn check_written(&mut self, count: usize) -> Result<(), String> {
        let writes = &mut self.shared.app.borrow_mut().writes;
        for (at, write) in writes.iter_mut().enumerate().take(count) {
            let outcome = write.outcome();
            if !self.may_be_over && !matches!(outcome, Outcome::Written | Outcome::Cancelled) {
                return Err(format!("write {at} is {outcome:?}"));
            }
        }
        Ok(())
    }

    fn check_input(&mut self) -> Result<(), String> {
        let (read, sent) = (self.shared.app.borrow().read.len(), self.inbound.len());
        if self.may_lose_input || read + 3 > sent {
            return Ok(());
        }
        Err(format!("{read} of {sent} bytes were read"))
    }

    /// Checks that a channel at rest has only the timers that measure time, and allocates no turns of its loop.
    fn check_rest(&mut self) -> Result<(), String> {
        let of = |stock: &Stock| match stock {
            Stock::Idle => 3,
            Stock::ReadTimeout => 1,
            _ => 0,
        };
        let expected: usize = self.order.iter().map(of).sum();
        let timers = self.channel.channel().event_loop().metrics().timers;
        // The write timeout's timer ends with its next firing.
        if timers <= expected + 1 { Ok(()) } else { Err(format!("{timers} timers at rest")) }
    }

    fn end_after_flush(
        &mut self,
        operation: impl FnOnce(&Channel) -> ChannelFuture,
    ) -> Result<(), String> {
        self.act(&Action::SetRate(Some(20_000)));
        self.act(&Action::SetGroupRate(Some(20_000)));
        self.sources().iter().for_each(|source| source.end(SourceEnd::Finish));
        let made = self.shared.app.borrow().writes.len();
        self.channel.on_loop(Channel::flush);
        self.operate(operation);
        self.channel.run();
        self.channel.clear_faults();
        for _ in 0..400 {
            self.channel.advance(Duration::from_millis(100));
        }
        self.check_written(made)
    }

    fn close_stalled(&mut self) -> Result<(), String> {
        self.channel.set_room(0);
        self.operate(Channel::close);
        for _ in 0..700 {
            self.channel.advance(Duration::from_millis(100));
        }
        if self.channel.channel().is_open() { Err("the close never ends".into()) } else { Ok(()) }
    }

    fn drain(&mut self) -> Result<(), String> {
        self.finish_sources();
        let options = DrainOptions::within(Duration::from_secs(600));
        let options = options.shutdown(Duration::ZERO, Duration::from_secs(5)).unwrap();
        let drained = self.channel.channel().event_loop().drain(options);
        for _ in 0..600 {
            self.channel.advance(Duration::from_millis(100));
        }
        if drained.is_done() { Ok(()) } else { Err("the drain does not end".into()) }
    }

    fn check_closed(&mut self) -> Result<(), String> {
        if self.channel.channel().is_open() {
            return Err("the channel does not close".into());
        }
        self.check(true)?;
        for (at, write) in self.shared.app.borrow_mut().writes.iter_mut().enumerate() {
            if write.outcome() == Outcome::Open {
                return Err(format!("write {at} never completes"));
            }
        }
        for operation in &mut self.operations {
            match operation.try_take() {
                None => return Err("an operation never completes".into()),
                Some(Err(error)) if error.to_string().contains("dropped") => {
                    return Err(format!("an operation was lost: {error}"));
                }
                Some(_) => {}
            }
        }
        if self.sources().iter().any(|source| !source.is_dropped()) {
            return Err("a source was not dropped".into());
        }
        let pending = self.channel.channel().pending_bytes();
        let held = self.shared.group.stats_at(self.channel.now()).held;
        if (pending, held) != (0, 0) {
            return Err(format!("{pending} bytes pending and {held} held after the close"));
        }
        if !self.shared.app.borrow().is_inactive && !self.may_lose_app {
            return Err("the application was not told of the end".into());
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn c14_any_actions_on_any_pipeline_lose_nothing_and_end(
        order in any_order(),
        rate in prop::option::of(prop_oneof![Just(1u64), 800u64..50_000]),
        half_closure in any::<bool>(),
        auto_read in any::<bool>(),
        limits in limits(),
        actions in vec(action(), 1..50),
        finish in prop_oneof![Just(Finish::Deliver), Just(Finish::CloseStalled), Just(Finish::Drain), Just(Finish::CloseAfterFlush), Just(Finish::ShutdownAfterFlush)],
    ) {
        let mut run = Run::new(order, rate, half_closure, auto_read, limits);
        for action in &actions {
            run.act(action);
            run.check(false).map_err(|error| TestCaseError::fail(format!("{action:?}: {error}")))?;
        }
        run.finish(finish).map_err(TestCaseError::fail)?;
    }
}
