//! One TLS connection as a state machine over bytes: no channel, clock or executor in it.
//!
//! ```text
//!   ciphertext ──► feed ──► Fed: plaintext, and what the handler has to do
//!   ciphertext ◄── take_output ◄── send_close_notify, and whatever `feed` has to answer
//!   ciphertext ◄── encrypt ◄── plaintext
//! ```
//!
//! This is the unbuffered interface of rustls: records are decrypted where they are, in a buffer of the thread, and a
//! connection at rest has no buffer. A session keeps the beginning of a record, or of a handshake message, at most
//! [`MAX_UNREAD`] bytes. After an error, `take_output` returns the alert for the peer.

mod plaintext;
mod side;

use std::cell::Cell;
use std::mem;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CommonState, InvalidMessage, ServerConfig};

use self::plaintext::Plaintext;
use self::side::{SessionSide, SideProgress};
use crate::client_hello::reader::ClientHelloReader;
use crate::config::client::ClientTls;
use crate::handshake::TlsHandshake;

/// The plaintext of a full record.
pub(crate) const RECORD_SIZE: usize = 16 * 1024;

/// The most bytes that a session keeps of what it was fed: a handshake message, as in rustls.
const MAX_UNREAD: usize = 64 * 1024;

/// The longest ClientHello of which the name is told. The usual ones have less than 4 KiB; the limit keeps a session from
/// holding the bytes of a longer one twice.
const MAX_NAMED_HELLO: usize = 16 * 1024;

/// The overhead of the first record: header, content type and tag of TLS 1.3. The following ones are measured.
const FIRST_OVERHEAD: usize = 5 + 1 + 16;

/// The levels of alerts.
const WARNING: u8 = 1;
const FATAL: u8 = 2;

