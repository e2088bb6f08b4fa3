//! How many allocations the parts of a message cost.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use http::StatusCode;
use waterwheel_channel::{Ctx, Edit, Handler, HandlerResult, Msg};
use waterwheel_executor::Error;
use waterwheel_http::{
    Aggregator, BodyEnd, BodyFraming, FullRequest, FullResponse, HttpServerCodec, RequestHead,
    ResponseHead,
};
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

/// Answers each request at its end, in parts or as a whole.
struct Answers {
    in_parts: bool,
}

impl Handler for Answers {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        if !msg.is::<BodyEnd>() && !msg.is::<FullRequest>() {
            return Ok(());
        }
        let body = Bytes::from_static(b"hello");
        if self.in_parts {
            ctx.write(ResponseHead::new(StatusCode::OK, BodyFraming::Length(5)));
            ctx.write(body);
            ctx.write_and_flush(BodyEnd::default());
        } else {
            ctx.write_and_flush(FullResponse::from(http::Response::new(body)));
        }
        Ok(())
    }
}

/// Returns how many allocations 1000 requests and their answers cost on a connection that is kept.
fn allocations_of_exchanges(in_parts: bool, aggregates: bool) -> u64 {
    let initialise = |edit: &mut Edit<'_>| -> Result<(), Error> {
        HttpServerCodec::default().add_last(edit, "http")?;
        if aggregates {
            edit.add_last("whole", Aggregator::of_requests(1000))?;
        }
        edit.add_last("answers", Answers { in_parts })?;
        Ok(())
    };
    let mut channel = Embedded::builder().stream().build(initialise).unwrap();
    let request = Bytes::from_static(b"GET /a HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n");
    let mut exchange = |times| {
        for _ in 0..times {
            channel.write_inbound(request.clone());
            while channel.read_outbound::<Bytes>().is_some() {}
        }
    };
    exchange(100);
    allocations_in(|| exchange(1000)).0
}

#[test]
fn h01_an_exchange_costs_a_box_for_each_message_and_aggregation_a_map() {
    // Blocks for the answers' bytes, and queues.
    const SLACK: u64 = 100;
    for (in_parts, aggregates, budget) in [
        (false, false, 3), // RequestHead, BodyEnd, FullResponse
        (true, false, 4),  // RequestHead, BodyEnd, ResponseHead, BodyEnd
        (false, true, 6),  // RequestHead, BodyEnd, FullRequest, its map twice, FullResponse
    ] {
        let found = allocations_of_exchanges(in_parts, aggregates);
        assert!(found <= budget * 1000 + SLACK, "{found} by 1000 exchanges, {budget} each");
    }
}

#[test]
fn h04_requests_that_wait_for_room_are_not_copied_with_every_answer() {
    let codec = HttpServerCodec::builder().max_pipelined(1).build().unwrap();
    let mut channel = Embedded::builder()
        .stream()
        .build(|edit| Ok(codec.add_last(edit, "http").map(drop)?))
        .unwrap();
    let request = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
    // Far more than the few kept bytes that are copied to free the block they were read into.
    channel.write_inbound(Bytes::from(request.repeat(2000)));
    let mut answer_all = |times| {
        for _ in 0..times {
            while channel.read_inbound_any().is_some() {}
            drop(channel.write(FullResponse::from(http::Response::new(Bytes::new()))));
            channel.flush();
            while channel.read_outbound::<Bytes>().is_some() {}
        }
    };
    answer_all(100);
    let (of_few, ()) = allocations_in(|| answer_all(1000));
    assert!(of_few <= 4 * 1000 + 100, "{of_few} by 1000 answers");
}
