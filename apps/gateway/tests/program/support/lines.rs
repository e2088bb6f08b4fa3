//! A client that speaks lines, over TCP or TLS.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use rustix::net::{AddressFamily, SocketType, bind, socket};

use super::LIMIT;
use super::tls::{Stream, TlsIdentity};

/// The first line of the gateway.
pub(crate) const HELLO: &str = "HELLO HELP lists the commands";

/// A client that speaks lines.
pub(crate) struct LineClient {
    reader: BufReader<Stream>,
}

impl LineClient {
    /// Connects, and is answered.
    pub(crate) fn connect(to: SocketAddr) -> Self {
        Self::connect_silently(to).greeted()
    }

    /// Says something, since a client that is silent is greeted later, and reads the greeting.
    fn greeted(mut self) -> Self {
        self.say("PING");
        self.expect(HELLO);
        self.expect("PONG");
        self
    }

    /// Connects without reading the greeting.
    pub(crate) fn connect_silently(to: SocketAddr) -> Self {
        Self::over(Stream::Plain(connect(to)))
    }

    /// Connects over TLS, trusting this identity, and is answered.
    pub(crate) fn connect_tls(to: SocketAddr, server: &TlsIdentity) -> Self {
        Self::connect_tls_silently(to, server, None).greeted()
    }

    /// Connects over TLS, with a certificate of its own if given, without reading the greeting.
    pub(crate) fn connect_tls_silently(
        to: SocketAddr,
        server: &TlsIdentity,
        own: Option<&TlsIdentity>,
    ) -> Self {
        Self::over(Stream::tls(connect(to), server, own))
    }

    /// Connects, over TLS if an identity is given, takes a name, and reads the greeting.
    pub(crate) fn named_by(to: SocketAddr, server: Option<&TlsIdentity>, name: &str) -> Self {
        let mut client = match server {
            Some(server) => Self::connect_tls_silently(to, server, None),
            None => Self::connect_silently(to),
        };
        client.say(&format!("USER {name}"));
        client.expect(HELLO);
        client.expect(&format!("OK hello {name}"));
        client
    }

    /// Connects, takes a name, and reads the greeting.
    pub(crate) fn named(to: SocketAddr, name: &str) -> Self {
        Self::named_by(to, None, name)
    }

    /// Wraps a connection.
    pub(crate) fn of_stream(stream: TcpStream) -> Self {
        Self::over(Stream::Plain(stream))
    }

    /// Speaks TLS over a connection, trusting this identity.
    pub(crate) fn of_tls(stream: TcpStream, server: &TlsIdentity) -> Self {
        Self::over(Stream::tls(stream, server, None))
    }

    fn over(stream: Stream) -> Self {
        Self { reader: BufReader::new(stream) }
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.reader.get_ref().tcp()
    }

    /// Returns the certificate of the gateway, in DER.
    pub(crate) fn server_certificate(&self) -> Vec<u8> {
        self.reader.get_ref().server_certificate()
    }

    /// Sends these bytes.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("the gateway reads");
    }

    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes.as_ref())
    }

    /// Sends a line.
    pub(crate) fn say(&mut self, line: &str) {
        self.send(format!("{line}\n"));
    }

    /// Reads the next line; `None` at EOF.
    pub(crate) fn hear(&mut self) -> Option<String> {
        self.try_hear().expect("a line, or the end")
    }

    pub(crate) fn try_hear(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        assert_eq!(line.pop(), Some('\n'), "a line ends: {line:?}");
        Ok(Some(line))
    }

    /// Reads a line and asserts its text.
    pub(crate) fn expect(&mut self, line: &str) {
        assert_eq!(self.hear().as_deref(), Some(line));
    }

    /// Reads a line and asserts its beginning.
    #[track_caller]
    pub(crate) fn expect_begin(&mut self, beginning: &str) {
        let line = self.hear();
        assert!(line.as_deref().is_some_and(|line| line.starts_with(beginning)), "{line:?}");
    }

    /// Asserts EOF.
    pub(crate) fn expect_end(&mut self) {
        assert_eq!(self.hear(), None);
    }

    /// Sends a line and asserts the beginning of the reply.
    #[track_caller]
    pub(crate) fn ask(&mut self, line: &str, answer: &str) {
        self.say(line);
        let heard = self.hear();
        let is_expected = heard.as_deref().is_some_and(|heard| heard.starts_with(answer));
        assert!(is_expected, "to {line:?}: {heard:?}");
    }

    /// Shuts down the output: with close_notify, if there is TLS.
    pub(crate) fn finish(&mut self) {
        self.reader.get_mut().finish();
    }
}

/// Connects, with limits for every wait.
pub(crate) fn connect(to: SocketAddr) -> TcpStream {
    try_connect(to).expect("the gateway listens")
}

pub(crate) fn try_connect(to: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Connects from an address of loopback.
pub(crate) fn connect_from(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    rustix::net::connect(&socket, &to).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}
