//! `TlsHandler`: feeds a session with what the channel reads and writes, fires what it says, and keeps the time.

mod choice;
mod ending;
mod event_methods;
pub(crate) mod options;
mod output_end;
mod plaintext_queue;
mod timers;

use std::fmt;
use std::mem;

use bytes::Bytes;
use rustls::pki_types::ServerName;
use waterwheel_channel::{ChannelError, Ctx, Message, PendingWriteQueue, SlotId};
use waterwheel_executor::{Error, Promise};

use self::choice::ConfigChoice;
use self::options::TlsOptions;
use self::output_end::{OutputEnd, WaitingCloses};
use self::plaintext_queue::PlaintextQueue;
use self::timers::LimitTimer;
use crate::config::client::ClientTls;
use crate::config::server::ServerTls;
use crate::error::TlsError;
use crate::handshake::TlsHandshake;
use crate::session::{Fed, FedOutcome, TlsSession};

/// Encrypts and decrypts the stream of a channel.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_testkit::embedded::Embedded;
/// use waterwheel_tls::rustls::pki_types::ServerName;
/// use waterwheel_tls::{ClientTls, TlsHandler};
///
/// # let roots = rcgen::generate_simple_self_signed(["example.org".into()])?.cert.pem();
/// let config = ClientTls::builder().trust_pem("roots", roots.as_bytes()).build()?;
/// let name = ServerName::try_from("example.org")?;
/// let mut channel = Embedded::builder().stream().build(|edit| {
///     edit.add_last("tls", TlsHandler::client(config.clone(), name))?;
///     Ok(())
/// })?;
/// channel.write_outbound(Bytes::from_static(b"waits for the end of the handshake"));
/// let hello = channel.read_outbound::<Bytes>().unwrap();
/// assert_eq!(hello[0], 22, "a handshake record");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Rules
///
/// 1. *Beginning.* The handshake begins when the channel is active, or when the handler is added to an active channel
///    (STARTTLS). Its end is a [`TlsHandshake`] event, before the first plaintext. It has a
///    [limit](crate::TlsOptionsBuilder::handshake_timeout). With auto-read off, the handler requests the reads it
///    needs itself. If TLS cannot begin ([`TlsError::Configuration`]), the handler is not added, and the channel is
///    closed.
/// 2. *Writes.* Messages wait in order until the handshake is over and the channel has room for their ciphertext; they
///    count as pending bytes meanwhile. A write is done when the ciphertext of its last byte is written. Small messages
///    without a completion share a record. `Bytes`, `BytesMut` and `Vec<u8>` are accepted.
/// 3. *Reads.* The plaintext of one message of ciphertext is fired as one message. The handler holds no plaintext.
/// 4. *Failure.* The alert is sent, the error goes to `on_error` of the following handlers, everything that waits fails
///    with it, and it is the cause of the close ([`TlsError`]).
/// 5. *Close.* `close` and `disconnect` wait until everything flushed was encrypted, send close_notify, and pass on when
///    it is written; a peer that reads nothing delays them by a
///    [limit](crate::TlsOptionsBuilder::close_timeout). `shutdown_output` sends close_notify,
///    and then ends the stream. What is not flushed fails. Nothing of TLS follows our close_notify, not even an alert.
/// 6. *End of the peer.* After close_notify, and after what the handlers write while they read the data before it,
///    [`OnCloseNotify`](crate::OnCloseNotify) decides; bytes behind it are ignored. The end of the stream without it is
///    [`TlsError::Truncated`].
/// 7. *Ending TLS.* [`StopTls`](crate::StopTls) ends TLS in order, with no byte lost in either direction. A handler that
///    is removed without it sends close_notify, and fails what waits rather than sending it as plain text.
pub struct TlsHandler {
    role: Option<TlsRole>,
    options: TlsOptions,
    /// The choice of the configuration, until the session is created.
    choice: Option<Box<ConfigChoice>>,
    /// Created when the handler is added, or when the configuration was chosen.
    session: Option<TlsSession>,
    state: HandlerState,
    plaintext: PlaintextQueue,
    /// Requests that wait until everything flushed was encrypted, in order.
    ends: Vec<OutputEnd>,
    closing: WaitingCloses,
    /// True from a [`StopTls`](crate::StopTls) request: after our close_notify, writes pass as they are.
    is_stopping: bool,
    is_output_plain: bool,
    /// Messages that were written after a [`StopTls`](crate::StopTls) request and wait for our close_notify.
    after_stop: PendingWriteQueue,
    limit_timer: LimitTimer,
    promise: Option<Promise<TlsHandshake>>,
    /// Bytes behind the peer's close_notify, until [`PeerEnd`] comes: no part of TLS.
    behind_close_notify: Vec<Bytes>,
    reads: ReadRequests,
    has_transport_failed: bool,
}

