//! Messages that Python's zlib has compressed, with every kind of block and of flush (W03).
//!
//! Made by `c = zlib.compressobj(level, zlib.DEFLATED, -bits, 8, strategy)` and, for each message,
//! `c.compress(message) + c.flush(zlib.Z_SYNC_FLUSH)` without the last four bytes, but where a row says something else.

use super::agreed;
use crate::naive_inflate::inflate_naively;
use crate::support::*;

const MESSAGES: [&str; 4] = [
    r#"{"channel":"news","id":17,"text":"Hello, Waterwheel"}"#,
    r#"{"channel":"news","id":18,"text":"Hello, Waterwheel"}"#,
    "",
    r#"{"channel":"news","id":19,"text":"Hello, Waterwheel, Waterwheel, Waterwheel"}"#,
];

/// The steps, whether a message refers to those before it, and the messages in hexadecimal digits.
type Row = (&'static str, bool, [&'static str; 4]);

fn table() -> [Row; 13] {
    [
        (
            "level 0, 15 bits, strategy default",
            true,
            [
                "003500caff7b226368616e6e656c223a226e657773222c226964223a31372c2274657874223a \
                 2248656c6c6f2c205761746572776865656c227d00",
                "003500caff7b226368616e6e656c223a226e657773222c226964223a31382c2274657874223a \
                 2248656c6c6f2c205761746572776865656c227d00",
                "00",
                "004d00b2ff7b226368616e6e656c223a226e657773222c226964223a31392c2274657874223a \
                 2248656c6c6f2c205761746572776865656c2c205761746572776865656c2c20576174657277 \
                 6865656c227d00",
            ],
        ),
        (
            "level 1, 15 bits, strategy default",
            true,
            [
                "aa564ace48cccb4bcd51b252ca4b2d2f56d251ca4c51b23234d7512a49ad28018a7aa4e6e4e4 \
                 eb28842796a4169567a40255d60200",
                "aac6a1c9029f260000",
                "00",
                "c2a5c912b726645b91d94ab50000",
            ],
        ),
        (
            "level 6, 15 bits, strategy default",
            true,
            [
                "aa564ace48cccb4bcd51b252ca4b2d2f56d251ca4c51b23234d7512a49ad28018a7aa4e6e4e4 \
                 eb28842796a4169567a40255d60200",
                "aac6a1c9029f260000",
                "00",
                "c2a5c912b7265c6ca55a0000",
            ],
        ),
        (
            "level 9, 15 bits, strategy default",
            true,
            [
                "aa564ace48cccb4bcd51b252ca4b2d2f56d251ca4c51b23234d7512a49ad28018a7aa4e6e4e4 \
                 eb28842796a4169567a40255d60200",
                "aac6a1c9029f260000",
                "00",
                "c2a5c912b7265c6ca55a0000",
            ],
        ),
        (
            "level 6, 9 bits, strategy default",
            true,
            [
                "aa564ace48cccb4bcd51b252ca4b2d2f56d251ca4c51b23234d7512a49ad28018a7aa4e6e4e4 \
                 eb28842796a4169567a40255d60200",
                "aac6a1c9029f260000",
                "00",
                "c2a5c912b7265c6ca55a0000",
            ],
        ),
        (
            "level 9, 12 bits, strategy default",
            true,
            [
                "aa564ace48cccb4bcd51b252ca4b2d2f56d251ca4c51b23234d7512a49ad28018a7aa4e6e4e4 \
                 eb28842796a4169567a40255d60200",
                "aac6a1c9029f260000",
                "00",
                "c2a5c912b7265c6ca55a0000",
            ],
        ),
        (
            "level 6, 15 bits, strategy fixed",
            true,
            [
                "aa564ace48cccb4bcd51b252ca4b2d2f56d251ca4c51b23234d7512a49ad28018a7aa4e6e4e4 \
                 eb28842796a4169567a40255d60200",
                "aac6a1c9029f260000",
                "00",
                "c2a5c912b7265c6ca55a0000",
            ],
        ),
        (
            "level 6, 15 bits, strategy huffman",
            true,
            [
                "aa564ace48cccb4bcd51b252ca4b2d2f56d251ca4c51b23234d7512a49ad2851b252f248cdc9 \
                 c9d751084f2c492d2acf484dcd51aa0500",
                "aa564ace48cccb4bcd51b252ca4b2d2f56d251ca4c51b232b4d0512a49ad2851b252f248cdc9 \
                 c9d751084f2c492d2acf484dcd51aa0500",
                "00",
                "04c1c10980400c04c0568e7de7e3d3abc00eee1d7421428870062288bd3bf362378da0a32358 \
                 3704e781beac82e493e8d8e87e491b9a9c65a44b1b9a9c65a44b1b9a9c65a4e3fb01",
            ],
        ),
        (
            "level 6, 15 bits, strategy rle",
            true,
            [
                "aa564ace48cccb4bcd51b252ca4b2d2f56d251ca4c51b23234d7512a49ad2851b252f248cdc9 \
                 c9d751084f2c492d2acf484dcd51aa0500",
                "aa564ace48cccb4bcd51b252ca4b2d2f56d251ca4c51b232b4d0512a49ad2851b252f248cdc9 \
                 c9d751084f2c492d2acf484dcd51aa0500",
                "00",
                "04c1c10980400c04c0568e7de7e3d3abc00eee1d7421428870062288bd3bf362378da0a32358 \
                 3704e781beac82e493e8d8e87e491b9a9c65a44b1b9a9c65a44b1b9a9c65a4e3fb01",
            ],
        ),
        (
            "a stream for each message",
            false,
            [
                "aa564ace48cccb4bcd51b252ca4b2d2f56d251ca4c51b23234d7512a49ad28018a7aa4e6e4e4 \
                 eb28842796a4169567a40255d60200",
                "aa564ace48cccb4bcd51b252ca4b2d2f56d251ca4c51b232b4d0512a49ad28018a7aa4e6e4e4 \
                 eb28842796a4169567a40255d60200",
                "00",
                "aa564ace48cccb4bcd51b252ca4b2d2f56d251ca4c51b232b4d4512a49ad28018a7aa4e6e4e4 \
                 eb28842796a4169567a4a6e6e0622bd50200",
            ],
        ),
        (
            "full flushes",
            false,
            [
                "aa564ace48cccb4bcd51b252ca4b2d2f56d251ca4c51b23234d7512a49ad28018a7aa4e6e4e4 \
                 eb28842796a4169567a40255d60200",
                "aa564ace48cccb4bcd51b252ca4b2d2f56d251ca4c51b232b4d0512a49ad28018a7aa4e6e4e4 \
                 eb28842796a4169567a40255d60200",
                "00",
                "aa564ace48cccb4bcd51b252ca4b2d2f56d251ca4c51b232b4d4512a49ad28018a7aa4e6e4e4 \
                 eb28842796a4169567a4a6e6e0622bd50200",
            ],
        ),
        (
            "blocks that are the last of their stream",
            false,
            [
                "ab564ace48cccb4bcd51b252ca4b2d2f56d251ca4c51b23234d7512a49ad28018a7aa4e6e4e4 \
                 eb28842796a4169567a40255d6020000",
                "ab564ace48cccb4bcd51b252ca4b2d2f56d251ca4c51b232b4d0512a49ad28018a7aa4e6e4e4 \
                 eb28842796a4169567a40255d6020000",
                "030000",
                "ab564ace48cccb4bcd51b252ca4b2d2f56d251ca4c51b232b4d4512a49ad28018a7aa4e6e4e4 \
                 eb28842796a4169567a4a6e6e0622bd5020000",
            ],
        ),
        (
            "a flush every seven bytes",
            true,
            [
                "aa564ace48cccb03000000ffff4acd51b252ca4b05000000ffff2a2f56d251ca4c01000000ff \
                 ff52b23234d7512a01000000ffff4aad28018a7a00000000ffff4acdc9c9d7510807000000ff \
                 ff4a2c492d2acf4805000000ffff02aaac0500",
                "aa866802000000ffff826a02000000ffff826a02000000ffff026ab2006a02000000ffff826a \
                 02000000ffff826a02000000ffff826a02000000ffff02690200",
                "00",
                "826a02000000ffff826a02000000ffff826a02000000ffff026ab2046a02000000ffff826a02 \
                 000000ffff826a02000000ffff826a02000000ffff4acd01b301000000ffff82b201000000ff \
                 ff82b201000000ffff821a0600",
            ],
        ),
    ]
}

