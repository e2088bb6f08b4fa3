//! Flow control and the consolidation of flushes over TCP.

use std::io::{BufRead, BufReader, Read, Write};
use std::time::Duration;

use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Channel, Ctx, EventLoopGroup, HandlerResult, In, InboundHandler, ServerBootstrap,
};
use waterwheel::codec::LineDecoder;
use waterwheel::handlers::{FlowControl, FlushConsolidation};
use waterwheel::net::{Auto, Tcp};

use crate::program::{WAIT_LIMIT, connect};

/// Answers a line after a while, and takes the next one only then.
struct SlowEcho {
    /// True while an answer is under way.
    is_busy: bool,
}

impl InboundHandler for SlowEcho {
    type In = String;

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.read();
        ctx.fire_active();
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, line: String) -> HandlerResult {
        assert!(!self.is_busy, "one message per read");
        self.is_busy = true;
        ctx.write(Bytes::from(format!("{line}\n")));
        ctx.schedule(Duration::from_micros(100), 0);
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, _: u32) -> HandlerResult {
        self.is_busy = false;
        ctx.flush();
        ctx.read();
        Ok(())
    }
}

#[test]
fn k11_pipelined_lines_are_taken_one_at_a_time_over_tcp() {
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let server = ServerBootstrap::new(&group, Tcp)
        .child_auto_read(false)
        .child_initialiser(|edit| {
            edit.add_last("lines", LineDecoder::new(1024).text())?;
            edit.add_last("flow control", FlowControl::new())?;
            edit.add_last("echo", In(SlowEcho { is_busy: false }))?;
            Ok(())
        })
        .bind("127.0.0.1:0")
        .join()
        .unwrap();
    let mut peer = connect(server.local_address().unwrap().socket_addr().unwrap());
    let lines: Vec<_> = (0..500).map(|number| number.to_string()).collect();
    peer.write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
    let answers: Vec<_> = BufReader::new(peer).lines().take(500).map(Result::unwrap).collect();
    assert_eq!(answers, lines);
}

/// Hands its channel to the test.
struct Announces(std::sync::mpsc::Sender<Channel>);

impl InboundHandler for Announces {
    type In = Bytes;

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let _ = self.0.send(ctx.channel());
        ctx.fire_active();
        Ok(())
    }

    fn on_read(&mut self, _: &Ctx<'_>, _: Bytes) -> HandlerResult {
        Ok(())
    }
}

#[test]
fn c14_consolidated_flushes_of_four_threads_arrive_complete_over_tcp() {
    const SENDS: u8 = 250;
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let (sender, channels) = std::sync::mpsc::channel();
    let server = ServerBootstrap::new(&group, Tcp)
        .child_initialiser(move |edit| {
            edit.add_last("flushes", FlushConsolidation::new())?;
            edit.add_last("announces", In(Announces(sender.clone())))?;
            Ok(())
        })
        .bind("127.0.0.1:0")
        .join()
        .unwrap();
    let mut peer = connect(server.local_address().unwrap().socket_addr().unwrap());
    let channel = channels.recv_timeout(WAIT_LIMIT).unwrap();
    let senders: Vec<_> = (0..4_u8)
        .map(|thread| {
            let channel = channel.clone();
            std::thread::spawn(move || {
                (0..SENDS).for_each(|number| channel.send(Bytes::from(vec![thread, number])));
            })
        })
        .collect();
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    channel.close_without_future();
    let mut received = Vec::new();
    peer.read_to_end(&mut received).unwrap();
    for thread in 0..4 {
        let pairs = received.chunks_exact(2).filter(|pair| pair[0] == thread);
        let numbers: Vec<_> = pairs.map(|pair| pair[1]).collect();
        assert_eq!(numbers, Vec::from_iter(0..SENDS), "of thread {thread}, in order");
    }
}
