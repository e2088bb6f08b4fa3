//! T07: secrets are logged where an option says so, and nowhere else.
//!
//! The environment is that of a child: the test starts its own program again with the variable set.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use waterwheel_testkit::embedded::Embedded;
use waterwheel_tls::rustls::pki_types::ServerName;
use waterwheel_tls::rustls::{CipherSuite, KeyLog};
use waterwheel_tls::{
    ClientTls, ClientTlsBuilder, ServerTls, ServerTlsBuilder, TlsConfigError, TlsHandler,
};

const NAME: &str = "wheel.example";

fn builders() -> (ServerTlsBuilder, ClientTlsBuilder) {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let server = ServerTls::builder().certificate_pem(certificate.as_bytes(), key.as_bytes());
    (server, ClientTls::builder().trust_pem("roots", certificate.as_bytes()))
}

/// Makes one handshake.
fn shake_hands(server: ServerTlsBuilder, client: ClientTlsBuilder) {
    let name = ServerName::try_from(NAME).unwrap();
    let end = |tls: TlsHandler| {
        let built = Embedded::builder().stream().build(|edit| {
            edit.add_last("tls", tls)?;
            Ok(())
        });
        built.unwrap()
    };
    let mut client = end(TlsHandler::client(client.build().unwrap(), name));
    let mut server = end(TlsHandler::server(server.build().unwrap()));
    let write = client.write_outbound(Bytes::from_static(b"hello"));
    for _ in 0..4 {
        while let Some(bytes) = client.read_outbound::<Bytes>() {
            server.write_inbound(bytes);
        }
        while let Some(bytes) = server.read_outbound::<Bytes>() {
            client.write_inbound(bytes);
        }
    }
    write.join().unwrap();
    assert_eq!(server.read_inbound::<Bytes>().unwrap(), "hello");
}

/// A path in a directory of the test's own, where no file is.
fn new_path(test: &str) -> PathBuf {
    let at = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&at);
    fs::create_dir_all(&at).unwrap();
    at.join("keys.log")
}

/// Returns the labels of the lines, and checks the form of each line.
fn labels(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    let label = |line: &str| {
        let parts: Vec<_> = line.split(' ').collect();
        let [label, random, secret] = parts[..] else { panic!("{line}") };
        let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(random.len() == 64 && is_hex(random), "{line}");
        assert!(secret.len() >= 64 && secret.len() % 2 == 0 && is_hex(secret), "{line}");
        label.to_owned()
    };
    text.lines().map(label).collect()
}

const TLS13_LABELS: [&str; 5] = [
    "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    "SERVER_HANDSHAKE_TRAFFIC_SECRET",
    "CLIENT_TRAFFIC_SECRET_0",
    "SERVER_TRAFFIC_SECRET_0",
    "EXPORTER_SECRET",
];

#[test]
fn t07_secrets_of_both_versions_are_logged_to_a_file_of_its_owner() {
    let path = new_path("t07_file");
    let (server, client) = builders();
    shake_hands(server.key_log_file(&path), client);
    assert_eq!(labels(&path), TLS13_LABELS);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    // Appended, and the same secrets on both sides.
    let (server, client) = builders();
    let suite = [CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256];
    shake_hands(server.key_log_file(&path), client.cipher_suites(suite).key_log_file(&path));
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.lines().skip(TLS13_LABELS.len()).collect();
    assert_eq!(labels(&path)[TLS13_LABELS.len()..], ["CLIENT_RANDOM", "CLIENT_RANDOM"]);
    assert_eq!(lines[0], lines[1]);
}

#[test]
fn t07_a_key_log_that_cannot_be_opened_is_an_error_and_one_that_fails_costs_nothing() {
    let (server, client) = builders();
    let error = server.key_log_file("/no/such/keys.log").build().unwrap_err();
    let reason = "No such file or directory (os error 2)".to_owned();
    let expected = TlsConfigError::Unwritable { file: "/no/such/keys.log".into(), reason };
    assert_eq!(error, expected);
    client.key_log_file("/no/such/keys.log").build().unwrap_err();
    let (server, client) = builders();
    shake_hands(server.key_log_file("/dev/full"), client);
}

/// Keeps the labels.
#[derive(Debug, Default)]
struct Collected(Mutex<Vec<String>>);

impl KeyLog for Collected {
    fn log(&self, label: &str, _: &[u8], _: &[u8]) {
        self.0.lock().unwrap().push(label.into());
    }
}

#[test]
fn t07_secrets_go_to_a_log_of_the_program() {
    let log = Arc::new(Collected::default());
    let (server, client) = builders();
    shake_hands(server, client.key_log(log.clone()));
    let logged = log.0.lock().unwrap();
    assert!(TLS13_LABELS.iter().all(|label| logged.iter().any(|it| it == label)), "{logged:?}");
}

/// Runs a test of this program in a child whose environment names a key log.
fn run_with_variable(test: &str, value: &str) {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--include-ignored"])
        .env("SSLKEYLOGFILE", value)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "in a child, with SSLKEYLOGFILE"]
fn child_without_the_option() {
    let (server, client) = builders();
    shake_hands(server, client);
}

#[test]
#[ignore = "in a child, with SSLKEYLOGFILE"]
fn child_with_the_option() {
    let (server, client) = builders();
    shake_hands(server.key_log_from_environment(), client.key_log_from_environment());
}

#[test]
fn t07_the_environment_variable_has_an_effect_with_the_option_that_names_it_only() {
    let path = new_path("t07_environment");
    run_with_variable("child_without_the_option", path.to_str().unwrap());
    assert!(!path.exists(), "no secret may be logged by accident");
    run_with_variable("child_with_the_option", path.to_str().unwrap());
    assert_eq!(labels(&path).len(), 2 * TLS13_LABELS.len());
    // An empty variable is none.
    run_with_variable("child_with_the_option", "");
}
