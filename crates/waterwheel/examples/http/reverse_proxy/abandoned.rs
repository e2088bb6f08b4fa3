//! Clients that go before they are answered.
//!
//! A client that closes its connection sends a FIN; only its RST, in answer to a part of the response, would say that it
//! does not read any more. A request that waits for its upstream would keep both connections until then, so a FIN is
//! taken for the end, unless a part of a response is on its way: that is delivered.

use waterwheel::channel::{
    Ctx, Edit, Events, HalfClosed, Handler, HandlerResult, Msg, PeerFinished, Signature,
};
use waterwheel::executor::Error;

/// The name of the handler.
const ABANDONED: &str = "abandoned requests";

/// Closes the connection of a client that has finished sending: the server drops its requests, and with them those to
/// the upstream.
struct CloseAbandoned;

impl Handler for CloseAbandoned {
    fn interest(&self) -> Events {
        Events::USER_EVENT
    }

    fn signature(&self) -> Signature {
        Signature::any()
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        let has_finished = event.get() == Some(&HalfClosed::Input) || event.is::<PeerFinished>();
        if has_finished && ctx.channel().pending_bytes() == 0 {
            ctx.close();
        }
        ctx.fire_user_event(event);
        Ok(())
    }
}

pub(crate) fn add_handler(edit: &mut Edit<'_>) -> Result<(), Error> {
    edit.add_last(ABANDONED, CloseAbandoned)?;
    Ok(())
}

/// Removes the handler: an end of a tunnel may be closed on its own.
pub(crate) fn remove_handler(edit: &mut Edit<'_>) -> Result<(), Error> {
    edit.remove(ABANDONED)?;
    Ok(())
}
