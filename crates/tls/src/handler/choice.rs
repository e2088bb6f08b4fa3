//! The late choice of a server's configuration (T03).
//!
//! ```text
//!   bytes ──► ClientHelloReader ──► chooser ──► TlsSession ◄── the records of the ClientHello, and what came since
//! ```
//!
//! - While the choice is under way, reads are paused; what arrives nevertheless is held, up to
//!   [`MAX_HELD`], and the limit of the handshake goes on.
//! - The end of the connection and the removal of the handler drop the choice, and with it the user's future, on the
//!   loop and outside of any call into the pipeline.
//! - The alert of a connection without a configuration is written as it is: there is no session that could.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use rustls::AlertDescription;
use waterwheel_channel::{Ctx, Handler, LocalCtx, LocalJoin, ReadPause};
use waterwheel_executor::Error;

use super::{HandlerState, TlsHandler, timers};
use crate::client_hello::ClientHello;
use crate::client_hello::alert::fatal_alert;
use crate::client_hello::reader::ClientHelloReader;
use crate::config::chooser::{ChooserAnswer, ChooserFuture, ChooserOutcome, ConfigChooser};
use crate::config::server::ServerTlsSource;
use crate::error::{ChooserError, TlsError};
use crate::session::TlsSession;

/// The number of held bytes from which another message is refused. The rest of the message in which the ClientHello
/// ended is always held: its size is that of a read.
const MAX_HELD: usize = 64 * 1024;

/// A choice that is not made yet.
pub(super) struct ConfigChoice {
    chooser: Arc<ConfigChooser>,
    reader: ClientHelloReader,
    pending: Option<PendingChoice>,
}

/// A choice of which the user's future is under way.
struct PendingChoice {
    hello: ClientHello,
    /// The bytes that came after the ClientHello.
    held: BytesMut,
    join: LocalJoin<ChooserOutcome>,
    /// Ends after everything else: reads go on when the held bytes are handled.
    _pause: ReadPause,
}

impl Drop for PendingChoice {
    fn drop(&mut self) {
        self.join.abort();
    }
}

impl ConfigChoice {
    pub(super) fn new(chooser: Arc<ConfigChooser>) -> Self {
        Self { chooser, reader: ClientHelloReader::new(), pending: None }
    }
}

impl TlsHandler {
    /// True while the user's future is under way. Reads are paused, so that the peer's end is announced only by
    /// `PeerFinished`; a handshake cannot go on without the peer.
    pub(super) fn is_choice_pending(&self) -> bool {
        self.choice.as_ref().is_some_and(|choice| choice.pending.is_some())
    }

    /// Takes the bytes of a connection that has no session yet.
    #[cold]
    pub(super) fn choose(&mut self, ctx: &Ctx<'_>, mut bytes: Bytes) {
        let Some(choice) = &mut self.choice else { return };
        if let Some(pending) = &mut choice.pending {
            if pending.held.len() >= MAX_HELD {
                let error = TlsError::ChoiceInputTooLong { limit: MAX_HELD };
                return self.refuse(ctx, AlertDescription::InternalError, error);
            }
            return pending.held.extend_from_slice(&bytes);
        }
        let hello = match choice.reader.feed(&mut bytes) {
            Ok(Some(hello)) => hello,
            Ok(None) => return,
            Err(error) => return self.refuse(ctx, error.alert(), TlsError::ClientHello(error)),
        };
        let chooser = choice.chooser.clone();
        match chooser.ask(&hello) {
            ChooserAnswer::Now(outcome) => self.start_chosen(ctx, &hello, bytes, outcome),
            ChooserAnswer::Later(future) => {
                let join = ctx.event_loop().spawn_local(notify(chooser, future, ctx.to_local()));
                let (held, _pause) = (BytesMut::from(bytes), ctx.pause_reads());
                choice.pending = Some(PendingChoice { hello, held, join, _pause });
            }
        }
    }

    /// Continues when the user's future is done.
    pub(super) fn on_choice_made(&mut self, ctx: &Ctx<'_>) {
        let Some(choice) = self.choice.as_mut().filter(|_| self.state == HandlerState::Running)
        else {
            return;
        };
        let Some(pending) = &mut choice.pending else { return };
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(outcome) = Pin::new(&mut pending.join).poll(&mut context) else { return };
        let (hello, held) = (pending.hello.clone(), mem::take(&mut pending.held).freeze());
        let pending = choice.pending.take();
        let outcome = outcome.unwrap_or_else(Err);
        self.start_chosen(ctx, &hello, held, outcome);
        // The held bytes were a round of reads.
        let completed = self.on_read_complete(ctx);
        debug_assert!(completed.is_ok(), "no error is returned");
        drop(pending); // Reads go on.
    }

    /// Creates the session, and gives it everything that was read so far.
    fn start_chosen(
        &mut self,
        ctx: &Ctx<'_>,
        hello: &ClientHello,
        rest: Bytes,
        outcome: ChooserOutcome,
    ) {
        let config = match outcome.map(|config| config.map(|config| config.into_source())) {
            Ok(Some(ServerTlsSource::Fixed(config))) => config,
            Ok(Some(ServerTlsSource::Chosen(_))) => {
                let nested = "the chooser returned a configuration that is chosen itself";
                return self.fail_choice(ctx, Error::new(nested));
            }
            Ok(None) => {
                let name = hello.server_name().map(str::to_owned);
                // RFC 8446, 9.2, for a name that is required but missing.
                let alert = match name {
                    Some(_) => AlertDescription::UnrecognisedName,
                    None => AlertDescription::MissingExtension,
                };
                return self.refuse(ctx, alert, TlsError::UnrecognizedName { name });
            }
            Err(error) => return self.fail_choice(ctx, error),
        };
        match TlsSession::server(config) {
            Ok(session) => {
                self.choice = None;
                self.session = Some(session);
                self.decrypt(ctx, hello.records().clone());
                if !rest.is_empty() && self.state == HandlerState::Running {
                    self.decrypt(ctx, rest);
                }
            }
            Err(error) => {
                let error = TlsError::Configuration(error);
                self.refuse(ctx, AlertDescription::InternalError, error);
            }
        }
    }

    fn fail_choice(&mut self, ctx: &Ctx<'_>, error: Error) {
        let error = TlsError::ChoiceFailed(ChooserError(error));
        self.refuse(ctx, AlertDescription::InternalError, error);
    }

    /// Fails with an alert, without a session.
    fn refuse(&mut self, ctx: &Ctx<'_>, alert: AlertDescription, error: TlsError) {
        ctx.write_and_flush(fatal_alert(alert));
        self.fail(ctx, error);
    }
}

/// Runs the user's future, and calls the handler when it is done, has panicked or was dropped.
async fn notify(
    chooser: Arc<ConfigChooser>,
    future: ChooserFuture,
    handler: LocalCtx,
) -> ChooserOutcome {
    let _notice = ChoiceNotice(handler);
    chooser.run(future).await
}

struct ChoiceNotice(LocalCtx);

impl Drop for ChoiceNotice {
    fn drop(&mut self) {
        timers::call_soon(&self.0, timers::CHOICE_MADE);
    }
}
