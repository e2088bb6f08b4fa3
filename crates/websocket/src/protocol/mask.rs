//! Masks of frames, applied by whole words.

use std::cell::RefCell;

use rustix::rand::{GetRandomFlags, getrandom};

/// Applies a mask to bytes in place. `mask` is that of the first byte.
#[inline]
pub(super) fn apply_mask(bytes: &mut [u8], mask: [u8; 4]) {
    let word = u32::from_ne_bytes(mask);
    let wide = u64::from(word) << 32 | u64::from(word);
    let mut words = bytes.chunks_exact_mut(8);
    for chunk in &mut words {
        let masked = u64::from_ne_bytes([
            chunk[0], chunk[1], chunk[2], chunk[3], chunk[4], chunk[5], chunk[6], chunk[7],
        ]) ^ wide;
        chunk.copy_from_slice(&masked.to_ne_bytes());
    }
    for (byte, mask) in words.into_remainder().iter_mut().zip(mask.into_iter().cycle()) {
        *byte ^= mask;
    }
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
                let mut masked = memory.clone();
                apply_mask(&mut masked[start..start + len], mask);
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