enum TlsRole {
    Server(ServerTls),
    Client(ClientTls, ServerName<'static>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandlerState {
    /// The channel is not active yet.
    Waiting,
    Running,
    /// The session has failed, and the channel is being closed.
    Failed,
    /// TLS has ended in order, and the handler is removed.
    Stopped,
}

/// Fired by the handler to itself behind the peer's close_notify: comes after what the handlers have answered to the
/// data before it, which is queued while the handler runs.
#[derive(Debug)]
struct PeerEnd(SlotId);

impl Message for PeerEnd {}

/// The reads of a channel without auto-read.
#[derive(Default)]
struct ReadRequests {
    is_wanted: bool,
    has_fired: bool,
}

impl TlsHandler {
    /// Returns a handler for the server's side of connections.
    pub fn server(config: impl Into<ServerTls>) -> Self {
        Self::new(TlsRole::Server(config.into()))
    }

    /// Returns a handler for the client's side. The certificate of the server must be valid for `name`.
    pub fn client(config: impl Into<ClientTls>, name: ServerName<'static>) -> Self {
        Self::new(TlsRole::Client(config.into(), name))
    }

    /// Sets the options.
    #[must_use]
    pub fn with_options(mut self, options: TlsOptions) -> Self {
        self.options = options;
        self
    }

    /// Completes `promise` with the outcome of the handshake, beside the event.
    #[must_use]
    pub fn complete_handshake(mut self, promise: Promise<TlsHandshake>) -> Self {
        self.promise = Some(promise);
        self
    }

    fn new(role: TlsRole) -> Self {
        Self {
            role: Some(role),
            options: TlsOptions::default(),
            choice: None,
            session: None,
            state: HandlerState::Waiting,
            plaintext: PlaintextQueue::default(),
            ends: Vec::new(),
            closing: WaitingCloses::default(),
            is_stopping: false,
            is_output_plain: false,
            after_stop: PendingWriteQueue::default(),
            limit_timer: LimitTimer::default(),
            promise: None,
            behind_close_notify: Vec::new(),
            reads: ReadRequests::default(),
            has_transport_failed: false,
        }
    }

    fn start_if_active(&mut self, ctx: &Ctx<'_>) {
        if self.state == HandlerState::Waiting && ctx.is_active() {
            self.state = HandlerState::Running;
            self.limit_timer.set(ctx, self.options.handshake_timeout, timers::HANDSHAKE_LIMIT);
            self.send_output(ctx);
            if !ctx.is_auto_read() {
                ctx.read();
            }
        }
    }

    /// Sends what the session has to say by itself.
    #[inline]
    fn send_output(&mut self, ctx: &Ctx<'_>) {
        if let Some(session) = self.session.as_mut().filter(|session| session.has_output()) {
            let output = session.take_output();
            write_output(ctx, output);
        }
    }

    fn is_established(&self) -> bool {
        self.session.as_ref().is_some_and(TlsSession::is_established)
    }

    fn has_peer_closed(&self) -> bool {
        self.session.as_ref().is_some_and(TlsSession::has_peer_closed)
    }

    // The read direction.

