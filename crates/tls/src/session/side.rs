//! The connection of rustls, of a server or of a client: the two types have the same methods, and no common trait.

use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError,
    UnbufferedStatus, WriteTraffic,
};
use rustls::{ClientConfig, CommonState, ServerConfig};

use super::plaintext::Plaintext;

/// The content types of an alert, and of every encrypted record of TLS 1.3.
const ALERT: u8 = 21;
const ENCRYPTED: u8 = 23;

/// A side of a connection.
pub(super) enum SessionSide {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

/// The result of a step of the connection.
pub(super) enum SideProgress {
    /// Something was done, and there may be more to do.
    Again,
    /// Nothing is left to do before there is more input.
    NeedsInput,
    /// Data was read. At the end of the input, nothing is left to do.
    Read,
    /// The peer has sent close_notify.
    PeerClosed,
    /// The connection has failed.
    Failed(rustls::Error),
}

impl SessionSide {
    pub(super) fn server(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        UnbufferedServerConnection::new(config).map(|server| Self::Server(Box::new(server)))
    }

    pub(super) fn client(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Self, rustls::Error> {
        UnbufferedClientConnection::new(config, name).map(|client| Self::Client(Box::new(client)))
    }

    pub(super) fn state(&self) -> &CommonState {
        match self {
            Self::Server(server) => server,
            Self::Client(client) => client,
        }
    }

    /// Makes one step over the input from `used` on, and adds the bytes that are done with to `used`.
    #[inline]
    pub(super) fn process(
        &mut self,
        input: &mut [u8],
        used: &mut usize,
        plaintext: &mut Plaintext,
        output: &mut Vec<u8>,
    ) -> SideProgress {
        let rest = &mut input[*used..];
        let (discard, progress) = match self {
            Self::Server(server) => step(server.process_tls_records(rest), plaintext, output),
            Self::Client(client) => step(client.process_tls_records(rest), plaintext, output),
        };
        *used += discard;
        progress
    }

    /// Collects the alert of a connection that has failed. The input is not looked at again: a record that was decrypted
    /// in place is not a record any more.
    pub(super) fn collect_alert(
        &mut self,
        error: &rustls::Error,
        input: &mut [u8],
        output: &mut Vec<u8>,
    ) {
        use rustls::PeerMisbehaved as Misbehaved;
        // These have no alert.
        if let rustls::Error::PeerMisbehaved(
            Misbehaved::TooManyEmptyFragments
            | Misbehaved::MessageInterleavedWithHandshakeMessage
            | Misbehaved::RejectedEarlyDataInterleavedWithHandshakeMessage,
        ) = error
        {
            return;
        }
        let mut none = Plaintext::default();
        loop {
            let begin = output.len();
            let progress = self.process(input, &mut 0, &mut none, output);
            let may_be_alert = matches!(output.get(begin), Some(&(ALERT | ENCRYPTED)));
            if may_be_alert || !matches!(progress, SideProgress::Again) {
                return;
            }
        }
    }

    /// Encrypts plaintext, and appends it to `output`, of which `capacity` bytes will usually suffice.
    #[inline]
    pub(super) fn encrypt(
        &mut self,
        input: &mut [u8],
        plaintext: &[u8],
        output: &mut Vec<u8>,
        capacity: usize,
    ) -> Result<(), rustls::Error> {
        loop {
            let is_done = match self {
                Self::Server(server) => {
                    let state = server.process_tls_records(input).state;
                    encrypt_step(state?, plaintext, output, capacity)?
                }
                Self::Client(client) => {
                    let state = client.process_tls_records(input).state;
                    encrypt_step(state?, plaintext, output, capacity)?
                }
            };
            if is_done {
                return Ok(());
            }
        }
    }

    /// Makes one step toward close_notify, which is appended to `output`. Returns true if there is nothing left to do.
    pub(super) fn close(&mut self, input: &mut [u8], output: &mut Vec<u8>) -> bool {
        match self {
            Self::Server(server) => close_step(server.process_tls_records(input).state, output),
            Self::Client(client) => close_step(client.process_tls_records(input).state, output),
        }
    }
}

#[inline]
fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plaintext: &mut Plaintext,
    output: &mut Vec<u8>,
) -> (usize, SideProgress) {
    let mut discard = status.discard;
    let progress = match status.state {
        Ok(ConnectionState::ReadTraffic(mut records)) => {
            let mut progress = SideProgress::Read;
            while let Some(record) = records.next_record() {
                match record {
                    Ok(record) => {
                        discard += record.discard;
                        plaintext.push(record.payload);
                    }
                    Err(error) => progress = SideProgress::Failed(error),
                }
            }
            progress
        }
        Ok(ConnectionState::EncodeTlsData(data)) => {
            encode(data, output);
            SideProgress::Again
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            SideProgress::Again
        }
        Ok(ConnectionState::PeerClosed) => SideProgress::PeerClosed,
        Ok(
            ConnectionState::BlockedHandshake
            | ConnectionState::WriteTraffic(_)
            | ConnectionState::Closed,
        ) => SideProgress::NeedsInput,
        Ok(other) => SideProgress::Failed(unexpected(&other)),
        Err(error) => SideProgress::Failed(error),
    };
    (discard, progress)
}

/// Appends a message of the connection itself.
fn encode<Data>(mut data: EncodeTlsData<'_, Data>, output: &mut Vec<u8>) {
    if let Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) =
        data.encode(&mut [])
    {
        let begin = output.len();
        output.resize(begin + required_size, 0);
        let encoded = data.encode(&mut output[begin..]);
        debug_assert!(encoded.is_ok(), "the size is as it was asked for");
    }
}

