//! Requests of HTTP, written by hand.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::lines::{connect, try_connect};

/// The answer to a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Gets a path over a connection of its own.
pub(crate) fn get(from: SocketAddr, path: &str) -> HttpAnswer {
    HttpClient::connect(from).get(path)
}

/// Gets a path over a connection of its own; errors are those of the connection.
pub(crate) fn try_get(from: SocketAddr, path: &str) -> io::Result<HttpAnswer> {
    HttpClient { reader: BufReader::new(try_connect(from)?) }.try_get(path)
}

/// A connection that is kept.
pub(crate) struct HttpClient {
    reader: BufReader<TcpStream>,
}

impl HttpClient {
    pub(crate) fn connect(to: SocketAddr) -> Self {
        Self { reader: BufReader::new(connect(to)) }
    }

    /// Gets a path.
    pub(crate) fn get(&mut self, path: &str) -> HttpAnswer {
        self.try_get(path).expect("an answer")
    }

    /// Gets a path with a credential.
    pub(crate) fn get_with(&mut self, path: &str, credential: &str) -> HttpAnswer {
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {credential}\r\n\r\n"
        );
        self.reader.get_mut().write_all(head.as_bytes()).unwrap();
        self.read_answer().expect("an answer")
    }

    fn try_get(&mut self, path: &str) -> io::Result<HttpAnswer> {
        let head = format!("GET {path} HTTP/1.1\r\nHost: gateway\r\n\r\n");
        self.reader.get_mut().write_all(head.as_bytes())?;
        self.read_answer()
    }

    /// Sends these bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    /// Reads an answer that has a length.
    pub(crate) fn read_answer(&mut self) -> io::Result<HttpAnswer> {
        let mut line = self.read_line()?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status: {line:?}")))?;
        let mut length = 0;
        loop {
            line = self.read_line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").unwrap_or((&line, ""));
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse().map_err(io::Error::other)?;
            }
        }
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body)?;
        Ok(HttpAnswer { status, body: String::from_utf8(body).map_err(io::Error::other)? })
    }

    /// Reads bytes that are no answer, such as frames of a WebSocket.
    pub(crate) fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.reader.read_exact(bytes)
    }

    fn read_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }
}
