//! Fuzzes protocol detection: the stock probes keep the contract of `Probe`, and the choice does not depend on how the
//! bytes are cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waterwheel_fuzz::Input;
use waterwheel_handlers::{Detection, Probe, ProbeSearch, SearchOutcome, StockProbe};

const STOCK: [StockProbe; 5] =
    [StockProbe::Tls, StockProbe::Http1, StockProbe::Http2, StockProbe::Resp, StockProbe::Proxy];

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let mut probes = STOCK;
    probes.rotate_left(input.below(STOCK.len()));
    let limit = 1 + 4 * input.below(256);
    let step = 1 + input.below(64);
    let Input(stream) = input;
    for probe in probes {
        check_probe(probe, stream);
    }
    let whole = choose(&probes, limit, stream, [stream.len()]);
    let cuts = (0..stream.len()).step_by(step).chain([stream.len()]);
    assert_eq!(whole, choose(&probes, limit, stream, cuts), "in pieces of {step}");
    assert_eq!(whole, choose(&probes, limit, stream, 0..=stream.len()), "byte by byte");
});

/// Searches the prefixes of these lengths, and decides at the limit or the end.
fn choose(
    probes: &[StockProbe],
    limit: usize,
    stream: &[u8],
    lengths: impl IntoIterator<Item = usize>,
) -> SearchOutcome {
    let mut search = ProbeSearch::new(limit);
    for length in lengths {
        match search.advance(probes, &stream[..length]) {
            SearchOutcome::NeedMore => {}
            SearchOutcome::LimitReached => return search.finish(probes, &stream[..length]),
            decided => return decided,
        }
    }
    search.finish(probes, stream)
}

/// Checks that a decision is final, and that no answer depends on the number of bytes seen before.
fn check_probe(probe: StockProbe, stream: &[u8]) {
    let mut seen = 0;
    let mut decided = None;
    for length in 1..=stream.len() {
        let answer = probe.probe(&stream[..length], 0);
        assert_eq!(answer, decided.unwrap_or(answer), "{probe:?} after {length} bytes");
        if decided.is_none() {
            assert_eq!(answer, probe.probe(&stream[..length], seen), "{probe:?} after {seen}");
        }
        match answer {
            Detection::NeedMore => seen = length,
            _ => decided = Some(answer),
        }
    }
}
