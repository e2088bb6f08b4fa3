//! The closing handshake as a state value: each side sends one Close.

/// The state of the closing handshake.
///
/// ```text
///              begin ─► send            receive ─► end
///   Open ──────────────────────► Sent ──────────────────► Ended
///    │  receive ─► answer, end                              ▲
///    ├──────────────────────────────────────────────────────┤
///    │  fail ─► send, end            fail ─► end            │
///    └──────────────────────────────────────────────────────┘
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CloseHandshake {
    /// Neither side has sent a Close.
    #[default]
    Open,
    /// This side has sent a Close: messages are still received.
    Sent,
    /// Nothing more is sent or received.
    Ended,
}

/// The action of an endpoint after a step of the closing handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum CloseAction {
    /// Nothing: the step was made before.
    Nothing,
    /// Sends a Close, and waits for that of the peer.
    Send,
    /// Sends a Close, then ends the connection.
    SendAndEnd,
    /// Ends the connection.
    End,
}

impl CloseHandshake {
    /// Begins the handshake: this side wants to close.
    pub(crate) fn begin(&mut self) -> CloseAction {
        match self {
            Self::Open => {
                *self = Self::Sent;
                CloseAction::Send
            }
            Self::Sent | Self::Ended => CloseAction::Nothing,
        }
    }

    /// Notes the Close of the peer.
    pub(crate) fn receive(&mut self) -> CloseAction {
        match std::mem::replace(self, Self::Ended) {
            Self::Open => CloseAction::SendAndEnd,
            Self::Sent => CloseAction::End,
            Self::Ended => CloseAction::Nothing,
        }
    }

    /// Fails the connection: the peer is told, but not waited for.
    pub(crate) fn fail(&mut self) -> CloseAction {
        self.receive()
    }

    /// True while messages are received.
    #[inline]
    pub(crate) fn is_receiving(self) -> bool {
        self != Self::Ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w05_each_side_sends_one_close() {
        let mut ours = CloseHandshake::default();
        assert_eq!(ours.begin(), CloseAction::Send);
        assert_eq!(ours.begin(), CloseAction::Nothing, "it was sent");
        assert!(ours.is_receiving(), "the peer may have sent messages before it learned of it");
        assert_eq!(ours.receive(), CloseAction::End);
        assert_eq!((ours.begin(), ours.receive()), (CloseAction::Nothing, CloseAction::Nothing));

        let mut theirs = CloseHandshake::default();
        assert_eq!(theirs.receive(), CloseAction::SendAndEnd);
        assert!(!theirs.is_receiving());
        assert_eq!(theirs.begin(), CloseAction::Nothing);
    }

    #[test]
    fn w05_a_failed_connection_tells_its_peer_once() {
        let mut state = CloseHandshake::default();
        assert_eq!((state.fail(), state.fail()), (CloseAction::SendAndEnd, CloseAction::Nothing));
        let mut state = CloseHandshake::Sent;
        assert_eq!(state.fail(), CloseAction::End, "its Close was sent before");
    }
}
