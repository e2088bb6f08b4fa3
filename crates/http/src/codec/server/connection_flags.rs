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
    /// True if a request was refused: nothing more is decoded.
    pub(super) is_refused: bool,
    pub(super) is_draining: bool,
    pub(super) is_input_over: bool,
}
