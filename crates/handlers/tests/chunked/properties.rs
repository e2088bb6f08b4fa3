//! Any interleaving of messages, sources, flushes and room gives the bytes of the same writes one after the other.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use waterwheel_channel::ChannelFuture;
use waterwheel_handlers::ChunkedWriter;
use waterwheel_testkit::embedded::Embedded;

use crate::support::{SourceControl, bench_with, is_written, marks};

#[derive(Clone, Debug)]
enum Op {
    /// Writes a message of this length.
    Message(usize),
    /// Writes a source with chunks of these lengths, and gives this many of them now.
    Source(Vec<usize>, usize),
    /// Gives the next chunks of the oldest source that still has some.
    Give(usize),
    /// Cancels the newest source.
    Cancel,
    Flush,
    /// The transport takes this many bytes more.
    Room(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..40usize).prop_map(Op::Message),
        3 => (vec(0..40usize, 0..8), 0..8usize).prop_map(|(lens, now)| Op::Source(lens, now)),
        4 => (1..4usize).prop_map(Op::Give),
        1 => Just(Op::Cancel),
        3 => Just(Op::Flush),
        4 => (0..60usize).prop_map(Op::Room),
    ]
}

/// A source, and what it has not given yet.
struct OpenSource {
    control: SourceControl,
    rest: Vec<Bytes>,
    at: usize,
    future: ChannelFuture,
}

/// Every write has its own letters, so that a swap or a loss shows.
fn filled(next: &mut u8, len: usize) -> Bytes {
    *next = if *next == b'z' { b'a' } else { *next + 1 };
    Bytes::from(vec![*next; len])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn k11_any_interleaving_gives_the_bytes_in_order(
        ops in vec(op(), 1..60), low in 1..30usize, more in 1..60usize,
    ) {
        let builder = Embedded::builder().stream().options(marks(low, low + more));
        let mut bench = bench_with(builder, ChunkedWriter::builder());
        bench.set_room(0);
        let mut letter = b'z';
        // The bytes of each write, in order; a cancelled source leaves a prefix of its chunks.
        let mut expected: Vec<(Vec<Bytes>, bool)> = Vec::new();
        let mut sources: Vec<OpenSource> = Vec::new();
        let mut messages = Vec::new();
        for op in ops {
            match op {
                Op::Message(len) => {
                    let bytes = filled(&mut letter, len);
                    expected.push((vec![bytes.clone()], false));
                    messages.push(bench.write(bytes));
                }
                Op::Source(lens, now) => {
                    let rest: Vec<_> = lens.iter().map(|len| filled(&mut letter, *len)).collect();
                    let control = SourceControl::default();
                    let future = bench.write(control.message());
                    let at = expected.len();
                    expected.push((rest.clone(), false));
                    let mut source = OpenSource { control, rest, at, future };
                    source.give(now);
                    sources.push(source);
                }
                Op::Give(count) => {
                    if let Some(source) = sources.iter_mut().find(|it| !it.rest.is_empty()) {
                        source.give(count);
                    }
                }
                Op::Cancel => {
                    if let Some(source) = sources.last() {
                        expected[source.at].1 |= source.future.cancel();
                    }
                }
                Op::Flush => bench.flush(),
                Op::Room(room) => bench.set_room(room),
            }
            bench.run();
        }
        sources.iter_mut().for_each(|source| {
            source.give(usize::MAX);
            source.control.finish();
        });
        bench.flush();
        for _ in 0..10_000 {
            bench.set_room(1000);
            bench.run();
            if bench.channel().pending_bytes() == 0 {
                break;
            }
        }
        bench.run();
        prop_assert!(messages.iter_mut().all(is_written));
        for source in &mut sources {
            prop_assert!(source.control.is_dropped());
            prop_assert!(source.future.is_cancelled() || is_written(&mut source.future));
        }
        let sent = bench.sent();
        check(sent.as_bytes(), &expected)?;
    }
}

impl OpenSource {
    fn give(&mut self, count: usize) {
        let count = count.min(self.rest.len());
        self.rest.drain(..count).for_each(|chunk| self.control.give(chunk));
    }
}

/// Checks the sent bytes against the writes, one after the other.
fn check(mut sent: &[u8], expected: &[(Vec<Bytes>, bool)]) -> Result<(), TestCaseError> {
    for (chunks, is_cancelled) in expected {
        for chunk in chunks {
            match sent.strip_prefix(&chunk[..]) {
                Some(rest) => sent = rest,
                None => {
                    prop_assert!(is_cancelled, "{chunk:?} is missing");
                    break;
                }
            }
        }
    }
    prop_assert!(sent.is_empty(), "{sent:?} was not written");
    Ok(())
}
