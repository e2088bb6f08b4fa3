//! Random bytes, cut anywhere: the choice and the bytes are those of a slow reference that sees all at once.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use waterwheel_channel::ChannelOptions;
use waterwheel_handlers::{Detection, Probe, ProtocolDetector, StockProbe};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::Log;

use crate::support::inbound;

#[derive(Clone, Copy)]
enum TestProbe {
    Stock(StockProbe),
    Prefix(&'static [u8]),
}

impl Probe for TestProbe {
    fn probe(&self, bytes: &[u8], seen: usize) -> Detection {
        match self {
            TestProbe::Stock(probe) => probe.probe(bytes, seen),
            TestProbe::Prefix(prefix) => Detection::of_prefix(bytes, prefix),
        }
    }
}

/// Stock probes and some that overlap with them, in one of several orders.
fn probes(order: u8) -> Vec<(&'static str, TestProbe)> {
    let mut all = vec![
        ("http", TestProbe::Stock(StockProbe::Http1)),
        ("resp", TestProbe::Stock(StockProbe::Resp)),
        ("proxy", TestProbe::Stock(StockProbe::Proxy)),
        ("http2", TestProbe::Stock(StockProbe::Http2)),
        ("tls", TestProbe::Stock(StockProbe::Tls)),
        ("get", TestProbe::Prefix(b"GET")),
        ("get x", TestProbe::Prefix(b"GET x HTTP")),
        ("p", TestProbe::Prefix(b"P")),
    ];
    let count = all.len();
    all.rotate_left(usize::from(order) % count);
    if order & 0x80 != 0 {
        all.reverse();
    }
    all
}

/// The choice for a whole stream: every probe is asked about every prefix, in full, until one has been decided.
fn reference(order: u8, stream: &[u8], limit: usize) -> &'static str {
    let seen = &stream[..stream.len().min(limit)];
    for (name, probe) in probes(order) {
        let answers = (1..=seen.len()).map(|length| probe.probe(&seen[..length], 0));
        match answers.into_iter().find(|answer| *answer != Detection::NeedMore) {
            Some(Detection::Match) => return name,
            _ => continue, // Decided against, or undecided at the limit or the end.
        }
    }
    "otherwise"
}

/// Sends the pieces, then the end, and returns who was chosen, and the events after that.
fn detected(
    order: u8,
    pieces: &[&[u8]],
    limit: usize,
    auto_read: bool,
) -> (String, Vec<u8>, String) {
    let log = Log::new();
    let mut builder = ProtocolDetector::builder().max_bytes(limit);
    for (name, probe) in probes(order) {
        let log = log.clone();
        builder = builder.protocol(name, probe, move |edit| {
            edit.add_last(name, log.recorder().interest(inbound()))?;
            Ok(())
        });
    }
    let other = log.clone();
    let builder = builder.otherwise(move |edit| {
        edit.add_last("otherwise", other.recorder().interest(inbound()))?;
        Ok(())
    });
    let detector = builder.build().unwrap();
    let options =
        ChannelOptions { allow_half_closure: true, auto_read, ..ChannelOptions::default() };
    let mut channel = Embedded::builder()
        .stream()
        .options(options)
        .build(|edit| {
            edit.add_last("detect", detector)?;
            Ok(())
        })
        .unwrap();
    for piece in pieces {
        channel.write_inbound(Bytes::copy_from_slice(piece));
        channel.read();
    }
    channel.finish_inbound();
    channel.read();
    let mut stream = Vec::new();
    while let Some(bytes) = channel.read_inbound::<Bytes>() {
        stream.extend_from_slice(&bytes);
    }
    let lines = log.take();
    let last = lines.last().cloned().unwrap_or_default();
    let name = lines[0].strip_suffix(" on_added").unwrap().to_owned();
    assert_eq!(lines[1], format!("{name} on_active"));
    assert!(lines.iter().all(|line| line.starts_with(&name)), "one pipeline: {lines:?}");
    (name, stream, last)
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    const KNOWN: [&[u8]; 9] = [
        b"GET x HTTP/1.1\r\n\r\n",
        b"GET key\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n",
        b"\r\n\r\n\0\r\nQUIT\n!",
        b"*2\r\n$3\r\n",
        b"\x16\x03\x01\x00\xdc\x01\x00",
        b"P",
        b"G",
    ];
    let known = prop::sample::select(&KNOWN[..]);
    let noise = vec(
        prop_oneof![4 => prop::sample::select(&b"GETPROXY /H1.*2\r\n"[..]), 1 => any::<u8>()],
        0..20,
    );
    (known, 0..40usize, noise).prop_map(|(known, keep, noise)| {
        let mut stream = known[..known.len().min(keep)].to_vec();
        stream.extend(noise);
        stream
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn k13_every_cut_of_the_bytes_gives_the_same_choice_and_the_same_stream(
        stream in stream(),
        cuts in vec(any::<prop::sample::Index>(), 0..6),
        order in any::<u8>(),
        limit in 1..48usize,
        auto_read in any::<bool>(),
    ) {
        prop_assume!(!stream.is_empty());
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
        let expected = reference(order, &stream, limit);
        for pieces in [pieces, stream.chunks(1).collect(), vec![&stream[..]]] {
            let (name, received, last) = detected(order, &pieces, limit, auto_read);
            prop_assert_eq!(&name, expected);
            prop_assert_eq!(&received, &stream);
            prop_assert!(last.ends_with("HalfClosed"), "{}", last);
        }
    }
}
