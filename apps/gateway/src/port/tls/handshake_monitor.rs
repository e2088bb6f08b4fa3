//! The handler after TLS that counts handshakes, reports failed ones, and ends those that a drain finds unfinished.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use waterwheel::channel::{Ctx, Draining, Events, Handler, HandlerResult, Msg, Signature};
use waterwheel::executor::{Error, Fault, Report, Reporter};
use waterwheel::tls::{TlsError, TlsHandshake};

/// Counters written by the loops and read by any thread. The counters are independent of each other, so relaxed
/// ordering is enough.
#[derive(Debug, Default)]
pub struct HandshakeCounters {
    done: AtomicU64,
    failed: AtomicU64,
}

/// The values of the counters at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandshakeCounts {
    /// Handshakes that succeeded.
    pub done: u64,
    /// Connections that ended before their handshake was done.
    pub failed: u64,
}

impl HandshakeCounters {
    /// Reads the counters.
    #[must_use]
    pub fn counts(&self) -> HandshakeCounts {
        HandshakeCounts {
            done: self.done.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }
}

impl fmt::Display for HandshakeCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} TLS handshakes, {} failed", self.done, self.failed)
    }
}

/// Watches the handshake of one connection.
///
/// Reports what TLS refuses, such as plain text; the reporter limits the lines. A client that leaves without a word, or
/// reads too slowly, is not reported, as without TLS.
pub struct HandshakeMonitor {
    state: HandshakeState,
    counters: Arc<HandshakeCounters>,
    reporter: Arc<dyn Reporter>,
}

#[derive(Debug, PartialEq, Eq)]
enum HandshakeState {
    InProgress,
    Done,
    /// A drain has ended the connection before the handshake was done.
    Drained,
}

impl HandshakeMonitor {
    pub(crate) fn new(counters: Arc<HandshakeCounters>, reporter: Arc<dyn Reporter>) -> Self {
        Self { state: HandshakeState::InProgress, counters, reporter }
    }

    fn report(&self, ctx: &Ctx<'_>, error: &TlsError) {
        let channel = ctx.channel();
        let peer = match channel.peer_address() {
            Some(peer) => peer.to_string(),
            None => format!("{:?}", channel.id()),
        };
        let fault = Fault::Unhandled(format!("connection of {peer} closed: {error}"));
        self.reporter.report(&Report { executor: channel.event_loop().name(), fault });
    }
}

impl Handler for HandshakeMonitor {
    fn interest(&self) -> Events {
        Events::INACTIVE | Events::USER_EVENT | Events::ERROR
    }

    fn signature(&self) -> Signature {
        Signature::transparent()
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if self.state == HandshakeState::InProgress {
            self.counters.failed.fetch_add(1, Ordering::Relaxed);
        }
        ctx.fire_inactive();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.is::<TlsHandshake>() {
            self.state = HandshakeState::Done;
            self.counters.done.fetch_add(1, Ordering::Relaxed);
        }
        if event.is::<Draining>() && self.state == HandshakeState::InProgress {
            // Nothing of this client was accepted, and nothing can be sent to it: the drain need not wait.
            self.state = HandshakeState::Drained;
            ctx.abort(Error::closed("the gateway is shutting down"));
            return Ok(());
        }
        ctx.fire_user_event(event);
        Ok(())
    }

    /// Reports the errors of TLS. They have closed the connection, and are of no use to the handlers after this one.
    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        match error.find::<TlsError>() {
            Some(tls) if is_reported(tls) => self.report(ctx, tls),
            Some(_) => {}
            None => ctx.fire_error(error),
        }
        Ok(())
    }
}

/// False for clients that leave without a word: load balancers connect and close to see whether the port is open.
fn is_reported(error: &TlsError) -> bool {
    use TlsError::{CloseTimeout, HandshakeCutOff, Truncated};
    !matches!(error, HandshakeCutOff | Truncated | CloseTimeout { .. })
}
