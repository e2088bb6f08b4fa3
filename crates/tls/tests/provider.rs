//! T01: the provider of the cryptography: that of the crate's features, until the process has installed one.

use std::sync::Arc;

use waterwheel_tls::rustls::crypto::CryptoProvider;
use waterwheel_tls::rustls::{CipherSuite, NamedGroup};
use waterwheel_tls::{ClientTls, ServerTls};

/// One test: what is installed stays installed.
#[test]
fn t01_the_provider_is_that_of_the_features_until_one_is_installed() {
    let made = rcgen::generate_simple_self_signed(["wheel.example".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let client = || ClientTls::builder().trust_pem("roots", certificate.as_bytes()).build();
    let server =
        || ServerTls::builder().certificate_pem(certificate.as_bytes(), key.as_bytes()).build();
    if cfg!(not(any(feature = "aws-lc-rs", feature = "ring"))) {
        let expected = "no provider of cryptography: enable the feature `aws-lc-rs` or `ring`, or \
                        install one";
        assert_eq!(server().unwrap_err().to_string(), expected);
        return;
    }
    let first: Arc<CryptoProvider> = client().unwrap().config().crypto_provider().clone();
    // ring has no key exchange that withstands quantum computers.
    let has_hybrid = first.kx_groups.iter().any(|it| it.name() == NamedGroup::X25519MLKEM768);
    assert_eq!(has_hybrid, cfg!(feature = "aws-lc-rs"));

    let suite = CipherSuite::TLS13_AES_256_GCM_SHA384;
    let mut own = CryptoProvider::clone(&first);
    own.cipher_suites.retain(|it| it.suite() == suite);
    own.install_default().unwrap();
    let suites = |provider: &CryptoProvider| {
        provider.cipher_suites.iter().map(|it| it.suite()).collect::<Vec<_>>()
    };
    assert_eq!(suites(client().unwrap().config().crypto_provider()), [suite]);
    let server = server().unwrap();
    assert_eq!(suites(server.config().unwrap().crypto_provider()), [suite]);
    // A suite that it does not have cannot be chosen.
    let missing = CipherSuite::TLS13_AES_128_GCM_SHA256;
    let error = ClientTls::builder()
        .trust_pem("roots", certificate.as_bytes())
        .cipher_suites([missing])
        .build()
        .unwrap_err();
    assert!(error.to_string().contains("TLS13_AES_128_GCM_SHA256"), "{error}");
}
