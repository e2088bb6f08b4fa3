//! Shorter ways for bytes that are written and flushed in one step (C07).
//!
//! ```text
//!   try_send    a handler's buffer ──► transport            what it does not take ──copied──► outbound buffer
//!   send_bytes  a chunk ──► outbound buffer, flushed ──► transport, when the outermost call has returned
//! ```
//!
//! Both leave for the usual way, [`ChannelCore::write_unawaited`] and [`ChannelCore::flush`], whenever anything is in
//! between.

use std::io;
use std::rc::Rc;

use bytes::Bytes;
use waterwheel_executor::Error;

use crate::channel::core::{ChannelCore, DeferredWork};
use crate::channel::writing::WriteState;
use crate::driver::Submit;
use crate::pipeline::Completion;

impl ChannelCore {
    /// Hands bytes to the transport at once, from the slot `from`. What it does not take is copied to the outbound
    /// buffer, flushed. Returns false, and does nothing, if the bytes have to take the usual way.
    #[inline(never)]
    pub(crate) fn try_send(self: &Rc<Self>, from: u32, bytes: &[u8]) -> bool {
        let Some(token) = self.stream_token() else { return false };
        // An active channel is open.
        let is_free = self.write_state.get() == WriteState::Free
            && self.is_active()
            && self.transport_info.takes_bytes
            && !self.is_output_over()
            && !self.has_joined.get()
            && !self.tracks_last_write.get()
            && self.outbound.borrow().is_unused();
        let may_send = is_free
            && !bytes.is_empty()
            && self.is_below_high_mark_with(bytes.len())
            && self.is_last_for_sends(from);
        if !may_send {
            return false;
        }
        let sent = self.here.write_slice(token, bytes);
        if let Ok(Submit::Done(sent)) = sent {
            self.here.counters().add_bytes_written(sent);
            if sent == bytes.len() {
                return true;
            }
        }
        self.queue_unsent(bytes, sent);
        true
    }

    /// Queues the bytes that the transport has not taken at once: there is room, and nothing is before them.
    #[cold]
    fn queue_unsent(self: &Rc<Self>, bytes: &[u8], sent: io::Result<Submit>) {
        let taken = match sent {
            Ok(Submit::Done(taken)) => taken,
            Ok(Submit::Full) => {
                self.write_state.set(WriteState::Full);
                0
            }
            Ok(Submit::Pending) => {
                self.write_state.set(WriteState::Pending);
                0
            }
            Err(error) => return self.close(Some(Error::new(error)), Completion::none()),
        };
        let mut out = self.outbound.borrow_mut();
        out.push_bytes(Bytes::copy_from_slice(&bytes[taken..]));
        out.flush_bytes_only();
        drop(out);
        self.add_pending(bytes.len() - taken);
        self.mark_deferred(DeferredWork::FLUSH);
    }

    /// Writes and flushes bytes that have passed all handlers.
    #[inline]
    pub(crate) fn send_bytes(self: &Rc<Self>, bytes: Bytes) {
        let size = bytes.len();
        if self.has_joined.get() || !self.takes_bytes_now(size) {
            self.write_unawaited(bytes.into());
            return self.flush();
        }
        let mut out = self.outbound.borrow_mut();
        out.push_bytes(bytes);
        let has_only_bytes = !out.flush_bytes_only();
        drop(out);
        self.set_pending(self.pending() + size);
        match has_only_bytes {
            true => self.mark_deferred(DeferredWork::FLUSH), // Below the high water mark: nothing is sent at once.
            false => self.flush(),
        }
    }
}
