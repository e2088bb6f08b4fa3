//! Options of permessage-deflate: the parameters that an endpoint offers or accepts.

use super::parameters::MAX_WINDOW_BITS;

/// The options of permessage-deflate, of a server and of a client.
///
/// A compressor takes its window over from message to message only if the options say so: for each connection, that costs
/// hundreds of KiB. Without it the loop has one compressor for all connections. The peer is asked for the same, because
/// what it takes over is held here as well, for decompression.
///
/// ```
/// use waterwheel_websocket::DeflateOptions;
///
/// let options = DeflateOptions::builder().level(6).context_takeover(true).window_bits(11).build()?;
/// # let _ = options;
/// # Ok::<(), waterwheel_websocket::InvalidDeflateOption>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeflateOptions {
    pub(crate) level: u32,
    pub(crate) min_size: usize,
    pub(super) context_takeover: bool,
    pub(super) peer_context_takeover: bool,
    pub(super) window_bits: u8,
    pub(super) peer_window_bits: u8,
}

impl DeflateOptions {
    /// Returns a builder with the default options.
    pub fn builder() -> DeflateOptionsBuilder {
        DeflateOptionsBuilder { options: Self::default() }
    }
}

impl Default for DeflateOptions {
    fn default() -> Self {
        Self {
            level: 1,
            min_size: 64,
            context_takeover: false,
            peer_context_takeover: false,
            window_bits: MAX_WINDOW_BITS,
            peer_window_bits: MAX_WINDOW_BITS,
        }
    }
}

/// Builds [`DeflateOptions`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct DeflateOptionsBuilder {
    options: DeflateOptions,
}

impl DeflateOptionsBuilder {
    /// Sets the level of compression, from 1, the fastest, to 9: 1 unless set.
    pub fn level(mut self, level: u32) -> Self {
        self.options.level = level;
        self
    }

    /// Sets the size below which a whole message is sent as it is: 64 bytes unless set. The parts of a message are
    /// compressed whatever their size.
    pub fn min_size(mut self, bytes: usize) -> Self {
        self.options.min_size = bytes;
        self
    }

    /// Keeps the window of the own compression from message to message, if the peer permits it: small messages that
    /// resemble each other become smaller, and the connection holds a compressor. False unless set.
    pub fn context_takeover(mut self, keeps: bool) -> Self {
        self.options.context_takeover = keeps;
        self
    }

    /// Permits the peer to keep the window of its compression from message to message: then the connection holds a
    /// decompressor. False unless set: the peer is asked not to.
    pub fn peer_context_takeover(mut self, permits: bool) -> Self {
        self.options.peer_context_takeover = permits;
        self
    }

    /// Sets the window of the own compression: 2 to the power of 9 to 15 bytes, 15 unless set. The peer may ask for a
    /// smaller one.
    pub fn window_bits(mut self, bits: u8) -> Self {
        self.options.window_bits = bits;
        self
    }

    /// Sets the largest window that the peer may compress with: 2 to the power of 8 to 15 bytes, 15 unless set.
    ///
    /// A client that cannot be asked for a smaller window is asked not to keep its window instead: either way, a
    /// connection holds no larger window than this. A server that does not agree is an error of the handshake.
    pub fn peer_window_bits(mut self, bits: u8) -> Self {
        self.options.peer_window_bits = bits;
        self
    }

    /// Builds the options.
    ///
    /// # Errors
    /// An option is out of its range.
    pub fn build(self) -> Result<DeflateOptions, InvalidDeflateOption> {
        let DeflateOptions { level, window_bits, peer_window_bits, .. } = self.options;
        let values = [
            ("level", level, 1, 9),
            // zlib has no smaller window than 512 bytes.
            ("window_bits", window_bits.into(), 9, 15),
            ("peer_window_bits", peer_window_bits.into(), 8, 15),
        ];
        for (option, value, min, max) in values {
            if !(min..=max).contains(&value) {
                return Err(InvalidDeflateOption { option, value, min, max });
            }
        }
        Ok(self.options)
    }
}

/// The error of an option of permessage-deflate that is out of its range.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the option {option} of permessage-deflate is {value}: {min} to {max} are possible")]
pub struct InvalidDeflateOption {
    option: &'static str,
    value: u32,
    min: u32,
    max: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w03_options_out_of_their_range_are_refused_by_name() {
        let options = DeflateOptions::builder;
        assert_eq!(options().build(), Ok(DeflateOptions::default()));
        let built = [
            (options().level(1), options().level(0), "level", 0, "1 to 9"),
            (options().level(9), options().level(10), "level", 10, "1 to 9"),
            (options().window_bits(9), options().window_bits(8), "window_bits", 8, "9 to 15"),
            (options().window_bits(15), options().window_bits(16), "window_bits", 16, "9 to 15"),
            (
                options().peer_window_bits(8),
                options().peer_window_bits(7),
                "peer_window_bits",
                7,
                "8 to 15",
            ),
            (
                options().peer_window_bits(15),
                options().peer_window_bits(16),
                "peer_window_bits",
                16,
                "8 to 15",
            ),
        ];
        for (good, bad, option, value, range) in built {
            assert!(good.build().is_ok(), "{good:?}");
            let error = bad.build().unwrap_err().to_string();
            let expected = format!(
                "the option {option} of permessage-deflate is {value}: {range} are possible"
            );
            assert_eq!(error, expected);
        }
    }
}
