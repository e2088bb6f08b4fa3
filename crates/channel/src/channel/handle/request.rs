//! Requests of other threads to a channel: one value each, sent to its loop in one command (C08).

use std::rc::Rc;
use std::sync::Arc;

use waterwheel_executor::engine::drop_in_turn;
use waterwheel_executor::{Error, Promise};

use crate::address::{Address, ConnectTarget};
use crate::channel::core::ChannelCore;
use crate::channel::handle::shared_state::ChannelShared;
use crate::driver::SocketOption;
use crate::pipeline::dispatch::event::{
    BeginRead, Bind, Close, Connect, Deregister, Disconnect, Flush, ShutdownOutput, UserEvent,
    Write,
};
use crate::pipeline::slots::slot_list::{HEAD, TAIL};
use crate::pipeline::{Completion, Msg};

pub(crate) enum ChannelRequest {
    Write {
        msg: Msg,
        flush: bool,
        promise: Option<Promise<()>>,
        submitted: Option<PendingReservation>,
    },
    Flush,
    Read,
    AutoRead(bool),
    UserEvent(Msg),
    Bind(Address, Promise<()>),
    Connect(ConnectTarget, Promise<()>),
    Disconnect(Promise<()>),
    Close(Option<Promise<()>>),
    ShutdownInput(Promise<()>),
    ShutdownOutput(Promise<()>),
    SetOption(SocketOption, Promise<()>),
    Deregister(Promise<()>),
    Register(Promise<()>),
    Call(RequestCall),
}

/// Called with the channel, or with an error if the channel is gone.
type RequestCall = Box<dyn FnOnce(Result<&Rc<ChannelCore>, &Error>) + Send>;

/// Bytes of a write that is on its way to the loop. They count as pending until this is dropped, on arrival or
/// when the write is given up.
pub(crate) struct PendingReservation {
    pub(in crate::channel) shared: Arc<ChannelShared>,
    pub(in crate::channel) size: usize,
}

impl Drop for PendingReservation {
    fn drop(&mut self) {
        self.shared.submitted.remove(self.size);
    }
}

impl ChannelRequest {
    /// True if the loop need not be woken for the request, because a flush will follow.
    pub(crate) fn needs_no_wake(&self) -> bool {
        matches!(self, ChannelRequest::Write { flush: false, .. })
    }

    /// Performs the request, on the loop.
    pub(crate) fn perform(self, core: &Rc<ChannelCore>) {
        match self {
            ChannelRequest::Write { msg, flush, promise, submitted } => {
                let done = promise.map_or_else(Completion::none, Completion::from);
                core.take_write(msg, flush, done, submitted);
            }
            ChannelRequest::Flush => core.enter_event(TAIL, Flush),
            ChannelRequest::Read => core.enter_event(TAIL, BeginRead),
            ChannelRequest::AutoRead(auto) => {
                core.shared().set_auto_read(auto);
                core.enter_or_defer(move |core| core.set_auto_read(auto));
            }
            ChannelRequest::UserEvent(event) => core.enter_event(HEAD, UserEvent(event)),
            ChannelRequest::Bind(to, promise) => core.enter_event(TAIL, Bind(to, promise.into())),
            ChannelRequest::Connect(to, promise) => {
                core.enter_event(TAIL, Connect(to, promise.into()))
            }
            ChannelRequest::Disconnect(promise) => {
                core.enter_event(TAIL, Disconnect(promise.into()))
            }
            ChannelRequest::Close(promise) => {
                let done = promise.map_or_else(Completion::none, Completion::from);
                core.enter_event(TAIL, Close(done));
            }
            ChannelRequest::ShutdownInput(promise) => core.enter_or_defer(move |core| {
                begin(promise, |done| core.shutdown_input(done));
            }),
            ChannelRequest::ShutdownOutput(promise) => {
                core.enter_event(TAIL, ShutdownOutput(promise.into()));
            }
            ChannelRequest::SetOption(option, promise) => core.enter_or_defer(move |core| {
                begin(promise, |done| core.complete_later(done, core.set_option(option)));
            }),
            ChannelRequest::Deregister(promise) => {
                core.enter_event(TAIL, Deregister(promise.into()))
            }
            ChannelRequest::Register(promise) => core.enter_or_defer(move |core| {
                begin(promise, |done| core.complete_later(done, core.register()));
            }),
            ChannelRequest::Call(call) => core.enter_or_defer(move |core| call(Ok(core))),
        }
    }

    /// Fails the request because the channel or its loop is gone.
    pub(crate) fn refuse(self, error: &Error) {
        match self {
            ChannelRequest::Write { msg, promise, .. } => {
                if let Some(promise) = promise {
                    promise.set_failure(error.clone());
                }
                drop_in_turn(msg);
            }
            ChannelRequest::UserEvent(event) => drop_in_turn(event),
            ChannelRequest::Bind(_, promise)
            | ChannelRequest::Connect(_, promise)
            | ChannelRequest::Disconnect(promise)
            | ChannelRequest::ShutdownInput(promise)
            | ChannelRequest::ShutdownOutput(promise)
            | ChannelRequest::SetOption(_, promise)
            | ChannelRequest::Deregister(promise)
            | ChannelRequest::Register(promise) => {
                promise.set_failure(error.clone());
            }
            // A channel that is gone is closed already, so the request to close succeeds.
            ChannelRequest::Close(Some(promise)) => {
                promise.set_success(());
            }
            ChannelRequest::Call(call) => call(Err(error)),
            ChannelRequest::Close(None)
            | ChannelRequest::Flush
            | ChannelRequest::Read
            | ChannelRequest::AutoRead(_) => {}
        }
    }
}

/// Runs an operation unless its future was cancelled before. From here on the operation cannot be cancelled.
fn begin(mut promise: Promise<()>, operation: impl FnOnce(Completion)) {
    if promise.set_uncancellable() {
        operation(promise.into());
    }
}

impl ChannelCore {
    /// Dispatches a write from the loop's thread or from another thread.
    pub(crate) fn take_write(
        self: &Rc<Self>,
        msg: Msg,
        flush: bool,
        done: Completion,
        submitted: Option<PendingReservation>,
    ) {
        let is_from_elsewhere = submitted.is_some();
        drop(submitted);
        if flush {
            self.write_and_flush(msg, done);
        } else {
            self.enter_event(TAIL, Write(msg, done));
        }
        // The bytes no longer count as submitted. If the write was refused, nothing else checks the low water
        // mark.
        self.check_low_mark();
        if is_from_elsewhere {
            self.notify_watchers();
        }
    }
}
