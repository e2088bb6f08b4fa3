//! The wrapper around handlers on loops with a watchdog: while a handler is called, the watchdog can report its name,
//! its channel and the method (O02).
//!
//! ```text
//!   slot ──► WatchedHandler: publishes "`app` of channel 7, in on_read" ──► calls the handler ──► restores the entry
//! ```
//!
//! A handler is wrapped when it is added, if its loop has a watchdog. Without a watchdog it is stored unwrapped, and
//! events pay nothing.

use std::any::Any;

use waterwheel_executor::engine::run_at;
use waterwheel_executor::{CallSite, Error};

use crate::address::{Address, ConnectTarget};
use crate::channel::core::ChannelCore;
use crate::channel::handle::shared_state::ChannelId;
use crate::pipeline::completion::Completion;
use crate::pipeline::context::Ctx;
use crate::pipeline::event_set::Events;
use crate::pipeline::handler::{Handler, HandlerResult};
use crate::pipeline::message::Msg;
use crate::pipeline::slots::name::Name;
use crate::pipeline::typed::signature::Signature;

/// A handler, and the call site under which the watchdog reports it.
struct WatchedHandler {
    handler: Box<dyn Handler>,
    call_site: CallSite,
}

impl ChannelCore {
    /// Boxes a handler for its slot, wrapped if its loop has a watchdog.
    pub(crate) fn box_handler<H: Handler>(&self, name: &Name, handler: H) -> Box<dyn Handler> {
        if !self.here.sender().is_watched() {
            return Box::new(handler);
        }
        let call_site =
            handler_call_site(name.to_string(), self.shared().id, std::any::type_name::<H>());
        Box::new(WatchedHandler { handler: Box::new(handler), call_site })
    }
}

/// Returns the handler inside of the wrapper, or the unwrapped handler, if it is of type `H`.
pub(crate) fn downcast<H: Handler>(handler: &mut dyn Handler) -> Option<&mut H> {
    let handler: &mut dyn Any = handler;
    if handler.is::<WatchedHandler>() {
        let watched = handler.downcast_mut::<WatchedHandler>()?;
        return (&mut *watched.handler as &mut dyn Any).downcast_mut();
    }
    handler.downcast_mut()
}

/// Returns the call site under which the watchdog reports a handler.
pub(crate) fn handler_call_site(
    name: String,
    channel: ChannelId,
    type_name: &'static str,
) -> CallSite {
    CallSite::new(name, format!("{channel:?}"), type_name, METHOD_NAMES)
}

macro_rules! handler_methods {
    (
        methods { $($call:ident($($arg:ident: $type:ty),*) -> $result:ty;)* }
        others { $($other:ident;)* }
    ) => {
        /// A call of a handler: one of its methods, its construction or its destructor.
        #[allow(non_camel_case_types, reason = "the variants are named after the methods")]
        #[derive(Clone, Copy, Debug)]
        #[repr(u8)]
        pub(crate) enum HandlerMethod {
            $($call,)*
            $($other,)*
        }

        const METHOD_NAMES: &[&str] = &[$(stringify!($call),)* $(stringify!($other),)*];

        impl Handler for WatchedHandler {
            fn interest(&self) -> Events {
                self.handler.interest()
            }

            fn signature(&self) -> Signature {
                self.handler.signature()
            }

            $(
                fn $call(&mut self, ctx: &Ctx<'_>, $($arg: $type),*) -> $result {
                    let Self { handler, call_site } = self;
                    let call = || handler.$call(ctx, $($arg),*);
                    ctx.core().here.sender().run_at(call_site, HandlerMethod::$call as u8, call)
                }
            )*
        }
    };
}

handler_methods! {
    methods {
        on_added() -> HandlerResult;
        on_removed() -> ();
        on_registered() -> HandlerResult;
        on_unregistered() -> HandlerResult;
        on_active() -> HandlerResult;
        on_inactive() -> HandlerResult;
        on_read(msg: Msg) -> HandlerResult;
        on_read_complete() -> HandlerResult;
        on_user_event(event: Msg) -> HandlerResult;
        on_writability_changed() -> HandlerResult;
        on_error(error: Error) -> HandlerResult;
        on_timer(tag: u32) -> HandlerResult;
        bind(to: Address, done: &mut Completion) -> HandlerResult;
        connect(to: ConnectTarget, done: &mut Completion) -> HandlerResult;
        disconnect(done: &mut Completion) -> HandlerResult;
        close(done: &mut Completion) -> HandlerResult;
        deregister(done: &mut Completion) -> HandlerResult;
        shutdown_output(done: &mut Completion) -> HandlerResult;
        read() -> HandlerResult;
        write(msg: Msg, done: &mut Completion) -> HandlerResult;
        flush() -> HandlerResult;
    }
    others {
        build;
        drop;
    }
}

/// Takes the place of a handler that is being dropped.
struct NoHandler;

impl Handler for NoHandler {}

impl Drop for WatchedHandler {
    fn drop(&mut self) {
        let handler = std::mem::replace(&mut self.handler, Box::new(NoHandler));
        run_at(&self.call_site, HandlerMethod::drop as u8, || drop(handler));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o02_a_watched_handler_receives_every_event() {
        // Not events: `on_added`, `on_removed` and `on_timer`; and `build` and `drop`, which are not methods.
        let others = 3 + 2;
        assert_eq!(
            METHOD_NAMES.len() - others,
            Events::NAMES.len(),
            "every event is forwarded by the wrapper"
        );
        assert_eq!(METHOD_NAMES[HandlerMethod::on_read as usize], "on_read");
        assert_eq!(METHOD_NAMES[HandlerMethod::drop as usize], "drop");
    }
}