thread_local! {
    /// The buffer in which records are decrypted. Absent during a call of rustls, which may call verifiers of the
    /// user.
    static WORK: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The longest beginning that is copied to the thread's buffer with every read: that of a record. A longer one, of a
/// handshake message, stays in a buffer of the session.
const MAX_COPIED: usize = RECORD_SIZE + 2 * 1024;

/// The largest buffer that a thread keeps.
const MAX_KEPT_WORK: usize = 128 * 1024;

/// A TLS connection without a transport.
pub(crate) struct TlsSession {
    side: SessionSide,
    /// The beginning of a record or of a handshake message.
    unread: Vec<u8>,
    /// Ciphertext of the session itself that waits to be sent.
    output: Vec<u8>,
    /// Reads the name that a client asks for, until it is known: rustls does not tell it without its own buffers.
    hello: Option<Box<ClientHelloReader>>,
    server_name: Option<Box<str>>,
    /// The difference in length between the last small record and its plaintext.
    overhead: usize,
    is_established: bool,
    has_peer_closed: bool,
    /// True if we have sent close_notify.
    has_closed: bool,
    has_failed: bool,
}

/// The effect of ciphertext on a session, in the order in which the handler has to act.
#[must_use]
pub(crate) struct Fed {
    /// The handshake ended: data may be encrypted.
    pub(crate) is_now_established: bool,
    /// The data of the peer.
    pub(crate) plaintext: Bytes,
    pub(crate) outcome: FedOutcome,
}

/// The reason why the processing of ciphertext ended.
pub(crate) enum FedOutcome {
    /// There is no whole record left.
    NeedsInput,
    /// The peer has sent close_notify. The rest of the ciphertext is not TLS.
    PeerClosed,
    /// The peer has violated the protocol, or has sent a fatal alert. The rest of the ciphertext begins with the bytes
    /// that were refused.
    Failed(rustls::Error),
}

impl TlsSession {
    pub(crate) fn server(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        if config.max_early_data_size > 0 {
            // rustls keeps early data apart from other data; here it would be lost, or be replayed.
            let reason = "early data is not supported: set `max_early_data_size` to 0";
            return Err(rustls::Error::General(reason.into()));
        }
        let mut session = Self::new(SessionSide::server(config)?);
        session.hello = Some(Box::new(ClientHelloReader::with_limit(MAX_NAMED_HELLO)));
        Ok(session)
    }

    pub(crate) fn client(
        config: &ClientTls,
        name: ServerName<'static>,
    ) -> Result<Self, rustls::Error> {
        let mut session = Self::new(SessionSide::client(config.config().clone(), name)?);
        session.collect_output();
        Ok(session)
    }

    fn new(side: SessionSide) -> Self {
        Self {
            side,
            unread: Vec::new(),
            output: Vec::new(),
            hello: None,
            server_name: None,
            overhead: FIRST_OVERHEAD,
            is_established: false,
            has_peer_closed: false,
            has_closed: false,
            has_failed: false,
        }
    }

    /// Takes ciphertext up to a close_notify, an error, or its end.
    pub(crate) fn feed(&mut self, ciphertext: &mut Bytes) -> Fed {
        if self.hello.is_some() {
            self.read_hello(ciphertext.clone());
        }
        let kept = self.unread.len();
        let uses_thread_buffer = kept <= MAX_COPIED;
        let mut work = mem::take(&mut self.unread);
        if uses_thread_buffer {
            let unread = mem::replace(&mut work, WORK.take());
            work.extend_from_slice(&unread);
        } else if work.capacity() - kept < ciphertext.len() {
            // Doubled, as a vector does it, but not beyond the limit.
            let wanted = (2 * kept).min(MAX_UNREAD).max(kept + ciphertext.len());
            work.reserve_exact(wanted - kept);
        }
        work.extend_from_slice(ciphertext);
        let mut plaintext = Plaintext::with_capacity(work.len());
        let mut used = 0;
        let outcome = self.process(&mut work, &mut used, &mut plaintext);
        ciphertext.advance(match outcome {
            FedOutcome::NeedsInput => ciphertext.len(),
            _ => used.saturating_sub(kept),
        });
        if used < work.len() && matches!(outcome, FedOutcome::NeedsInput) {
            if uses_thread_buffer {
                self.unread = work[used..].to_vec();
            } else {
                work.drain(..used);
                self.unread = mem::take(&mut work);
            }
        }
        if uses_thread_buffer && work.capacity() <= MAX_KEPT_WORK {
            work.clear();
            WORK.set(work);
        }
        let outcome = self.check_unread(outcome);
        if self.has_closed {
            // Nothing follows our close_notify: a peer that ends TLS would take an alert for plain text.
            self.output.clear();
        }
        Fed {
            is_now_established: self.become_established(),
            plaintext: plaintext.into_bytes(),
            outcome,
        }
    }

    fn process(
        &mut self,
        work: &mut [u8],
        used: &mut usize,
        plaintext: &mut Plaintext,
    ) -> FedOutcome {
        loop {
            match self.side.process(work, used, plaintext, &mut self.output) {
                SideProgress::Read if *used == work.len() => return FedOutcome::NeedsInput,
                SideProgress::Again | SideProgress::Read => {}
                SideProgress::NeedsInput => return FedOutcome::NeedsInput,
                SideProgress::PeerClosed => {
                    self.has_peer_closed = true;
                    return FedOutcome::PeerClosed;
                }
                SideProgress::Failed(error) => {
                    self.side.collect_alert(&error, &mut work[*used..], &mut self.output);
                    self.fail(&error);
                    return FedOutcome::Failed(error);
                }
            }
        }
    }

    /// Returns true once: when the handshake is over.
    #[inline]
    fn become_established(&mut self) -> bool {
        let is_now_established = !self.is_established && !self.state().is_handshaking();
        self.is_established |= is_now_established;
        is_now_established
    }

    /// Limits the bytes that wait for the rest of a handshake message.
    #[inline]
    fn check_unread(&mut self, outcome: FedOutcome) -> FedOutcome {
        if self.unread.len() <= MAX_UNREAD {
            return outcome;
        }
        let error = rustls::Error::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge);
        self.fail(&error);
        FedOutcome::Failed(error)
    }

    /// Reads the ClientHello beside rustls, which checks it.
    #[cold]
    fn read_hello(&mut self, mut ciphertext: Bytes) {
        let Some(reader) = &mut self.hello else { return };
        match reader.feed(&mut ciphertext) {
            Ok(None) => {}
            Ok(Some(hello)) => {
                self.server_name = hello.server_name().map(Box::from);
                self.hello = None;
            }
            Err(_) => self.hello = None,
        }
    }

    /// Ends the session. rustls refuses some messages without an alert: handshake messages that are too long, or mixed
    /// with others; too many warnings. As long as nothing is encrypted, the alert can be added here.
    #[cold]
    fn fail(&mut self, error: &rustls::Error) {
        self.has_failed = true;
        if !self.has_output() && !matches!(error, rustls::Error::AlertReceived(_)) {
            self.push_plain_alert(
                FATAL,
                match error {
                    rustls::Error::InvalidMessage(_) => AlertDescription::DecodeError,
                    _ => AlertDescription::UnexpectedMessage,
                },
            );
        }
    }

    /// Encrypts plaintext, as one record if it fits into one. Ciphertext of the session itself comes first.
    ///
    /// # Errors
    /// The keys may not be used for more records.
    pub(crate) fn encrypt(&mut self, plaintext: &[u8]) -> Result<Bytes, rustls::Error> {
        let records = plaintext.len().div_ceil(RECORD_SIZE);
        let begin = self.output.len();
        let capacity = plaintext.len() + records * self.overhead;
        self.side.encrypt(&mut self.unread, plaintext, &mut self.output, capacity)?;
        if begin == 0 && records == 1 {
            self.overhead = self.output.len() - plaintext.len();
        }
        Ok(self.take_output())
    }

    /// Takes the ciphertext of the session itself: handshake, alerts, key updates. Empty if there is none.
    pub(crate) fn take_output(&mut self) -> Bytes {
        mem::take(&mut self.output).into()
    }

    /// True if the session has ciphertext of its own to send.
    pub(crate) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Takes the ciphertext that was fed and not processed.
    pub(crate) fn take_unread(&mut self) -> Bytes {
        self.has_failed = true;
        mem::take(&mut self.unread).into()
    }

    /// Tells the peer that no more data follows. Does nothing the second time, after a failure, and in the middle of a
    /// handshake, where rustls encrypts nothing but the handshake itself.
    pub(crate) fn send_close_notify(&mut self) {
        if self.has_failed {
            return;
        }
        if self.state().protocol_version().is_none() {
            self.has_failed = true;
            self.push_plain_alert(WARNING, AlertDescription::CloseNotify);
        }
        while !self.has_failed && !self.side.close(&mut self.unread, &mut self.output) {}
        self.has_closed = true;
    }

    /// Appends an alert that is not encrypted, if nothing is encrypted yet.
    fn push_plain_alert(&mut self, level: u8, description: AlertDescription) {
        if self.state().protocol_version().is_none() {
            self.output.extend_from_slice(&[21, 3, 3, 0, 2, level, description.into()]);
        }
    }

    fn collect_output(&mut self) {
        let mut none = Plaintext::default();
        while let SideProgress::Again =
            self.side.process(&mut self.unread, &mut 0, &mut none, &mut self.output)
        {}
    }

    fn state(&self) -> &CommonState {
        self.side.state()
    }

    /// True from the end of the handshake.
    pub(crate) fn is_established(&self) -> bool {
        self.is_established
    }

    /// True from the end of the handshake until a failure. rustls cannot be called after one: the input that it refers
    /// to is gone.
    pub(crate) fn can_encrypt(&self) -> bool {
        self.is_established && !self.has_failed
    }

    /// True if the peer has sent close_notify.
    pub(crate) fn has_peer_closed(&self) -> bool {
        self.has_peer_closed
    }

    /// Returns the outcome of the handshake.
    pub(crate) fn handshake(&self) -> TlsHandshake {
        TlsHandshake::of(self.state(), self.server_name.as_deref())
    }
}