fn unhex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn w03_what_python_has_compressed_is_read() {
    for (what, refers_back, payloads) in table() {
        for role in ROLES {
            let bytes: Vec<u8> = payloads
                .iter()
                .flat_map(|payload| frame(role, FINAL | RSV1 | TEXT, &unhex(payload)))
                .collect();
            for piece in [1, 5, bytes.len()] {
                let decoder = decoder(role).deflate(&agreed(true));
                let decoded = decode(decoder, bytes.chunks(piece));
                assert_eq!(decoded, (MESSAGES.map(text).to_vec(), None), "{what}");
                if !refers_back {
                    let decoder = crate::support::decoder(role).deflate(&agreed(false));
                    let decoded = decode(decoder, bytes.chunks(piece));
                    assert_eq!(decoded, (MESSAGES.map(text).to_vec(), None), "{what}");
                }
            }
        }
    }
}

#[test]
fn w03_the_naive_inflate_reads_what_python_has_compressed() {
    for (what, _, payloads) in table() {
        let mut stream = Vec::new();
        for payload in payloads {
            stream.extend(unhex(payload));
            stream.extend([0, 0, 0xff, 0xff]);
        }
        let inflated = inflate_naively(&stream);
        assert_eq!(str::from_utf8(&inflated.data), Ok(&*MESSAGES.concat()), "{what}");
        assert!(!inflated.is_corrupt, "{what}");
    }
}
