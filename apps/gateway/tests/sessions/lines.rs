//! Time in the protocol of lines, on a virtual clock.

use std::time::Duration;

use waterwheel::bytes::Bytes;
use waterwheel_gateway::protocols::ProtocolOptions;
use waterwheel_gateway::protocols::lines::LineProtocol;
use waterwheel_testkit::embedded::Embedded;

use crate::support::Bench;

/// A client whose kernel takes nothing: what is written waits.
fn client(bench: &Bench) -> Embedded {
    let protocol = LineProtocol::new(&bench.core, &ProtocolOptions::default());
    Embedded::builder().stream().build(|edit| protocol.add_handlers(edit)).unwrap()
}

fn sent(client: &mut Embedded) -> String {
    let all: Vec<u8> = std::iter::from_fn(|| client.read_outbound::<Bytes>()).flatten().collect();
    String::from_utf8(all).unwrap()
}

#[test]
fn g01_a_client_that_neither_reads_nor_speaks_is_disconnected_after_the_idle_time() {
    let bench = Bench::start();
    let mut client = client(&bench);
    client.run();
    assert_eq!(sent(&mut client), "HELLO HELP lists the commands\n");
    client.set_room(0);
    // More than may wait for it: the rest of its commands waits, unread.
    for _ in 0..20 {
        client.write_inbound(Bytes::from("HELP\n".repeat(1_000)));
    }
    assert_eq!(bench.core.clients(), 1);
    client.advance(Duration::from_secs(150));
    client.advance(Duration::from_secs(150));
    client.advance(Duration::from_secs(10));
    assert!(!client.channel().is_open(), "the limit of time for what waits is over");
    assert_eq!(bench.core.clients(), 0);
}
