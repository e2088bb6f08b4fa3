//! Certificates for a test, as files in a directory of its own.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SignatureAlgorithm,
};
use waterwheel::tls::{ClientTls, ClientTlsBuilder, ServerTls, ServerTlsBuilder};

use super::NAME;

/// A certificate authority, whose own certificate is a file.
pub(crate) struct Authority {
    directory: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// The certificates between this authority and the root, as PEM text; empty for a root.
    chain: String,
    /// The file of the root certificate.
    pub(crate) root: PathBuf,
}

/// A certificate chain and its key, as files.
pub(crate) struct Identity {
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    /// Creates a root in a directory for the test of this name.
    pub(crate) fn new(test: &str) -> Self {
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tls").join(test);
        fs::create_dir_all(&directory).unwrap();
        let params = authority_params(&format!("root of {test}"));
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let root = directory.join("root.crt");
        fs::write(&root, issuer.pem()).unwrap();
        Self { directory, issuer, chain: String::new(), root }
    }

    /// Creates an authority below this one. The chains of its identities contain its certificate.
    pub(crate) fn intermediate(&self) -> Self {
        let (params, key) = (authority_params("intermediate"), KeyPair::generate().unwrap());
        let issuer = CertifiedIssuer::signed_by(params, key, &self.issuer).unwrap();
        let chain = issuer.pem() + &self.chain;
        Self { directory: self.directory.clone(), issuer, chain, root: self.root.clone() }
    }

    /// Creates the identity of a server called [`NAME`], with an ECDSA key.
    pub(crate) fn server(&self) -> Identity {
        self.identity("server", &rcgen::PKCS_ECDSA_P256_SHA256, &[NAME])
    }

    /// Creates the identity of a client.
    pub(crate) fn client(&self) -> Identity {
        self.identity("client", &rcgen::PKCS_ECDSA_P256_SHA256, &["client.example"])
    }

    /// Creates an identity with this kind of key. Its files are called `file`.
    pub(crate) fn identity(
        &self,
        file: &str,
        algorithm: &'static SignatureAlgorithm,
        names: &[&str],
    ) -> Identity {
        self.sign(file, algorithm, leaf_params(names))
    }

    /// Creates the identity of a server whose certificate has expired.
    pub(crate) fn expired_server(&self) -> Identity {
        let mut params = leaf_params(&[NAME]);
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        self.sign("expired", &rcgen::PKCS_ECDSA_P256_SHA256, params)
    }

    fn sign(
        &self,
        file: &str,
        algorithm: &'static SignatureAlgorithm,
        params: CertificateParams,
    ) -> Identity {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        let identity = Identity {
            chain: self.directory.join(format!("{file}.crt")),
            key: self.directory.join(format!("{file}.key")),
        };
        fs::write(&identity.chain, signed.pem() + &self.chain).unwrap();
        fs::write(&identity.key, key.serialize_pem()).unwrap();
        identity
    }

    /// Returns a file of this name in the directory of the test, without creating it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns the configuration of a client that trusts this root.
    pub(crate) fn trusting_client(&self) -> ClientTlsBuilder {
        ClientTls::builder().trust_file(&self.root)
    }
}

impl Identity {
    /// Returns the configuration of a server with this identity.
    pub(crate) fn serve(&self) -> ServerTlsBuilder {
        ServerTls::builder().certificate_files(&self.chain, &self.key)
    }

    /// Returns the options of openssl and curl for a certificate and its key.
    pub(crate) fn options<'a>(&'a self, certificate: &'a str, key: &'a str) -> [&'a Path; 4] {
        [certificate.as_ref(), &self.chain, key.as_ref(), &self.key]
    }
}

fn leaf_params(names: &[&str]) -> CertificateParams {
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, &*names[0]);
    params.subject_alt_names = CertificateParams::new(names).unwrap().subject_alt_names;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}
