//! The timeout handlers over TCP, with real time: each test waits for the close that the handler makes.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Channel, Ctx, Edit, EventLoopGroup, Handler, HandlerResult, ServerBootstrap,
};
use waterwheel::codec::LineDecoder;
use waterwheel::executor::Error;
use waterwheel::handlers::{FirstMessageDeadline, ReadTimeout, TimeoutError, WriteTimeout};
use waterwheel::net::{Auto, Tcp};

use crate::program::{WAIT_LIMIT, connect};

const LIMIT: Duration = Duration::from_millis(60);

/// Sends the timeouts of its channel to the test.
#[derive(Clone)]
struct Reports(Sender<TimeoutError>);

impl Handler for Reports {
    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        if let Some(timeout) = error.find::<TimeoutError>() {
            let _ = self.0.send(timeout.clone());
        }
        Ok(())
    }
}

struct Server {
    // Declared first: the channel is dropped before its loops.
    channel: Channel,
    _group: EventLoopGroup,
    timeouts: Receiver<TimeoutError>,
}

/// Binds a server whose pipelines `make` builds, with a handler after them that reports timeouts.
fn serve(make: fn(&mut Edit<'_>) -> Result<(), Error>) -> Server {
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let (sender, timeouts) = channel();
    let reports = Reports(sender);
    let bootstrap = ServerBootstrap::new(&group, Tcp).child_initialiser(move |edit| {
        make(edit)?;
        edit.add_last("reports", reports.clone())?;
        Ok(())
    });
    let channel = bootstrap.bind("127.0.0.1:0").join().unwrap();
    Server { channel, _group: group, timeouts }
}

impl Server {
    fn connect(&self) -> TcpStream {
        connect(self.channel.local_address().unwrap().socket_addr().unwrap())
    }

    fn next_timeout(&self) -> TimeoutError {
        self.timeouts.recv_timeout(WAIT_LIMIT).expect("a timeout comes")
    }
}

/// Reads until the connection ends, by FIN or RST.
fn read_to_end(mut stream: TcpStream) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
            Err(error) => panic!("the server closes the connection, not {error}"),
        }
    }
}

#[test]
fn k07_a_silent_peer_is_closed_over_tcp() {
    let server = serve(|edit| {
        edit.add_last("timeout", ReadTimeout::new(LIMIT)?)?;
        Ok(())
    });
    let peer = server.connect();
    let local = peer.local_addr().unwrap().to_string();
    let text = server.next_timeout().to_string();
    assert!(text.starts_with("read timeout: no message for 60ms on channel "), "{text}");
    assert!(text.ends_with(&local), "{text} names the peer {local}");
    read_to_end(peer);
}

#[test]
fn k07_a_peer_that_drips_bytes_of_its_first_line_is_closed_over_tcp() {
    let server = serve(|edit| {
        edit.add_last("lines", waterwheel::channel::Decode::new(LineDecoder::new(1024)))?;
        edit.add_last("deadline", FirstMessageDeadline::new(LIMIT)?)?;
        Ok(())
    });
    let mut peer = server.connect();
    // One byte after the other until the server has closed the connection.
    let closed = (0..).find_map(|_| {
        let sent = peer.write_all(b"x");
        std::thread::yield_now();
        sent.err()
    });
    let closed = closed.expect("writes fail in the end").kind();
    assert!(matches!(closed, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{closed}");
    assert!(matches!(server.next_timeout(), TimeoutError::FirstMessage { limit: LIMIT, .. }));
}

/// Writes far more than the kernel's buffers hold as soon as a connection is made.
struct Flood;

impl Handler for Flood {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        for _ in 0..256 {
            ctx.write(Bytes::from(vec![b'x'; 64 * 1024]));
        }
        ctx.flush();
        ctx.fire_active();
        Ok(())
    }
}

#[test]
fn k07_a_peer_that_does_not_read_is_closed_over_tcp() {
    let server = serve(|edit| {
        edit.add_last("timeout", WriteTimeout::new(LIMIT)?)?;
        edit.add_last("flood", Flood)?;
        Ok(())
    });
    let peer = server.connect();
    match server.next_timeout() {
        TimeoutError::Write { late, limit: LIMIT, .. } => {
            assert!((1..=256).contains(&late), "{late} writes are late");
        }
        other => panic!("a write timeout, not {other}"),
    }
    read_to_end(peer);
}