    fn decrypt(&mut self, ctx: &Ctx<'_>, mut ciphertext: Bytes) {
        let Some(session) = &mut self.session else {
            return self.choose(ctx, ciphertext);
        };
        let Fed { is_now_established, plaintext, outcome } = session.feed(&mut ciphertext);
        self.send_output(ctx);
        if is_now_established {
            self.on_established(ctx);
        }
        self.reads.has_fired |= !plaintext.is_empty();
        if let FedOutcome::NeedsInput = outcome {
            if is_now_established && ctx.is_removed() {
                return self.leave_input(ctx, plaintext);
            }
            if !plaintext.is_empty() {
                // An answer is encrypted by this handler.
                ctx.fire_read_on_return(plaintext);
            }
            return;
        }
        if !plaintext.is_empty() {
            ctx.fire_read(plaintext);
        }
        match outcome {
            FedOutcome::NeedsInput => {}
            FedOutcome::PeerClosed => self.on_peer_closed(ctx, ciphertext),
            FedOutcome::Failed(error) if self.is_established() => {
                self.fail(ctx, TlsError::Protocol(error));
            }
            FedOutcome::Failed(error) => {
                self.fail(ctx, TlsError::of_handshake(error, &ciphertext));
            }
        }
    }

    /// Passes on what was read by a handler that was removed at the end of its handshake.
    #[cold]
    fn leave_input(&mut self, ctx: &Ctx<'_>, plaintext: Bytes) {
        let unread = self.session.as_mut().map(TlsSession::take_unread).unwrap_or_default();
        for bytes in [plaintext, unread] {
            if !bytes.is_empty() {
                ctx.fire_read(bytes);
            }
        }
    }

    fn on_established(&mut self, ctx: &Ctx<'_>) {
        self.limit_timer.cancel(ctx);
        let Some(session) = &mut self.session else { return };
        let handshake = session.handshake();
        if let Some(promise) = self.promise.take() {
            promise.set_success(handshake.clone());
        }
        ctx.fire_user_event(handshake);
        self.pump(ctx);
        self.limit_ends(ctx);
    }

    fn fail(&mut self, ctx: &Ctx<'_>, error: TlsError) {
        self.state = HandlerState::Failed;
        self.choice = None;
        self.limit_timer.cancel(ctx);
        self.send_output(ctx);
        let error = Error::from(error);
        if let Some(promise) = self.promise.take() {
            promise.set_failure(error.clone());
        }
        self.plaintext.fail_all(ctx, &error);
        self.after_stop.fail_all(ctx, &error);
        ctx.fire_error(error.clone());
        ctx.close_because(error);
        self.pass_all_on(ctx);
    }

    /// Passes on all requests that wait.
    fn pass_all_on(&mut self, ctx: &Ctx<'_>) {
        let closes = mem::take(&mut self.closing.requests);
        for end in closes.into_iter().chain(mem::take(&mut self.ends)) {
            end.pass_on(ctx);
        }
    }

    // The write direction.

    /// Encrypts what is flushed, while there is room, and flushes it.
    fn pump(&mut self, ctx: &Ctx<'_>) {
        if self.encrypt(ctx) {
            ctx.flush();
        }
    }

    /// Encrypts what is flushed, while there is room. Returns true if something was written.
    #[inline]
    fn encrypt(&mut self, ctx: &Ctx<'_>) -> bool {
        let mut has_written = false;
        match self.session.as_mut().filter(|session| session.can_encrypt()) {
            Some(session) if self.state == HandlerState::Running => {
                match self.plaintext.pump(ctx, session) {
                    Ok(written) => has_written = written,
                    Err(error) => self.fail(ctx, TlsError::Protocol(error)),
                }
            }
            _ => self.plaintext.queue_single(ctx),
        }
        if !self.ends.is_empty() {
            self.pass_on_ends(ctx);
        }
        has_written
    }
}

/// Writes ciphertext of a session itself. If it would be refused, because other writes have reached the hard cap, the
/// channel is closed: neither a handshake nor a stream of records goes on after a gap. Checked beforehand, because a
/// completion would take the channel's writes off their fast path for good.
#[cold]
fn write_output(ctx: &Ctx<'_>, output: Bytes) {
    match ctx.held_write_error(output.len()) {
        Some(error @ ChannelError::BufferFull { .. }) => ctx.abort(error.into()),
        // A closed channel takes nothing, and says so itself.
        _ => ctx.write_and_flush(output),
    }
}

impl fmt::Debug for TlsHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsHandler")
            .field("state", &self.state)
            .field("is_established", &self.is_established())
            .finish_non_exhaustive()
    }
}
