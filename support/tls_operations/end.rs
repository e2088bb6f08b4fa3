//! One side of a connection: its channel, what was written to it and what it has read.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use waterwheel_channel::{
    Channel, ChannelFuture, ChannelOptions, Ctx, Events, HalfClosed, Handler, HandlerResult,
    Message, Msg,
};
use waterwheel_executor::{Error, Fault, Report};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_tls::{OnCloseNotify, TlsHandler, TlsHandshake, TlsPeerClosed, TlsStopped};

/// The reads and events of the handler behind TLS.
#[derive(Default)]
pub(super) struct Log {
    pub(super) received: Vec<u8>,
    /// How much was received when TLS was stopped.
    pub(super) received_in_tls: Option<usize>,
    pub(super) is_established: bool,
    has_peer_closed: bool,
    is_output_over: bool,
}

/// Makes the handler behind TLS abort the channel.
#[derive(Debug)]
pub(super) struct AbortRequest;

impl Message for AbortRequest {}

struct Watch(Rc<RefCell<Log>>);

impl Handler for Watch {
    fn interest(&self) -> Events {
        Events::USER_EVENT | Events::READ
    }

    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let bytes = msg.into_bytes().unwrap_or_default();
        self.0.borrow_mut().received.extend_from_slice(&bytes);
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.is::<AbortRequest>() {
            ctx.abort(Error::new("aborted"));
            return Ok(());
        }
        let mut log = self.0.borrow_mut();
        log.is_established |= event.is::<TlsHandshake>();
        log.has_peer_closed |= event.is::<TlsPeerClosed>();
        log.is_output_over |= event.get::<HalfClosed>() == Some(&HalfClosed::Output);
        if event.is::<TlsStopped>() {
            log.received_in_tls = Some(log.received.len());
        }
        drop(log);
        ctx.fire_user_event(event);
        Ok(())
    }
}

pub(super) struct Write {
    pub(super) content: Bytes,
    future: Option<ChannelFuture>,
    result: Option<Result<(), Error>>,
    pub(super) is_flushed: bool,
    is_cancelled: bool,
    /// True if it was written when the output was ending, or had ended.
    may_be_refused: bool,
    /// True if it was written after a request to stop TLS.
    pub(super) is_after_stop: bool,
}

impl Write {
    /// True if nothing of the content may be sent.
    pub(super) fn is_cancelled(&self) -> bool {
        self.is_cancelled
    }

    /// True if the content may be missing, although what follows it is there.
    pub(super) fn may_be_missing(&self) -> bool {
        match &self.future {
            Some(_) => matches!(self.result, Some(Err(_))),
            None => self.may_be_refused,
        }
    }
}

/// The requests to a side, apart from writes.
#[derive(Default)]
pub(super) struct Requests {
    /// A close, or the end of the output.
    pub(super) has_ended: bool,
    pub(super) has_ended_before_handshake: bool,
    pub(super) has_stopped_tls: bool,
}

pub(super) struct End {
    pub(super) channel: Embedded,
    pub(super) on_close_notify: OnCloseNotify,
    pub(super) log: Rc<RefCell<Log>>,
    pub(super) writes: Vec<Write>,
    pub(super) requests: Requests,
    /// Sent by this side, and not delivered yet.
    pub(super) wire: Vec<u8>,
    pub(super) has_delivered_end: bool,
    pub(super) errors: Vec<Error>,
    panics: Arc<Mutex<Vec<String>>>,
}

impl End {
    pub(super) fn new(
        tls: TlsHandler,
        on_close_notify: OnCloseNotify,
        options: ChannelOptions,
    ) -> Self {
        let log = Rc::new(RefCell::new(Log::default()));
        let watch = Watch(log.clone());
        let panics = Arc::new(Mutex::new(Vec::new()));
        let reported = panics.clone();
        let reporter = move |report: &Report<'_>| {
            if let Fault::Panicked { .. } = report.fault {
                let mut all = reported.lock().unwrap_or_else(PoisonError::into_inner);
                all.push(report.fault.to_string());
            }
        };
        let channel = Embedded::builder().stream().options(options).reporter(Arc::new(reporter));
        let channel = channel.build(|edit| {
            edit.add_last("tls", tls)?;
            edit.add_last("watch", watch)?;
            Ok(())
        });
        Self {
            channel: channel.unwrap(),
            on_close_notify,
            log,
            writes: Vec::new(),
            requests: Requests::default(),
            wire: Vec::new(),
            has_delivered_end: false,
            errors: Vec::new(),
            panics,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.channel.channel().is_open()
    }

