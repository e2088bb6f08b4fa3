//! Allocation budget of chunked writes: nothing for messages that pass, a completion for a chunk.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::{Completion, FileRegion, LocalLoop, yield_now};
use waterwheel_handlers::{ChunkedMessage, ChunkedWriter, FileChunks};
use waterwheel_testkit::embedded::Embedded;

#[path = "../../../support/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::allocations_in;

#[test]
fn k11_a_chunked_writer_allocates_nothing_for_other_messages() {
    let allocated = |has_writer| {
        let mut channel = Embedded::builder()
            .stream()
            .build(|edit| {
                if has_writer {
                    edit.add_last("chunks", ChunkedWriter::new())?;
                }
                Ok(())
            })
            .unwrap();
        let mut write = || {
            for _ in 0..200 {
                channel.with_pipeline(|pipeline| {
                    pipeline.write(Bytes::from_static(b"out"));
                    pipeline.flush();
                });
                while channel.read_outbound_any().is_some() {}
            }
        };
        write();
        allocations_in(write).0
    };
    assert_eq!(allocated(true), allocated(false));
}

/// Counts the allocations of one chunked write, one chunk in a turn: then every chunk pays for the same things.
fn allocated_by_chunks(message: impl Fn() -> ChunkedMessage) -> u64 {
    let mut channel = Embedded::new(|edit| {
        edit.add_last("chunks", ChunkedWriter::builder().bytes_per_turn(1).build()?)?;
        Ok(())
    })
    .unwrap();
    let mut write = || {
        drop(channel.write_outbound(message()));
        while channel.read_outbound_any().is_some() {}
    };
    (0..3).for_each(|_| write());
    allocations_in(write).0
}

/// Counts the allocations of this many writes with a completion, one in a turn, on a channel without the handler.
fn allocated_by_writes(count: usize) -> u64 {
    let mut channel = Embedded::new(|_| Ok(())).unwrap();
    let mut write = || {
        channel.on_loop(|channel| {
            let (channel, counter) = (channel.clone(), Rc::new(Cell::new(0)));
            let here = LocalLoop::current().expect("on the loop");
            drop(here.clone().spawn_local(async move {
                for _ in 0..count {
                    yield_now().await;
                    let counter = counter.clone();
                    let done = Completion::local(move |_| counter.set(counter.get() + 1));
                    here.with_pipeline(&channel, |pipeline| {
                        pipeline.write_and_flush_with(Bytes::from_static(&[7; 1000]), done);
                    });
                }
            }));
        });
        channel.run();
        while channel.read_outbound_any().is_some() {}
    };
    (0..3).for_each(|_| write());
    allocations_in(write).0
}

#[test]
fn k11_a_chunk_allocates_its_completion_and_a_file_also_its_message() {
    let twenty_writes = allocated_by_writes(30) - allocated_by_writes(10);
    let chunks = |count| {
        allocated_by_chunks(move || {
            ChunkedMessage::from_chunks((0..count).map(|_| Bytes::from_static(&[7; 1000])))
        })
    };
    assert_eq!(chunks(30) - chunks(10), twenty_writes, "as much as a write with a closure");
    let pieces = |count| {
        allocated_by_chunks(move || {
            let file = std::fs::File::open("Cargo.toml").unwrap();
            let region = FileRegion::new(file, 0..count).unwrap();
            ChunkedMessage::new(FileChunks::new(region).piece_len(1).unwrap())
        })
    };
    assert_eq!(pieces(30) - pieces(10), twenty_writes + 20, "and the box of the message");
}
