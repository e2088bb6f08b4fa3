//! A reader of server-sent events, which resumes as browsers do.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use super::lines::try_connect;

/// An open stream of events.
pub(crate) struct EventReader {
    reader: BufReader<TcpStream>,
}

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReceivedEvent {
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    pub(crate) data: String,
}

impl EventReader {
    /// Opens the stream of a topic, after the event of this id.
    pub(crate) fn open(from: SocketAddr, topic: &str, last: Option<&str>) -> io::Result<Self> {
        Self::open_path(from, &format!("/events?topic={topic}"), last)
    }

    /// Opens the stream at a path.
    pub(crate) fn open_path(from: SocketAddr, path: &str, last: Option<&str>) -> io::Result<Self> {
        let mut stream = try_connect(from)?;
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let head = format!("GET {path} HTTP/1.1\r\nHost: gateway\r\n{last}\r\n");
        stream.write_all(head.as_bytes())?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if !line.starts_with("HTTP/1.1 200 ") {
            return Err(io::Error::other(format!("refused: {line:?}")));
        }
        while !line.trim_end().is_empty() {
            line.clear();
            reader.read_line(&mut line)?;
        }
        Ok(Self { reader })
    }

    /// Reads the next event; `None` at the end. Lines that are no fields, such as sizes of chunks, are skipped.
    pub(crate) fn next(&mut self) -> io::Result<Option<ReceivedEvent>> {
        let mut event = ReceivedEvent { name: "message".to_owned(), ..ReceivedEvent::default() };
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            let line = line.trim_end_matches(['\r', '\n']);
            match line.split_once(':') {
                Some(("event", name)) => event.name = name.trim_start().to_owned(),
                Some(("id", id)) => event.id = Some(id.trim_start().to_owned()),
                Some(("data", data)) => event.data = data.trim_start().to_owned(),
                None if line.is_empty() && !event.data.is_empty() => return Ok(Some(event)),
                _ => {}
            }
        }
    }
}
