//! The handler of the pipeline.

use std::fmt;
use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::{
    Ctx, Draining, Events, HalfClosed, Handler, HandlerResult, Msg, Signature, TypeTag,
};

use waterwheel_executor::Error;

use super::connection::HttpConnection;
use super::driver::ConnectionDriver;

/// Serves HTTP/1.1 on a connection: see [`HttpServer`](crate::HttpServer), which adds it.
pub(super) struct HttpHandler {
    connection: Rc<dyn HttpConnection>,
}

impl HttpHandler {
    pub(super) fn new(connection: Rc<dyn HttpConnection>) -> Self {
        Self { connection }
    }

    #[inline]
    fn spawn_if(&self, needs_driver: bool, ctx: &Ctx<'_>) {
        if needs_driver {
            ConnectionDriver::spawn(self.connection.clone(), ctx);
        }
    }
}

impl Handler for HttpHandler {
    fn interest(&self) -> Events {
        Events::ACTIVE
            | Events::INACTIVE
            | Events::READ
            | Events::READ_COMPLETE
            | Events::USER_EVENT
            | Events::WRITABILITY_CHANGED
            | Events::ERROR
    }

    fn signature(&self) -> Signature {
        Signature::transparent()
            .inbound(TypeTag::list::<Bytes>(), &[])
            .answers(TypeTag::list::<Bytes>())
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        self.connection.end();
    }

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.connection.on_active(ctx);
        Ok(())
    }

    #[inline]
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        match msg.into_bytes() {
            Ok(bytes) => {
                let needs_driver = self.connection.on_read(ctx, bytes);
                self.spawn_if(needs_driver, ctx);
            }
            Err(other) => ctx.fire_read(other),
        }
        Ok(())
    }

    #[inline]
    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let needs_driver = self.connection.on_read_complete(ctx);
        self.spawn_if(needs_driver, ctx);
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let needs_driver = self.connection.on_writability_changed(ctx);
        self.spawn_if(needs_driver, ctx);
        ctx.fire_writability_changed();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.is::<Draining>() {
            self.connection.on_drain(ctx);
        }
        if event.get() == Some(&HalfClosed::Input) {
            self.connection.on_input_over(ctx);
        }
        self.connection.pass_user_event(ctx, event);
        Ok(())
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        // Clients break connections off at any time: no fault of the server, and not worth a line in its log.
        if !error.is_connection_lost() {
            ctx.fire_error(error);
        }
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, _: u32) -> HandlerResult {
        self.connection.on_timer(ctx);
        Ok(())
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        // Whatever follows has not seen `on_active` either.
        self.connection.end();
        Ok(())
    }
}

impl Drop for HttpHandler {
    fn drop(&mut self) {
        // After a panic of another handler, or at the end of the loop, there was neither `on_inactive` nor `on_removed`.
        self.connection.end();
    }
}

impl fmt::Debug for HttpHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpHandler").finish_non_exhaustive()
    }
}
