//! `TlsHandler`: feeds a session with what the channel reads and writes, fires what it says, and keeps the time.

mod choice;
mod event_methods;
pub(crate) mod options;
mod output_end;
mod plaintext_queue;
mod timers;

use std::fmt;
use std::mem;

use bytes::Bytes;
use rustls::pki_types::ServerName;
use waterwheel_channel::{ChannelError, Completion, Ctx, Message, PendingWriteQueue, SlotId};
use waterwheel_executor::{Error, Promise};

use self::choice::ConfigChoice;
use self::options::{OnCloseNotify, TlsOptions};
use self::output_end::{OutputEnd, WaitingCloses};
use self::plaintext_queue::PlaintextQueue;
use self::timers::LimitTimer;
use crate::config::client::ClientTls;
use crate::config::server::ServerTls;
use crate::error::TlsError;
use crate::handshake::{TlsHandshake, TlsPeerClosed, TlsStopped};
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
///    [`OnCloseNotify`] decides; bytes behind it are ignored. The end of the stream without it is
///    [`TlsError::Truncated`].
/// 7. *Ending TLS.* [`StopTls`](crate::StopTls) ends TLS in order, with no byte lost in either direction. A handler that is removed
///    without it sends close_notify, and fails what waits rather than sending it as plain text.
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

    fn on_peer_closed(&mut self, ctx: &Ctx<'_>, rest: Bytes) {
        if !self.is_established() {
            return self.fail(ctx, TlsError::HandshakeCutOff);
        }
        ctx.fire_user_event(TlsPeerClosed);
        if self.closing.is_begun() {
            return self.close_without_peer(ctx);
        }
        self.behind_close_notify.push(rest);
        self.reads.is_wanted = false;
        if mem::take(&mut self.reads.has_fired) {
            // Most handlers flush their answers at the end of a round of reads, which must come before the reaction.
            ctx.fire_read_complete();
        }
        ctx.pipeline().fire_user_event(PeerEnd(ctx.slot()));
    }

    fn on_peer_end(&mut self, ctx: &Ctx<'_>) {
        let behind = mem::take(&mut self.behind_close_notify);
        let is_closing = self.closing.is_begun() || self.ends.iter().any(OutputEnd::is_close);
        if self.state != HandlerState::Running || is_closing {
            return;
        }
        if self.is_stopping || self.options.on_close_notify == OnCloseNotify::StopTls {
            return self.finish_stop(ctx, behind);
        }
        match self.options.on_close_notify {
            OnCloseNotify::HalfClose => ctx.shutdown_input(),
            _ => self.end(ctx, OutputEnd::Close(Completion::none())),
        }
    }

    /// The peer's direction has ended. Ends ours if that was not requested, and leaves the pipeline.
    fn finish_stop(&mut self, ctx: &Ctx<'_>, behind: Vec<Bytes>) {
        self.limit_timer.cancel(ctx);
        self.state = HandlerState::Stopped;
        if !self.is_output_plain {
            self.plaintext.flush();
            if let Some(session) = &mut self.session {
                if let Err(error) = self.plaintext.pump_all(ctx, session) {
                    return self.fail(ctx, TlsError::Protocol(error));
                }
                session.send_close_notify();
            }
            self.begin_plain_output(ctx);
        }
        self.ends.retain(|end| !matches!(end, OutputEnd::StopTls));
        ctx.fire_user_event(TlsStopped);
        // A closed pipeline refuses the removal: its handlers are being removed anyway.
        let _ = ctx.pipeline().remove_if_present(ctx.slot());
        for bytes in behind.into_iter().filter(|bytes| !bytes.is_empty()) {
            ctx.fire_read(bytes);
        }
        for end in mem::take(&mut self.ends) {
            end.pass_on(ctx);
        }
    }

    /// Sends close_notify, and what was written to follow it.
    fn begin_plain_output(&mut self, ctx: &Ctx<'_>) {
        self.send_output(ctx);
        self.is_output_plain = true;
        self.after_stop.write_all(ctx);
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

    fn end(&mut self, ctx: &Ctx<'_>, mut end: OutputEnd) {
        if !end.begin() {
            return; // Cancelled.
        }
        if self.state != HandlerState::Running {
            return end.pass_on(ctx);
        }
        if self.closing.is_begun() {
            return self.closing.requests.push(end);
        }
        self.ends.push(end);
        self.pass_on_ends(ctx);
        self.limit_ends(ctx);
    }

    /// Sets the limit of requests that wait for held messages: from now on to the next progress. In the handshake its
    /// own limit holds.
    fn limit_ends(&mut self, ctx: &Ctx<'_>) {
        if !self.ends.is_empty() && self.is_established() {
            self.limit_timer.set(ctx, self.options.close_timeout, timers::CLOSE_LIMIT);
        }
    }

    fn pass_on_ends(&mut self, ctx: &Ctx<'_>) {
        // TLS that has not begun cannot end: what follows would be sent in the clear.
        let awaits_handshake = matches!(self.ends.first(), Some(OutputEnd::StopTls));
        if self.ends.is_empty()
            || self.plaintext.has_flushed()
            || (awaits_handshake && !self.is_established())
        {
            return;
        }
        for end in mem::take(&mut self.ends) {
            if let Some(error) = end.write_error() {
                self.plaintext.fail_all(ctx, &error);
                self.after_stop.fail_all(ctx, &error);
            }
            if let Some(session) = &mut self.session {
                session.send_close_notify();
            }
            match end {
                OutputEnd::StopTls => {
                    self.begin_plain_output(ctx);
                    let limit = self.options.close_timeout;
                    self.limit_timer.set(ctx, limit, timers::CLOSE_LIMIT);
                }
                OutputEnd::ShutdownOutput(_) => {
                    self.write_close_notify(ctx);
                    end.pass_on(ctx);
                }
                OutputEnd::Close(_) | OutputEnd::Disconnect(_) => self.begin_close(ctx, end),
            }
        }
    }

    /// Writes the close_notify, and keeps the close until it is written. Later closes join the first.
    fn begin_close(&mut self, ctx: &Ctx<'_>, close: OutputEnd) {
        if !self.closing.is_begun() {
            self.write_close_notify(ctx);
            self.closing.awaits_peer = self.options.awaits_close_notify
                && self.closing.is_sent
                && self.is_established()
                && !self.has_peer_closed();
            self.limit_timer.set(ctx, self.options.close_timeout, timers::CLOSE_LIMIT);
        }
        self.closing.requests.push(close);
        let ready = self.closing.take_ready();
        self.pass_closes_on(ctx, ready);
    }

    /// Writes the close_notify, and whatever else the session has to say. If it was sent at the end of TLS,
    /// waits for it and what followed it.
    fn write_close_notify(&mut self, ctx: &Ctx<'_>) {
        let is_plain = self.is_output_plain;
        let session = self.session.as_mut();
        if let Some(session) = session.filter(|session| session.has_output() || is_plain) {
            ctx.write(session.take_output());
            self.closing.is_sent = true;
            ctx.flush_now();
            if ctx.channel().pending_bytes() == 0 {
                self.closing.is_written = true;
                return;
            }
            // An empty message is done when everything before it is.
            let written = timers::call_back(ctx, timers::CLOSE_NOTIFY_WRITTEN);
            ctx.write_with(Bytes::new(), written);
            ctx.flush();
        }
    }

    fn on_close_notify_written(&mut self, ctx: &Ctx<'_>) {
        self.closing.is_written = true;
        let ready = self.closing.take_ready();
        self.pass_closes_on(ctx, ready);
    }

    /// The peer's direction has ended: a close waits only for its own close_notify.
    fn close_without_peer(&mut self, ctx: &Ctx<'_>) {
        self.closing.awaits_peer = false;
        let ready = self.closing.take_ready();
        self.pass_closes_on(ctx, ready);
    }

    fn pass_closes_on(&mut self, ctx: &Ctx<'_>, closes: Vec<OutputEnd>) {
        if closes.is_empty() {
            return;
        }
        self.limit_timer.cancel(ctx);
        if self.state == HandlerState::Running {
            self.state = HandlerState::Stopped;
        }
        if let Some(promise) = self.promise.take() {
            promise.set_failure(TlsError::HandshakeCutOff.into());
        }
        self.choice = None;
        for close in closes {
            close.pass_on(ctx);
        }
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
