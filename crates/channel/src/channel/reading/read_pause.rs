//! Pauses of reads that handlers request.

use std::fmt;
use std::rc::Rc;

use crate::base::token::Token;
use crate::channel::core::ChannelCore;
use crate::channel::reading::PauseReasons;
use crate::event_loop::local_loop::LocalLoop;
use crate::pipeline::Ctx;

/// Pauses the reads of a channel until it is dropped. Created by [`Ctx::pause_reads`].
///
/// A pause changes neither auto-read nor a requested read: both take effect when the last pause has ended. So a handler
/// that throttles does not interfere with one that turns auto-read on and off. A round of reads in progress stops after
/// the present read.
///
/// Any number of pauses may exist at once, of one handler or of several. A pause keeps neither the channel nor the
/// handler alive; after the channel is gone it has no effect. While reads are paused the end of the peer's data is
/// announced by [`PeerFinished`](crate::PeerFinished) only.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg, ReadPause};
///
/// /// Reads at most one message per second.
/// struct OneEachSecond {
///     pause: Option<ReadPause>,
/// }
///
/// impl Handler for OneEachSecond {
///     fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
///         self.pause = Some(ctx.pause_reads());
///         ctx.schedule(Duration::from_secs(1), 0);
///         ctx.fire_read(msg);
///         Ok(())
///     }
///
///     fn on_timer(&mut self, _: &Ctx<'_>, _: u32) -> HandlerResult {
///         self.pause = None;
///         Ok(())
///     }
/// }
/// ```
#[must_use = "reads resume when the pause is dropped"]
pub struct ReadPause {
    here: LocalLoop,
    channel: Token,
}

impl Ctx<'_> {
    /// Pauses the reads of this channel until the returned [`ReadPause`] is dropped.
    pub fn pause_reads(&self) -> ReadPause {
        let core = self.core();
        core.add_read_pause();
        ReadPause { here: core.here.clone(), channel: core.token() }
    }
}

impl Drop for ReadPause {
    fn drop(&mut self) {
        if let Some(core) = self.here.channels().find(self.channel) {
            core.remove_read_pause();
        }
    }
}

impl ChannelCore {
    fn add_read_pause(self: &Rc<Self>) {
        let mut cold = self.cold.get_or_create();
        cold.read_pauses += 1;
        let is_first = cold.read_pauses == 1;
        drop(cold);
        if is_first {
            self.pause(PauseReasons::HANDLER);
        }
    }

    fn remove_read_pause(self: &Rc<Self>) {
        let mut cold = self.cold.get_or_create();
        cold.read_pauses -= 1;
        let is_last = cold.read_pauses == 0;
        drop(cold);
        if is_last {
            self.resume(PauseReasons::HANDLER);
        }
    }
}

impl fmt::Debug for ReadPause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadPause").field(&self.channel).finish()
    }
}
