//! Certificates, clients that use rustls directly, and other programs.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use waterwheel::tls::rustls::pki_types::ServerName;
use waterwheel::tls::rustls::{ClientConfig, ClientConnection, StreamOwned};
use waterwheel::tls::{ClientTls, ServerTls};

use crate::program::connect;

/// The name in every certificate.
pub(crate) const NAME: &str = "localhost";

/// A certificate that signs itself, and its key, as files.
pub(crate) struct Identity {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Identity {
    pub(crate) fn new(test: &str) -> Self {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
        let at = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
        fs::create_dir_all(&at).unwrap();
        let (certificate, key) = (at.join("server.crt"), at.join("server.key"));
        fs::write(&certificate, made.cert.pem()).unwrap();
        fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        Self { certificate, key }
    }

    pub(crate) fn server(&self, alpn: &[&'static str]) -> ServerTls {
        let builder = ServerTls::builder().certificate_files(&self.certificate, &self.key);
        builder.alpn(alpn.to_vec()).build().unwrap()
    }

    pub(crate) fn client(&self, alpn: &[&'static str]) -> ClientTls {
        let builder = ClientTls::builder().trust_file(&self.certificate);
        builder.alpn(alpn.to_vec()).build().unwrap()
    }

    pub(crate) fn config(&self, alpn: &[&'static str]) -> Arc<ClientConfig> {
        self.client(alpn).config().clone()
    }
}

pub(crate) fn name() -> ServerName<'static> {
    ServerName::try_from(NAME).unwrap()
}

/// A client over a blocking socket.
pub(crate) type BlockingTls = StreamOwned<ClientConnection, TcpStream>;

pub(crate) fn connect_tls(to: SocketAddr, config: Arc<ClientConfig>) -> BlockingTls {
    StreamOwned::new(ClientConnection::new(config, name()).unwrap(), connect(to))
}

/// Reads up to and including a line end, byte by byte: what follows stays in the socket.
pub(crate) fn read_line(from: &mut impl Read) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        let mut byte = [0];
        match from.read(&mut byte).unwrap() {
            0 => break,
            _ => line.push(byte[0]),
        }
    }
    String::from_utf8(line).unwrap()
}

/// A socket that sends its bytes one by one.
pub(crate) struct Dribble(pub(crate) TcpStream);

impl Read for Dribble {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Dribble {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(&bytes[..bytes.len().min(1)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The outcome of another program.
pub(crate) struct ProgramOutput {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) is_success: bool,
}

/// Runs a program to its end. Its input stays open until then: openssl ends with its input.
pub(crate) fn run(program: &str, args: &[&str], input: &str) -> ProgramOutput {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}; scripts/test installs it"));
    let mut stdin = child.stdin.take().unwrap();
    // The program may have ended before.
    let _ = stdin.write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let is_success = output.status.success();
    ProgramOutput { stdout: text(output.stdout), stderr: text(output.stderr), is_success }
}

/// Runs Python, and returns its output.
pub(crate) fn run_python(script: &str, args: &[&str]) -> String {
    let output = run("python3", &[&["-c", script], args].concat(), "");
    assert!(output.is_success, "{}", output.stderr);
    output.stdout
}
