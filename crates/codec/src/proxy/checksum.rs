//! CRC32c (Castagnoli), the optional checksum of a PROXY header.

/// The polynomial, lowest bit first.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Returns the checksum of these bytes, computed bit by bit: there is one short header per connection.
pub(super) fn crc32c(bytes: impl IntoIterator<Item = u8>) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (POLYNOMIAL & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values of RFC 3720, appendix B.4.
    #[test]
    fn k04_the_checksum_is_that_of_the_rfc() {
        assert_eq!(crc32c([0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c([0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(0..32), 0x46dd_794e);
        assert_eq!(crc32c(*b"123456789"), 0xe306_9283);
    }
}
