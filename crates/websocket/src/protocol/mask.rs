//! Masks of frames, applied by whole words.

use std::cell::RefCell;

use rustix::rand::{GetRandomFlags, getrandom};

/// Applies a mask to bytes in place. `mask` is that of the first byte.
#[inline]
pub(super) fn apply_mask(bytes: &mut [u8], mask: [u8; 4]) {
    let wide = widen(mask);
    let (words, rest) = bytes.as_chunks_mut();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask.into_iter().cycle()) {
        *byte ^= mask;
    }
}

/// Copies bytes, and applies a mask to the copy. `mask` is that of the first byte.
#[inline]
pub(super) fn copy_masked(bytes: &[u8], copy: &mut [u8], mask: [u8; 4]) {
    let wide = widen(mask);
    let ((words, rest), (copied_words, copied_rest)) = (bytes.as_chunks(), copy.as_chunks_mut());
    for (word, copied) in words.iter().zip(copied_words) {
        *copied = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for ((byte, copied), mask) in rest.iter().zip(copied_rest).zip(mask.into_iter().cycle()) {
        *copied = byte ^ mask;
    }
}

/// Returns a mask for eight bytes.
#[inline]
fn widen(mask: [u8; 4]) -> u64 {
    let word = u32::from_ne_bytes(mask);
    u64::from(word) << 32 | u64::from(word)
}

/// Returns the mask of the byte that follows `len` masked bytes.
#[inline]
pub(super) fn advance_mask(mask: [u8; 4], len: usize) -> [u8; 4] {
    // A rotation by bytes, in the order of memory.
    let bits = 8 * (len % 4) as u32;
    u32::from_le_bytes(mask).rotate_right(bits).to_le_bytes()
}

/// The random bytes that are fetched at once: a system call for 256 masks.
const POOL: usize = 1024;

thread_local! {
    /// Random bytes of this thread that were not used yet, and how many of them.
    static RANDOM: RefCell<([u8; POOL], usize)> = const { RefCell::new(([0; POOL], 0)) };
}

/// Returns random bytes of the operating system: masks have to be unpredictable (RFC 6455, section 5.3).
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    RANDOM.with_borrow_mut(|(pool, left)| {
        if *left < N {
            fill(pool);
            *left = POOL;
        }
        *left -= N;
        let mut taken = [0; N];
        taken.copy_from_slice(&pool[*left..*left + N]);
        taken
    })
}

#[cold]
fn fill(pool: &mut [u8]) {
    let mut filled = 0;
    while filled < pool.len() {
        match getrandom(&mut pool[filled..], GetRandomFlags::empty()) {
            Ok(len) => filled += len,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("getrandom failed ({error}): there is no other source of masks"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w02_masks_are_applied_at_every_alignment_of_the_memory() {
        let mask = [0x37, 0xfa, 0x21, 0x3d];
        let memory: Vec<u8> = (0..=255).collect();
        for start in 0..32 {
            for len in 0..150 {
                let (mut masked, mut copy) = (memory.clone(), memory.clone());
                apply_mask(&mut masked[start..start + len], mask);
                copy_masked(&memory[start..start + len], &mut copy[start..start + len], mask);
                assert_eq!(copy, masked, "{len} bytes from {start}");
                let by_bytes = memory.iter().enumerate().map(|(at, byte)| match at {
                    at if at < start || at >= start + len => *byte,
                    at => byte ^ mask[(at - start) % 4],
                });
                assert!(by_bytes.eq(masked), "{len} bytes from {start}");
            }
        }
    }

    #[test]
    fn w02_masks_are_the_same_by_words_and_by_bytes_however_the_payload_is_cut() {
        let mask = [1, 20, 155, 7];
        for len in 0..100 {
            let plain: Vec<u8> = (0..len as u8).collect();
            let by_bytes: Vec<u8> =
                plain.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
            for cut in 0..=len {
                let mut cut_up = plain.clone();
                let (first, second) = cut_up.split_at_mut(cut);
                apply_mask(first, mask);
                apply_mask(second, advance_mask(mask, cut));
                assert_eq!(cut_up, by_bytes, "{len} bytes, cut at {cut}");
            }
        }
    }
}
