//! T01, T04: builders of configurations, and errors that name the file and the reason.

use std::fs;
use std::path::PathBuf;

use waterwheel_tls::{ClientTls, ServerTls, TlsConfigError, TlsOptions, pem};

/// A directory for the files of one test.
fn directory(test: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn t01_a_server_is_built_from_files() {
    let made = rcgen::generate_simple_self_signed(["wheel.example".into()]).unwrap();
    let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let at = directory("t01_files");
    let (cert_file, key_file) = (at.join("server.crt"), at.join("server.key"));
    fs::write(&cert_file, &cert).unwrap();
    fs::write(&key_file, &key).unwrap();
    let config = ServerTls::builder().certificate_files(&cert_file, &key_file).build().unwrap();
    assert_eq!(config.config().unwrap().max_early_data_size, 0, "early data is off");
    assert!(!config.config().unwrap().key_log.will_log("CLIENT_RANDOM"), "the key log is off");
    ClientTls::builder().trust_file(&cert_file).build().unwrap();
    assert_eq!(pem::load_certificates(&cert_file).unwrap().len(), 1);
    pem::load_private_key(&key_file).unwrap();
    assert_eq!(pem::load_roots(&cert_file).unwrap().len(), 1);

    // A file that has something else than wanted.
    let error = ServerTls::builder().certificate_files(&key_file, &key_file).build().unwrap_err();
    assert_eq!(error.to_string(), format!("`{}` contains no certificate", key_file.display()));
    let error = pem::load_private_key(&cert_file).unwrap_err();
    assert_eq!(error.to_string(), format!("`{}` contains no private key", cert_file.display()));

    // The key of another certificate.
    let other = rcgen::generate_simple_self_signed(["other.example".into()]).unwrap();
    let other_file = at.join("other.key");
    fs::write(&other_file, other.signing_key.serialize_pem()).unwrap();
    let error =
        ServerTls::builder().certificate_files(&cert_file, &other_file).build().unwrap_err();
    assert!(matches!(&error, TlsConfigError::InvalidIdentity { .. }), "{error}");
    assert!(error.to_string().contains("server.crt") && error.to_string().contains("other.key"));

    // A file that is cut off.
    let cut_file = at.join("cut.crt");
    fs::write(&cut_file, &cert[..cert.len() / 2]).unwrap();
    let error = pem::load_certificates(&cut_file).unwrap_err();
    assert!(matches!(&error, TlsConfigError::InvalidPem { .. }), "{error}");
    assert!(error.to_string().contains("cut.crt"), "{error}");
}

#[test]
fn t01_a_file_that_cannot_be_read_is_named() {
    let error = ServerTls::builder().certificate_files("/no/such.crt", "/no/such.key").build();
    assert_eq!(
        error.unwrap_err().to_string(),
        "cannot read `/no/such.crt`: No such file or directory (os error 2)"
    );
    let error = ClientTls::builder().trust_file("/no/roots.crt").build().unwrap_err();
    assert!(error.to_string().contains("/no/roots.crt"), "{error}");
}

#[test]
fn t01_incomplete_and_invalid_configurations_are_refused() {
    let error = ServerTls::builder().build().unwrap_err();
    assert_eq!(error.to_string(), "a TLS server needs a certificate and its key");
    let error = ClientTls::builder().build().unwrap_err();
    assert_eq!(error.to_string(), "a TLS client needs roots to trust");
    let made = rcgen::generate_simple_self_signed(["wheel.example".into()]).unwrap();
    let client = ClientTls::builder().trust_pem("roots", made.cert.pem().as_bytes());
    let error = client.alpn(["", "h2"]).build().unwrap_err();
    assert_eq!(error, TlsConfigError::InvalidAlpn { name: String::new(), length: 0 });
    let zero = std::time::Duration::ZERO;
    let error = TlsOptions::builder().handshake_timeout(zero).build().unwrap_err();
    assert!(error.to_string().contains("handshake_timeout"));
    TlsOptions::builder().close_timeout(zero).build().unwrap_err();
}
