//! Removal of the handler with messages held.

use bytes::Bytes;
use waterwheel_handlers::TrafficRate;

use crate::support::{BURST, SLOW, Shaped, numbered, shaping};

fn remove(channel: &mut Shaped) {
    channel.with_pipeline(|pipeline| pipeline.remove("shaping")).unwrap().unwrap();
}

#[test]
fn k08_a_removed_handler_passes_everything_on_in_order_at_once() {
    let mut channel = Shaped::new(shaping().channel_write(SLOW).channel_read(SLOW));
    let data = numbered(30_000);
    for chunk in data.chunks(1000) {
        drop(channel.write_outbound(Bytes::copy_from_slice(chunk)));
    }
    let unflushed = channel.write(numbered(50));
    remove(&mut channel);
    assert_eq!(channel.sent(), data);
    assert_eq!((channel.timers(), channel.channel().pending_bytes()), (0, 50));
    channel.flush();
    assert_eq!(channel.sent_len(), 50, "the flush mark was kept");
    unflushed.join().unwrap();
    let stats = channel.write_limiter().stats();
    assert_eq!((stats.held, stats.bytes), (0, 30_000));
}

#[test]
fn k08_a_handler_removed_while_a_close_waits_lets_it_go_on() {
    let mut channel = Shaped::new(shaping().channel_write(SLOW));
    let held = channel.write_outbound(numbered(BURST + 10_000));
    let closed = channel.on_loop(|channel| channel.close());
    remove(&mut channel);
    assert_eq!(channel.sent_len(), BURST + 10_000);
    closed.join().unwrap();
    held.join().unwrap();
}

#[test]
fn k08_a_removed_handler_resumes_reads() {
    let mut channel = Shaped::new(shaping().channel_read(TrafficRate::per_second(0)));
    channel.write_inbound(numbered(10));
    channel.write_inbound(numbered(10));
    assert_eq!((channel.read_len(), channel.unread()), (10, 1));
    remove(&mut channel);
    assert_eq!((channel.read_len(), channel.unread(), channel.timers()), (10, 0, 0));
}
