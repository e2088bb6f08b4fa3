//! A client of server-sent events.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::connect;

/// A client of server-sent events.
pub(crate) struct EventClient {
    reader: BufReader<TcpStream>,
    text: String,
}

/// An event.
#[derive(Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    pub(crate) data: Value,
}

impl EventClient {
    /// Connects, with these lines of fields, each with its end.
    pub(crate) fn connect(to: SocketAddr, target: &str, fields: &str) -> Self {
        let mut reader = BufReader::new(connect(to));
        let head = format!("GET {target} HTTP/1.1\r\nHost: gateway\r\n{fields}\r\n");
        reader.get_mut().write_all(head.as_bytes()).unwrap();
        let mut status = String::new();
        reader.read_line(&mut status).unwrap();
        assert!(status.starts_with("HTTP/1.1 200 "), "{status}");
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line == "\r\n" {
                break;
            }
        }
        Self { reader, text: String::new() }
    }

    /// Reads the next event; `None` at the end.
    pub(crate) fn try_next(&mut self) -> Option<Event> {
        loop {
            let block = self.block()?;
            if !block.starts_with(':') {
                return Some(parse(&block));
            }
        }
    }

    /// Reads a comment.
    pub(crate) fn next_comment(&mut self) {
        let block = self.block().expect("a comment");
        assert!(block.starts_with(':'), "{block}");
    }

    /// Reads an event or a comment.
    fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(block);
            }
            let chunk = self.chunk()?;
            self.text.push_str(&chunk);
        }
    }

    #[track_caller]
    pub(crate) fn next(&mut self) -> Event {
        self.try_next().expect("an event")
    }

    fn chunk(&mut self) -> Option<String> {
        let mut size = String::new();
        self.reader.read_line(&mut size).expect("a chunk");
        let size = usize::from_str_radix(size.trim(), 16).ok().filter(|size| *size > 0)?;
        let mut chunk = vec![0; size + 2];
        self.reader.read_exact(&mut chunk).expect("the chunk");
        chunk.truncate(size);
        Some(String::from_utf8(chunk).unwrap())
    }
}

fn parse(event: &str) -> Event {
    let fields = || event.lines().filter_map(|line| line.split_once(": "));
    let field = |wanted| fields().find(|(name, _)| *name == wanted).map(|(_, value)| value);
    let data = field("data").expect("data");
    Event {
        name: field("event").unwrap_or("message").to_owned(),
        id: field("id").map(str::to_owned),
        data: serde_json::from_str(data).expect("JSON"),
    }
}
