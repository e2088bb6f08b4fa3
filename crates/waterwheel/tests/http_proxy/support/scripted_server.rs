//! A server whose answers a test writes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use crate::program::WAIT_LIMIT;

/// Listens on a free port, and calls a function on a thread of its own for each connection.
pub(crate) struct ScriptedServer {
    pub(crate) address: SocketAddr,
}

impl ScriptedServer {
    /// A panic of the script ends its connection: the test sees no answer, and the reason on standard error.
    pub(crate) fn start(script: impl Fn(&mut ScriptedConnection) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let script = Arc::new(script);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, script) = (stream.unwrap(), script.clone());
                thread::spawn(move || script(&mut ScriptedConnection::new(stream)));
            }
        });
        Self { address }
    }

    /// Starts a server that answers every request with the same bytes.
    pub(crate) fn answering(answer: &'static str) -> Self {
        Self::start(move |connection| {
            while connection.read_head().is_some() {
                connection.send(answer);
            }
        })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// A connection of a scripted server.
pub(crate) struct ScriptedConnection {
    stream: BufReader<TcpStream>,
}

impl ScriptedConnection {
    fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
        stream.set_write_timeout(Some(WAIT_LIMIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    /// Reads the head of a request, with the empty line; `None` at the end of the connection.
    pub(crate) fn read_head(&mut self) -> Option<String> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head).ok()? == 0 {
                assert!(head.is_empty(), "the head is not complete: {head}");
                return None;
            }
        }
        Some(head)
    }

    pub(crate) fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn read_bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Reads what there is, at most this many bytes; nothing at the end of the connection.
    pub(crate) fn read_some(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let read = self.stream.read(&mut bytes).unwrap();
        bytes.truncate(read);
        bytes
    }

    /// Waits until the client has closed the connection, in order or not.
    pub(crate) fn wait_for_close(&mut self) {
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) => {
                    let is_late = error.kind() == io::ErrorKind::WouldBlock;
                    assert!(!is_late, "the connection is open after {WAIT_LIMIT:?}");
                    return;
                }
            }
        }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    /// Finishes sending.
    pub(crate) fn finish(&self) {
        self.stream().shutdown(Shutdown::Write).unwrap();
    }
}

impl Read for ScriptedConnection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}
