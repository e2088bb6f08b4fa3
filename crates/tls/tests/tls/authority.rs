//! Certificates with an issuer, and links that are made with them.

use std::fs;
use std::path::PathBuf;

use waterwheel_channel::ChannelOptions;
use waterwheel_tls::rustls::pki_types::pem::PemObject;
use waterwheel_tls::rustls::pki_types::{CertificateDer, ServerName};
use waterwheel_tls::{ClientTls, ServerTls, TlsHandler};

use crate::support::{End, Link};

/// An authority, and what it signs.
pub(crate) struct Authority {
    pub(crate) issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    pub(crate) certificate: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        Self::named("the authority")
    }

    pub(crate) fn named(name: &str) -> Self {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { issuer: rcgen::Issuer::new(params, key), certificate }
    }

    /// Returns a certificate for these names and its key, as PEM text.
    pub(crate) fn sign(
        &self,
        names: &[&str],
        kind: &'static rcgen::SignatureAlgorithm,
    ) -> (String, String) {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let params = rcgen::CertificateParams::new(names).unwrap();
        let key = rcgen::KeyPair::generate_for(kind).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    pub(crate) fn ecdsa(&self, names: &[&str]) -> (String, String) {
        self.sign(names, &rcgen::PKCS_ECDSA_P256_SHA256)
    }

    pub(crate) fn trusting_client(&self) -> ClientTls {
        ClientTls::builder().trust_pem("roots", self.certificate.as_bytes()).build().unwrap()
    }
}

pub(crate) fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

/// Returns a link whose client asks for `name`, after the handshake.
pub(crate) fn connect(server: &ServerTls, client: &ClientTls, name: &str) -> Link {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let end = |tls| End::new(tls, ChannelOptions::default());
    let mut link = Link {
        client: end(TlsHandler::client(client.clone(), name)),
        server: end(TlsHandler::server(server.clone())),
        cut: usize::MAX,
    };
    link.exchange();
    link
}

/// Returns the certificate that a client which asks for `name` accepts.
pub(crate) fn presented(
    server: &ServerTls,
    client: &ClientTls,
    name: &str,
) -> CertificateDer<'static> {
    let mut link = connect(server, client, name);
    let Some(handshake) = link.client.events.handshake() else {
        panic!("{name}: {:?}", link.client.channel.read_error());
    };
    handshake.peer_certificates[0].clone()
}

/// Two files in a directory of the test's own.
pub(crate) struct Files(pub(crate) PathBuf, pub(crate) PathBuf);

impl Files {
    pub(crate) fn new(test: &str) -> Self {
        let at = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
        fs::create_dir_all(&at).unwrap();
        Self(at.join("server.crt"), at.join("server.key"))
    }

    pub(crate) fn write(&self, (certificate, key): &(String, String)) {
        fs::write(&self.0, certificate).unwrap();
        fs::write(&self.1, key).unwrap();
    }
}
