//! Fuzzes a client and a server that speak TLS with each other: writes, closes, stalls and damaged records in any order.
//! The rules, and the operations that the input stands for, are those of `support/tls_operations`.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use waterwheel_tls::rustls::client::Resumption;
use waterwheel_tls::rustls::crypto::ring::default_provider;
use waterwheel_tls::rustls::version::{TLS12, TLS13};
use waterwheel_tls::rustls::{
    ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion, pki_types::PrivateKeyDer,
};
use waterwheel_tls::{ClientTls, ServerTls};

#[path = "../../../support/tls_operations/mod.rs"]
mod tls_operations;

const NAME: &str = "wheel.example";

static CONFIGS: LazyLock<[(ServerTls, ClientTls); 2]> =
    LazyLock::new(|| [&TLS13, &TLS12].map(configs));

fuzz_target!(|data: &[u8]| tls_operations::run(&CONFIGS, NAME, data));

/// Returns configurations of one version. Without resumption, so that an input does not depend on those before it.
fn configs(version: &'static SupportedProtocolVersion) -> (ServerTls, ClientTls) {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(default_provider());
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.resumption = Resumption::disabled();
    (server.into(), client.into())
}
