//! The events: one small type for each, so that dispatch is compiled for each event separately, and one enum of all
//! of them for events that have to be queued.

use std::rc::Rc;

use waterwheel_executor::Error;

use crate::address::{Address, ConnectTarget};
use crate::channel::core::ChannelCore;
use crate::pipeline::completion::Completion;
use crate::pipeline::context::Ctx;
use crate::pipeline::event_set::Events;
use crate::pipeline::handler::Handler;
use crate::pipeline::message::Msg;

/// An event that passes from slot to slot.
pub(crate) trait Event: Sized {
    /// The event's bit in the interest of handlers.
    const BIT: Events;
    /// True for an inbound event (from the transport), false for an outbound event (to the transport).
    const INBOUND: bool;

    /// Calls the method of the handler for this event, and handles its result.
    fn deliver(self, handler: &mut dyn Handler, ctx: &Ctx<'_>);

    /// Handles the event at the end of the pipeline, when it has passed every handler.
    fn reach_end(self, core: &Rc<ChannelCore>);

    /// Converts the event to the enum, so that it can be queued.
    fn into_any(self) -> AnyEvent;
}

macro_rules! events {
    (
        inbound { $($in:ident $(($in_arg:ident: $in_ty:ty))? = $in_bit:ident, $on:ident, $at_tail:expr;)* }
        operation { $($out:ident $(($out_arg:ident: $out_ty:ty))? = $out_bit:ident, $verb:ident, $at_head:expr;)* }
        signal { $($sig:ident = $sig_bit:ident, $sig_verb:ident, $sig_head:expr;)* }
    ) => {
        /// Any event.
        pub(crate) enum AnyEvent {
            $($in($in),)*
            $($out($out),)*
            $($sig($sig),)*
        }

        $(
            pub(crate) struct $in $((pub(crate) $in_ty))?;

            impl Event for $in {
                const BIT: Events = Events::$in_bit;
                const INBOUND: bool = true;

                #[inline(always)]
                fn deliver(self, handler: &mut dyn Handler, ctx: &Ctx<'_>) {
                    let $in $(($in_arg))? = self;
                    if let Err(error) = handler.$on(ctx $(, $in_arg)?) {
                        ctx.on_handler_failed(handler, Self::BIT, error);
                    }
                }

                #[inline(always)]
                fn reach_end(self, core: &Rc<ChannelCore>) {
                    let $in $(($in_arg))? = self;
                    ($at_tail)(core $(, $in_arg)?)
                }

                fn into_any(self) -> AnyEvent {
                    AnyEvent::$in(self)
                }
            }
        )*

        $(
            pub(crate) struct $out($(pub(crate) $out_ty,)? pub(crate) Completion);

            impl Event for $out {
                const BIT: Events = Events::$out_bit;
                const INBOUND: bool = false;

                #[inline(always)]
                fn deliver(self, handler: &mut dyn Handler, ctx: &Ctx<'_>) {
                    let $out($($out_arg,)? mut done) = self;
                    if is_cancelled(Self::BIT, &done) {
                        return;
                    }
                    let result = handler.$verb(ctx, $($out_arg,)? &mut done);
                    if result.is_err() || !done.is_none() {
                        ctx.on_operation_ended(result, done);
                    }
                }

                #[inline(always)]
                fn reach_end(self, core: &Rc<ChannelCore>) {
                    let $out($($out_arg,)? mut done) = self;
                    if begin_operation(Self::BIT, &mut done) {
                        ($at_head)(core, $($out_arg,)? done)
                    }
                }

                fn into_any(self) -> AnyEvent {
                    AnyEvent::$out(self)
                }
            }
        )*

        $(
            pub(crate) struct $sig;

            impl Event for $sig {
                const BIT: Events = Events::$sig_bit;
                const INBOUND: bool = false;

                #[inline(always)]
                fn deliver(self, handler: &mut dyn Handler, ctx: &Ctx<'_>) {
                    if let Err(error) = handler.$sig_verb(ctx) {
                        ctx.on_handler_failed(handler, Self::BIT, error);
                    }
                }

                #[inline(always)]
                fn reach_end(self, core: &Rc<ChannelCore>) {
                    ($sig_head)(core)
                }

                fn into_any(self) -> AnyEvent {
                    AnyEvent::$sig(self)
                }
            }
        )*

        impl AnyEvent {
            /// Calls the method of the handler for this event.
            pub(crate) fn deliver(self, handler: &mut dyn Handler, ctx: &Ctx<'_>) {
                match self {
                    $(AnyEvent::$in(event) => event.deliver(handler, ctx),)*
                    $(AnyEvent::$out(event) => event.deliver(handler, ctx),)*
                    $(AnyEvent::$sig(event) => event.deliver(handler, ctx),)*
                }
            }

            /// True for an inbound event.
            pub(crate) fn is_inbound(&self) -> bool {
                match self {
                    $(AnyEvent::$in(_) => $in::INBOUND,)*
                    $(AnyEvent::$out(_) => $out::INBOUND,)*
                    $(AnyEvent::$sig(_) => $sig::INBOUND,)*
                }
            }

            /// Sends the event onward from the slot `from`.
            pub(crate) fn forward_from(self, core: &Rc<ChannelCore>, from: u32) {
                match self {
                    $(AnyEvent::$in(event) => core.send_from(from, event),)*
                    $(AnyEvent::$out(event) => core.send_from(from, event),)*
                    $(AnyEvent::$sig(event) => core.send_from(from, event),)*
                }
            }
        }
    };
}

events! {
    inbound {
        Registered = REGISTERED, on_registered, |_: &_| ();
        Unregistered = UNREGISTERED, on_unregistered, |_: &_| ();
        Active = ACTIVE, on_active, |_: &_| ();
        Inactive = INACTIVE, on_inactive, |_: &_| ();
        Read(msg: Msg) = READ, on_read, ChannelCore::report_unhandled_message;
        ReadComplete = READ_COMPLETE, on_read_complete, |_: &_| ();
        UserEvent(event: Msg) = USER_EVENT, on_user_event, ChannelCore::drop_unhandled_event;
        WritabilityChanged = WRITABILITY_CHANGED, on_writability_changed, |_: &_| ();
        Failure(error: Error) = ERROR, on_error, ChannelCore::report_unhandled_error;
    }
    operation {
        Bind(to: Address) = BIND, bind, ChannelCore::bind;
        Connect(to: ConnectTarget) = CONNECT, connect, ChannelCore::connect;
        Disconnect = DISCONNECT, disconnect, ChannelCore::disconnect;
        Close = CLOSE, close, |core: &Rc<ChannelCore>, done| core.close(None, done);
        Deregister = DEREGISTER, deregister, ChannelCore::deregister;
        ShutdownOutput = SHUTDOWN_OUTPUT, shutdown_output, ChannelCore::shutdown_output;
        Write(msg: Msg) = WRITE, write, ChannelCore::write;
    }
    signal {
        BeginRead = BEGIN_READ, read, ChannelCore::begin_read;
        Flush = FLUSH, flush, ChannelCore::flush;
    }
}

/// True if the operation was cancelled, so that no further handler sees it. Writes are exempt: the outbound buffer
/// skips a cancelled write when it reaches that write.
#[inline(always)]
fn is_cancelled(operation: Events, done: &Completion) -> bool {
    operation != Events::WRITE && done.is_cancelled()
}

/// Returns true if the operation must be performed. From then on it cannot be cancelled, with two exceptions: a write
/// until it is handed to the transport, and a connect, which is aborted.
#[inline(always)]
fn begin_operation(operation: Events, done: &mut Completion) -> bool {
    match operation {
        Events::WRITE => true,
        Events::CONNECT => !done.is_cancelled(),
        _ => done.begin(),
    }
}

impl AnyEvent {
    /// Returns how many pending bytes the event adds while it is queued.
    pub(crate) fn pending_bytes(&self) -> usize {
        match self {
            AnyEvent::Write(write) => write.0.size_hint(),
            _ => 0,
        }
    }

    /// Fails the event's completion: the event will not be delivered.
    pub(crate) fn fail(self, core: &Rc<ChannelCore>, error: &Error) {
        match self {
            AnyEvent::Bind(Bind(_, done))
            | AnyEvent::Connect(Connect(_, done))
            | AnyEvent::Disconnect(Disconnect(done))
            | AnyEvent::Deregister(Deregister(done))
            | AnyEvent::ShutdownOutput(ShutdownOutput(done))
            | AnyEvent::Write(Write(_, done)) => core.complete_later(done, Err(error.clone())),
            // The channel is being closed anyway, so a close succeeds.
            AnyEvent::Close(Close(done)) => core.close(None, done),
            _ => {}
        }
    }
}
