//! A blocking client that sends and receives lines.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

use crate::program::connect;

pub(crate) struct LineClient {
    stream: BufReader<TcpStream>,
}

impl LineClient {
    pub(crate) fn connect(to: SocketAddr) -> Self {
        Self { stream: BufReader::new(connect(to)) }
    }

    /// Sends lines in one write.
    pub(crate) fn send(&mut self, lines: &[&str]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// Returns the next line, or an empty text at the end of the connection.
    pub(crate) fn receive(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Ends the connection by a reset (RST).
    pub(crate) fn reset(self) {
        set_socket_linger(self.stream.get_ref(), Some(Duration::ZERO)).unwrap();
    }

    /// Sends a line, and returns the next one.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(&[line]);
        self.receive()
    }
}
