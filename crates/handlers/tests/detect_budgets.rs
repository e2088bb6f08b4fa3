//! Allocation budget of protocol detection.

use bytes::Bytes;
use waterwheel_channel::{Ctx, Events, Handler, HandlerResult, Msg};
use waterwheel_handlers::{ProtocolDetector, StockProbe};
use waterwheel_testkit::embedded::Embedded;

#[path = "../../../support/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::{allocations_in, bytes};

/// Drops what it reads.
struct Discard;

impl Handler for Discard {
    fn interest(&self) -> Events {
        Events::READ
    }

    fn on_read(&mut self, _: &Ctx<'_>, _: Msg) -> HandlerResult {
        Ok(())
    }
}

/// Returns a channel with a detector of all stock protocols, whose initialisers add nothing. (The edit of a pipeline
/// whose handlers declare types allocates for their check.)
fn detecting() -> Embedded {
    let stock = [
        ("tls", StockProbe::Tls),
        ("http2", StockProbe::Http2),
        ("resp", StockProbe::Resp),
        ("proxy", StockProbe::Proxy),
        ("http", StockProbe::Http1),
    ];
    let builder = ProtocolDetector::builder().max_bytes(1 << 20);
    let builder =
        stock.into_iter().fold(builder, |all, (name, probe)| all.protocol(name, probe, |_| Ok(())));
    let detector = builder.build().unwrap();
    let channel = Embedded::builder().stream().build(|edit| {
        edit.add_last("detect", detector)?;
        edit.add_last("discard", Discard)?;
        Ok(())
    });
    channel.unwrap()
}

#[test]
fn k13_a_first_read_that_decides_allocates_nothing() {
    for first in [
        "\x16\x03\x01\x02\x00\x01",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "*1\r\n$4\r\nPING\r\n",
        "PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n",
        "GET / HTTP/1.1\r\n",
    ] {
        let allocated = detecting().with_pipeline(|pipeline| {
            let read = Bytes::from_static(first.as_bytes());
            let (allocated, ()) = allocations_in(|| {
                pipeline.fire_read(read);
                pipeline.fire_read_complete();
            });
            assert_eq!(pipeline.names(), ["discard"]);
            allocated
        });
        assert_eq!(allocated.unwrap(), 0, "{first}");
    }
}

#[test]
fn k13_held_bytes_cost_few_allocations_and_little_more_than_their_number() {
    const LENGTH: usize = 100_000;
    let mut channel = detecting();
    let measured = channel.with_pipeline(|pipeline| {
        pipeline.fire_read(Bytes::from_static(b"GET /"));
        let before = bytes();
        let (allocated, ()) = allocations_in(|| {
            for _ in 0..LENGTH {
                pipeline.fire_read(Bytes::from_static(b"x"));
            }
        });
        (allocated, bytes() - before)
    });
    let (allocated, held) = measured.unwrap();
    assert!(allocated < 40, "{allocated} allocations: the buffer grows by doubling");
    assert!(held <= 3 * LENGTH, "{held} bytes are held for {LENGTH}");
}
