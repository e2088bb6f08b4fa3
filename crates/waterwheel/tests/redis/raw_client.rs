//! A blocking client: commands out, decoded replies in.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use waterwheel::bytes::Bytes;
use waterwheel::codec::{RespCommand, RespDecoder, RespValue};

use crate::RedisServer;
use crate::program::{Program, WAIT_LIMIT};

pub(crate) trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

pub(crate) struct RawClient {
    stream: Box<dyn Stream>,
    unread: Vec<u8>,
    decoder: RespDecoder,
}

impl RawClient {
    pub(crate) fn of_example(redis: &Program) -> Self {
        Self::new(redis.connect())
    }

    pub(crate) fn of_server(server: &RedisServer) -> Self {
        let stream = UnixStream::connect(server.path()).unwrap();
        stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
        Self::new(stream)
    }

    pub(crate) fn of_stream(stream: &TcpStream) -> Self {
        Self::new(stream.try_clone().unwrap())
    }

    fn new(stream: impl Stream + 'static) -> Self {
        Self { stream: Box::new(stream), unread: Vec::new(), decoder: RespDecoder::default() }
    }

    pub(crate) fn send(&mut self, commands: &[Vec<String>]) {
        let wire: Vec<_> = commands.iter().map(|words| RespCommand::new(words)).collect();
        let wire: Vec<_> = wire.iter().flat_map(|command| command.wire().to_vec()).collect();
        self.stream.write_all(&wire).unwrap();
    }

    pub(crate) fn reply(&mut self) -> RespValue {
        loop {
            let mut bytes = Bytes::copy_from_slice(&self.unread);
            if let Some(value) = self.decoder.next_value(&mut bytes).unwrap() {
                self.unread = bytes.to_vec();
                return value;
            }
            let mut more = [0; 65536];
            let read = self.stream.read(&mut more).unwrap();
            assert!(read > 0, "the connection ended before a reply: {:?}", self.unread);
            self.unread.extend_from_slice(&more[..read]);
        }
    }

    /// Sends a command given as a line of words, and returns its reply.
    pub(crate) fn ask(&mut self, line: &str) -> RespValue {
        self.send(&[words(line)]);
        self.reply()
    }

    /// Sends the command again and again until it has this reply.
    #[allow(clippy::disallowed_methods, reason = "a limit for a wait for another process")]
    pub(crate) fn ask_until(&mut self, line: &str, expected: &RespValue) {
        let begin = Instant::now();
        loop {
            let reply = self.ask(line);
            if reply == *expected {
                return;
            }
            assert!(begin.elapsed() < WAIT_LIMIT, "the reply to {line} is still {reply:?}");
        }
    }
}

pub(crate) fn words(line: &str) -> Vec<String> {
    line.split(' ').map(String::from).collect()
}

pub(crate) fn text(value: &str) -> RespValue {
    RespValue::bulk(value.to_owned())
}
