//! The compressors and decompressors of a thread that no connection uses: each of them is larger than all else that a
//! connection holds.

use std::cell::RefCell;

use flate2::{Compress, Compression, Decompress};

/// The setting of a compressor: two compressors with the same one make the same of the same data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompressorSetting {
    pub(crate) level: u32,
    pub(crate) window_bits: u8,
}

/// The most of each kind that a thread keeps. One is in use at a time, but for messages that come or go in parts.
const MAX_SPARE: usize = 4;

thread_local! {
    static COMPRESSORS: RefCell<Vec<(CompressorSetting, Compress)>> =
        const { RefCell::new(Vec::new()) };
    static DECOMPRESSORS: RefCell<Vec<Decompress>> = const { RefCell::new(Vec::new()) };
}

/// Returns a compressor with an empty window.
pub(super) fn take_compressor(setting: CompressorSetting) -> Compress {
    let spare = COMPRESSORS.with_borrow_mut(|spare| {
        let at = spare.iter().rposition(|(of, _)| *of == setting)?;
        Some(spare.remove(at).1)
    });
    spare.unwrap_or_else(|| {
        // zlib has no window of 256 bytes. With one of 512 it refers to the last 250 only, which is within both.
        let window_bits = setting.window_bits.max(9);
        Compress::new_with_window_bits(Compression::new(setting.level), false, window_bits)
    })
}

/// Gives a compressor back: it is kept for the next message of this thread, or dropped.
pub(super) fn give_compressor(setting: CompressorSetting, mut stream: Compress) {
    stream.reset();
    COMPRESSORS.with_borrow_mut(|spare| {
        if spare.len() == MAX_SPARE {
            // The one that has not been used for the longest time, which may be of a setting that is gone.
            spare.remove(0);
        }
        spare.push((setting, stream));
    });
}

/// Returns a decompressor with an empty window: the largest one, which inflates what any smaller one has made.
pub(super) fn take_decompressor() -> Decompress {
    DECOMPRESSORS.with_borrow_mut(Vec::pop).unwrap_or_else(|| Decompress::new(false))
}

/// Gives a decompressor back: it is kept for the next message of this thread, or dropped.
pub(super) fn give_decompressor(mut stream: Decompress) {
    stream.reset(false);
    DECOMPRESSORS.with_borrow_mut(|spare| {
        if spare.len() < MAX_SPARE {
            spare.push(stream);
        }
    });
}
