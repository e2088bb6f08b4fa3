//! Single requests of HTTP.

use std::io::{Read, Write};
use std::net::SocketAddr;

use serde_json::Value;

use super::connect;

/// An answer of HTTP.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    /// Returns the value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields
            .into_iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the name of the error in the body.
    pub(crate) fn error(&self) -> String {
        self.json()["error"]["name"].as_str().unwrap_or("none").to_owned()
    }
}

/// Sends a request with these lines of fields, each with its end, and reads the answer.
pub(crate) fn request(
    to: SocketAddr,
    method: &str,
    target: &str,
    fields: &str,
    body: impl AsRef<[u8]>,
) -> Answer {
    let body = body.as_ref();
    let mut stream = connect(to);
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n{fields}Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // A server that refuses a body may have answered already.
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

pub(crate) fn get(to: SocketAddr, target: &str) -> Answer {
    request(to, "GET", target, "", "")
}

pub(crate) fn post(to: SocketAddr, target: &str, body: impl AsRef<[u8]>) -> Answer {
    request(to, "POST", target, "", body)
}
