//! How far a connection is.

/// The phases of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CodecPhase {
    /// Requests are decoded and answered.
    #[default]
    Open,
    /// The last answer is written, or the channel is about to be closed: what is still read is dropped.
    Closing,
    /// Another protocol follows: what is read is kept for it.
    Upgraded,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConnectionFlags {
    pub(super) phase: CodecPhase,
    /// The number of the next request.
    pub(super) next_number: u64,
    /// True if the request that was decoded last is the last one of the connection.
    pub(super) is_last: bool,
    /// True if a request was refused: nothing more is decoded.
    pub(super) is_refused: bool,
    /// The request whose body is being received.
    pub(super) receiving: Option<u64>,
    /// The bytes of that body that are still to come, if its length is known.
    pub(super) body_left: Option<u64>,
    /// The bytes of that body that have come after the answer.
    pub(super) skipped: u64,
    /// The request whose answer may change the protocol.
    pub(super) upgrading: Option<u64>,
    pub(super) is_draining: bool,
    pub(super) is_input_over: bool,
}
