//! How many allocations the parts of a message cost.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use http::StatusCode;
use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};
use waterwheel_http::{BodyEnd, BodyFraming, HttpServerCodec, RequestHead, ResponseHead};
use waterwheel_testkit::embedded::Embedded;

#[path = "../../../../support/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::{allocations, allocations_in};

/// Sends chunks back, and counts what is allocated between two of them, and by their writes.
#[derive(Default)]
struct CountedEcho {
    last: Option<u64>,
    counts: Rc<ChunkCounts>,
}

#[derive(Default)]
struct ChunkCounts {
    chunks: Cell<u64>,
    between: Cell<u64>,
    writes: Cell<u64>,
}

impl Handler for CountedEcho {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let now = allocations();
        if msg.is::<RequestHead>() {
            ctx.write(ResponseHead::new(StatusCode::OK, BodyFraming::Chunked));
        } else if msg.is::<BodyEnd>() {
            ctx.write_and_flush(msg);
        } else {
            let counts = &self.counts;
            counts.chunks.set(counts.chunks.get() + 1);
            counts.between.set(counts.between.get() + self.last.map_or(0, |last| now - last));
            let (written, ()) = allocations_in(|| ctx.write(msg));
            counts.writes.set(counts.writes.get() + written);
            self.last = Some(allocations());
        }
        Ok(())
    }
}

#[test]
fn h01_a_chunk_on_its_way_in_costs_no_allocation_and_out_less_than_one() {
    let handler = CountedEcho::default();
    let counts = handler.counts.clone();
    let mut channel = Embedded::builder()
        .stream()
        .build(|edit| {
            HttpServerCodec::default().add_last(edit, "http")?;
            edit.add_last("echo", handler)?;
            Ok(())
        })
        .unwrap();
    let chunk = format!("3e8\r\n{}\r\n", "x".repeat(1000));
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    channel.write_inbound(Bytes::from(format!("{head}{}0\r\n\r\n", chunk.repeat(40))));
    assert_eq!((counts.chunks.get(), counts.between.get()), (40, 0));
    let writes = counts.writes.get();
    assert!(writes < 40, "{writes} allocations by 40 writes: blocks for chunk sizes, the queue");
}

#[test]
fn h01_heads_and_ends_cost_a_box_each_and_chunks_none() {
    let boxed = |make: fn() -> Msg| allocations_in(|| drop(make())).0;
    assert_eq!(boxed(|| Bytes::from_static(b"hello").into()), 0);
    assert_eq!(boxed(|| BodyEnd::default().into()), 1);
    assert_eq!(boxed(|| ResponseHead::new(StatusCode::OK, BodyFraming::Chunked).into()), 1);
}