/// Makes one step toward the encrypted plaintext. Returns true if there is nothing left to do.
#[inline]
fn encrypt_step<Data>(
    state: ConnectionState<'_, '_, Data>,
    plaintext: &[u8],
    output: &mut Vec<u8>,
    capacity: usize,
) -> Result<bool, rustls::Error> {
    match state {
        ConnectionState::WriteTraffic(mut traffic) => {
            encrypt_to(&mut traffic, plaintext, output, capacity).map(|()| true)
        }
        ConnectionState::EncodeTlsData(data) => {
            encode(data, output);
            Ok(false)
        }
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Ok(false)
        }
        ConnectionState::PeerClosed => Ok(false),
        other => Err(unexpected(&other)),
    }
}

#[inline]
fn encrypt_to<Data>(
    traffic: &mut WriteTraffic<'_, Data>,
    plaintext: &[u8],
    output: &mut Vec<u8>,
    mut capacity: usize,
) -> Result<(), rustls::Error> {
    let begin = output.len();
    loop {
        match begin {
            // Zeroed by the allocator, with no capacity to spare.
            0 => *output = vec![0; capacity],
            _ => output.resize(begin + capacity, 0),
        }
        match traffic.encrypt(plaintext, &mut output[begin..]) {
            Ok(len) => {
                output.truncate(begin + len);
                return Ok(());
            }
            Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size }))
                if required_size > capacity =>
            {
                capacity = required_size;
            }
            Err(_) => {
                output.truncate(begin);
                return Err(rustls::Error::EncryptError);
            }
        }
    }
}

fn close_step<Data>(
    state: Result<ConnectionState<'_, '_, Data>, rustls::Error>,
    output: &mut Vec<u8>,
) -> bool {
    match state {
        Ok(ConnectionState::WriteTraffic(mut traffic)) => {
            if let Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) =
                traffic.queue_close_notify(&mut [])
            {
                let begin = output.len();
                output.resize(begin + required_size, 0);
                let queued = traffic.queue_close_notify(&mut output[begin..]);
                debug_assert!(queued.is_ok(), "the size is as it was asked for");
            }
            true
        }
        Ok(ConnectionState::EncodeTlsData(data)) => {
            encode(data, output);
            false
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            false
        }
        Ok(ConnectionState::PeerClosed) => false,
        _ => true,
    }
}

#[cold]
fn unexpected<Data>(state: &ConnectionState<'_, '_, Data>) -> rustls::Error {
    rustls::Error::General(format!("the connection is in an unexpected state: {state:?}"))
}
