//! The handler at the end of a client's pipeline.

use std::fmt;
use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::{
    Ctx, Events, HalfClosed, Handler, HandlerResult, Msg, Signature, TypeTag,
};
use waterwheel_executor::Error;

use super::link::ConnectionLink;
use crate::protocol::limits::MessageLimits;

/// The name of the handler.
pub(in crate::client) const CLIENT: &str = "http-client";

/// Sends the requests of a client, and receives their responses: see the [module](super).
pub(in crate::client) struct ClientConnection {
    link: Rc<ConnectionLink>,
}

impl ClientConnection {
    pub(in crate::client) fn new(limits: MessageLimits) -> Self {
        Self { link: ConnectionLink::new(limits) }
    }

    pub(in crate::client) fn link(&self) -> Rc<ConnectionLink> {
        self.link.clone()
    }
}

impl Handler for ClientConnection {
    fn interest(&self) -> Events {
        Events::READ
            | Events::INACTIVE
            | Events::WRITABILITY_CHANGED
            | Events::USER_EVENT
            | Events::ERROR
    }

    fn signature(&self) -> Signature {
        Signature::any().reads(TypeTag::list::<Bytes>())
    }

    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.link.attach(ctx);
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        self.link.end(ctx);
        self.link.end_driver();
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.link.end(ctx);
        ctx.fire_inactive();
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        match msg.into_bytes() {
            Ok(bytes) => self.link.on_bytes(ctx, bytes),
            Err(other) => ctx.fire_read(other),
        }
        Ok(())
    }

    /// Closes the connection when the server has finished: there is nothing to send to a server that will not answer.
    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.get() == Some(&HalfClosed::Input) {
            ctx.close();
        }
        ctx.fire_user_event(event);
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.link.drive(ctx);
        ctx.flush();
        ctx.fire_writability_changed();
        Ok(())
    }

    /// Takes an error for the end of the connection: the caller is told, and nothing is reported.
    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        self.link.keep_error(error.clone());
        ctx.close_because(error);
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, tag: u32) -> HandlerResult {
        self.link.on_time(ctx, tag);
        Ok(())
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        self.link.abandon();
    }
}

impl fmt::Debug for ClientConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientConnection")
    }
}
