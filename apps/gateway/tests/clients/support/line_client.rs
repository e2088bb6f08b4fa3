//! A client that speaks lines.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use super::connect;

/// A client that speaks lines.
pub(crate) struct LineClient {
    reader: BufReader<TcpStream>,
}

impl LineClient {
    pub(crate) fn connect(to: SocketAddr) -> Self {
        Self { reader: BufReader::new(connect(to)) }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.reader.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    pub(crate) fn say(&mut self, line: &str) {
        self.send(format!("{line}\n"));
    }

    /// Reads a line; `None` at the end.
    pub(crate) fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("a line, or the end");
        line.pop().map(|end| {
            assert_eq!(end, '\n', "a line ends: {line:?}");
            line
        })
    }

    #[track_caller]
    pub(crate) fn expect(&mut self, line: &str) {
        assert_eq!(self.hear().as_deref(), Some(line));
    }

    /// Sends a line, and returns the reply.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.hear().expect("a reply")
    }

    /// Asserts that the rest is this, and then the end.
    #[track_caller]
    pub(crate) fn expect_end(&mut self, last: &str) {
        self.expect(last);
        assert_eq!(self.hear(), None);
    }

    pub(crate) fn finish(&mut self) {
        self.reader.get_ref().shutdown(Shutdown::Write).unwrap();
    }
}
