//! TLS for the clients of tests: certificates made when they run, and a stream that may be encrypted.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};

use waterwheel::tls::rustls::pki_types::ServerName;
use waterwheel::tls::rustls::{ClientConnection, StreamOwned};
use waterwheel::tls::{ClientTls, pem};

/// The name in every certificate.
pub(crate) const NAME: &str = "wheel.example";

/// A certificate that signs itself, and its key, in files of their own directory.
pub(crate) struct TlsIdentity {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl TlsIdentity {
    /// Makes a certificate in the directory of this test, under this name.
    pub(crate) fn new(test: &str, name: &str) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gateway").join(test);
        fs::create_dir_all(&directory).unwrap();
        let file = |kind: &str| directory.join(format!("{name}.{kind}"));
        let made = Self { certificate: file("crt"), key: file("key") };
        made.renew();
        made
    }

    /// Replaces the certificate and the key.
    pub(crate) fn renew(&self) {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
        fs::write(&self.certificate, made.cert.pem()).unwrap();
        fs::write(&self.key, made.signing_key.serialize_pem()).unwrap();
    }

    /// Returns the certificate in DER.
    pub(crate) fn der(&self) -> Vec<u8> {
        pem::load_certificates(&self.certificate).unwrap().remove(0).to_vec()
    }

    /// Returns the arguments that make a gateway serve it.
    pub(crate) fn arguments(&self) -> [&str; 4] {
        [
            "--tls-certificate",
            self.certificate.to_str().unwrap(),
            "--tls-key",
            self.key.to_str().unwrap(),
        ]
    }
}

/// A connection, with or without TLS. The end of one with TLS is an error unless the peer has sent close_notify.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    pub(crate) fn tls(tcp: TcpStream, server: &TlsIdentity, own: Option<&TlsIdentity>) -> Self {
        let mut config = ClientTls::builder().trust_file(&server.certificate);
        if let Some(own) = own {
            config = config.certificate_files(&own.certificate, &own.key);
        }
        let config = config.build().unwrap().config().clone();
        let name = ServerName::try_from(NAME).unwrap();
        let connection = ClientConnection::new(config, name).unwrap();
        Self::Tls(Box::new(StreamOwned::new(connection, tcp)))
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => &tls.sock,
        }
    }

    pub(crate) fn server_certificate(&self) -> Vec<u8> {
        let Self::Tls(tls) = self else { panic!("a connection with TLS") };
        tls.conn.peer_certificates().expect("the handshake is over")[0].to_vec()
    }

    pub(crate) fn finish(&mut self) {
        match self {
            Self::Plain(tcp) => tcp.shutdown(Shutdown::Write).unwrap(),
            Self::Tls(tls) => {
                tls.conn.send_close_notify();
                while tls.conn.wants_write() {
                    tls.conn.write_tls(&mut tls.sock).unwrap();
                }
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.read(buffer),
            Self::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(tcp) => tcp.flush(),
            Self::Tls(tls) => tls.flush(),
        }
    }
}
