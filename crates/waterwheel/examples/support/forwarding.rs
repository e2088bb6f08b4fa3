//! The handlers of the proxies: two channels on one loop, each of which forwards to the other.

use std::net::SocketAddr;

use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Channel, ChannelOptions, Ctx, Edit, HalfClosed, Handler, HandlerResult, Msg, NewChannel,
    PauseReads, Stream,
};
use waterwheel::net::Tcp;

/// Forwards everything that it reads to the other channel.
pub(crate) struct Forward(Channel);

impl Handler for Forward {
    /// Reads the client when the target is connected, and handlers before this one have sent what comes first.
    fn on_active(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.0.set_auto_read(true);
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.0.send(msg);
        if !self.0.is_writable() {
            ctx.channel().set_auto_read(false);
        }
        Ok(())
    }

    /// Reads the other side while this one is writable.
    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.set_auto_read(ctx.is_writable());
        Ok(())
    }

    fn on_user_event(&mut self, _: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.get() == Some(&HalfClosed::Input) {
            drop(self.0.shutdown_output());
        }
        Ok(())
    }

    /// Closes the other side after its pending writes: an empty message completes when everything before it is written.
    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        let other = self.0.clone();
        self.0.write_and_flush(Bytes::new()).on_complete(move |_| drop(other.close()));
        Ok(())
    }
}

/// Connects to the target for each accepted connection, which is not read before.
pub(crate) struct ConnectTarget(pub(crate) SocketAddr);

impl Handler for ConnectTarget {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        connect_target(ctx, self.0, |_| Ok(()))
    }
}

/// Connects to the target, and makes both channels forward to each other. `initialiser` adds handlers to the channel of
/// the target, before the one that forwards.
pub(crate) fn connect_target(
    ctx: &Ctx<'_>,
    target: SocketAddr,
    initialiser: impl FnOnce(&mut Edit<'_>) -> HandlerResult,
) -> HandlerResult {
    let front = ctx.channel();
    let back = NewChannel::new(Stream::new(Tcp)).options(side_options());
    let back = ctx.event_loop().register_with(back, |edit| {
        initialiser(edit)?;
        edit.add_last("side", Forward(front.clone()))?;
        Ok(())
    })?;
    let side = Forward(back.clone());
    ctx.pipeline().edit(|edit| edit.add_last("side", side).map(drop))?;
    back.connect(target).on_complete(move |connected| {
        if let Err(error) = connected {
            eprintln!("{error}");
            drop((front.close(), back.close()));
        }
    });
    Ok(())
}

/// Returns the options of both sides. A side is read while the *other* one is writable, even if it is not writable
/// itself: the two directions are independent.
pub(crate) fn side_options() -> ChannelOptions {
    ChannelOptions {
        allow_half_closure: true,
        pause_reads_while_unwritable: PauseReads::Never,
        ..ChannelOptions::default()
    }
}