    /// True if this side sends nothing more.
    pub(super) fn is_output_over(&self) -> bool {
        !self.is_open() || self.log.borrow().is_output_over
    }

    /// True if what is not flushed by now, or is written from now on, may fail.
    fn is_output_ending(&self) -> bool {
        self.requests.has_ended || self.is_output_over() || self.log.borrow().has_peer_closed
    }

    pub(super) fn is_established(&self) -> bool {
        self.log.borrow().is_established
    }

    /// Runs what is due by now, and moves what was sent to the wire.
    pub(super) fn settle(&mut self) {
        for _ in 0..4 {
            self.channel.run();
        }
        while let Some(bytes) = self.channel.read_outbound::<Bytes>() {
            self.wire.extend_from_slice(&bytes);
        }
        self.errors.extend(std::iter::from_fn(|| self.channel.read_error()));
        for write in self.writes.iter_mut().filter(|write| write.result.is_none()) {
            write.result = write.future.as_mut().and_then(ChannelFuture::try_take);
        }
    }

    /// Writes a message. The first byte is the number of the write, so that no two are alike.
    pub(super) fn write(&mut self, size: usize, flushes: bool, has_future: bool) {
        let number = self.writes.len() as u8;
        let content = (0..size).map(|at| number ^ (at / 61) as u8).collect::<Vec<_>>();
        let content = Bytes::from(content);
        let may_be_refused = self.is_output_ending();
        let future = if has_future {
            Some(self.channel.write(content.clone()))
        } else {
            let message = content.clone();
            // A channel that has left its loop drops the message.
            let _gone = self.channel.with_pipeline(|pipeline| pipeline.write(message));
            None
        };
        self.writes.push(Write {
            content,
            future,
            result: None,
            is_flushed: false,
            is_cancelled: false,
            may_be_refused,
            is_after_stop: self.requests.has_stopped_tls,
        });
        if flushes {
            self.flush();
        }
    }

    pub(super) fn flush(&mut self) {
        self.mark_flushed();
        self.channel.flush();
    }

    pub(super) fn mark_flushed(&mut self) {
        if self.is_output_ending() {
            return;
        }
        self.writes.iter_mut().for_each(|write| write.is_flushed = true);
    }

    pub(super) fn cancel_write(&mut self, number: usize) {
        let count = self.writes.len().max(1);
        if let Some(write) = self.writes.get_mut(number % count)
            && let Some(future) = &write.future
        {
            write.is_cancelled |= future.cancel();
        }
    }

    /// Requests the end of the output in one way or another.
    pub(super) fn end(&mut self, request: impl FnOnce(&Channel) -> ChannelFuture) {
        self.requests.has_ended = true;
        self.requests.has_ended_before_handshake |= !self.is_established();
        drop(self.channel.on_loop(request));
        self.channel.run();
    }

    /// Asserts what holds at any time.
    pub(super) fn check(&self) {
        let panics = self.panics.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(panics.is_empty(), "{panics:?}");
        assert!(self.errors.len() <= 1, "more than one error: {:?}", self.errors);
        if self.is_open() {
            assert!(self.errors.is_empty(), "open after an error: {:?}", self.errors);
            return;
        }
        assert_eq!(self.channel.channel().pending_bytes(), 0, "a closed channel holds bytes");
        for (number, write) in self.writes.iter().enumerate() {
            let is_done = write.future.is_none() || write.result.is_some();
            assert!(is_done, "write {number} is neither done nor failed");
        }
    }
}
