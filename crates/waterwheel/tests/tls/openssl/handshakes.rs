//! Negotiation of keys, groups, names and protocols, and data both ways.

use std::process::Command;

use rcgen::SignatureAlgorithm;
use waterwheel::tls::rustls::{NamedGroup, ProtocolVersion};

use super::{SServer, only, s_client};
use crate::support::certificates::Authority;
use crate::support::endpoints::{Client, Server, Service, one_loop};
use crate::support::peer_program::PeerProgram;
use crate::support::{NAME, VERSIONS, unequal_bytes, unequal_lines};

/// The kinds of keys that certificates have, and that rustls supports.
const KEY_KINDS: [(&str, &SignatureAlgorithm); 4] = [
    ("rsa", &rcgen::PKCS_RSA_SHA256),
    ("p256", &rcgen::PKCS_ECDSA_P256_SHA256),
    ("p384", &rcgen::PKCS_ECDSA_P384_SHA384),
    ("ed25519", &rcgen::PKCS_ED25519),
];

const MEBIBYTE: usize = 1 << 20;

#[test]
fn t09_openssl_s_client_exchanges_16_mebibytes_both_ways() {
    let authority = Authority::new("s_client_data");
    let config = authority.server().serve().alpn(["other", "echo"]).build().unwrap();
    let server = Server::start(config, Service::Echo);
    let mut input = unequal_bytes(16 * MEBIBYTE);
    input.extend_from_slice(b"bye\n");
    for version in VERSIONS {
        let mut command = s_client(&server, &authority, version);
        command.args(["-quiet", "-alpn", "echo"]);
        let mut client = PeerProgram::start(&mut command);
        client.send_in_background(input.clone());
        let result = client.finish();
        assert!(result.status.success() && !result.stderr.contains("error"), "{}", result.stderr);
        assert!(result.stdout == input, "{version:?}: {} bytes came back", result.stdout.len());
        let handshake = server.observer.handshake();
        assert_eq!(handshake.version, Some(version));
        assert_eq!(handshake.server_name.as_deref(), Some(NAME));
        assert_eq!(handshake.alpn.as_deref(), Some(&b"echo"[..]));
        server.observer.expect_end();
    }
}

#[test]
fn t09_openssl_s_server_exchanges_16_mebibytes_both_ways() {
    let authority = Authority::new("s_server_data");
    let group = one_loop();
    let lines = unequal_lines(16 * MEBIBYTE);
    let mut reversed = lines.clone();
    for line in reversed.chunks_mut(64) {
        let text = line.len() - 1;
        line[..text].reverse();
    }
    for version in VERSIONS {
        let server =
            SServer::start(&authority.server(), &["-rev", "-alpn", "lines", only(version)]);
        let config = authority.trusting_client().alpn(["other", "lines"]).build().unwrap();
        let client = Client::connect(&group, server.address, &config);
        client.send(lines.clone());
        let handshake = client.observer.handshake();
        assert_eq!(handshake.version, Some(version));
        assert_eq!(handshake.alpn.as_deref(), Some(&b"lines"[..]));
        assert!(client.observer.read(lines.len()) == reversed, "{version:?}");
        client.close();
    }
}

#[test]
fn t09_openssl_s_client_may_send_many_small_records() {
    let authority = Authority::new("s_client_small_records");
    let server = Server::start(authority.server().serve().build().unwrap(), Service::Echo);
    let mut input = unequal_bytes(MEBIBYTE);
    input.extend_from_slice(b"bye\n");
    for version in VERSIONS {
        let mut command = s_client(&server, &authority, version);
        let mut client = PeerProgram::start(command.args(["-quiet", "-max_send_frag", "512"]));
        client.send_in_background(input.clone());
        let result = client.finish();
        assert!(result.stdout == input, "{} bytes; {}", result.stdout.len(), result.stderr);
        server.observer.handshake();
        server.observer.expect_end();
    }
}

#[test]
fn t09_openssl_s_client_accepts_every_kind_of_key_behind_an_intermediate() {
    let authority = Authority::new("s_client_keys");
    let intermediate = authority.intermediate();
    for (kind, algorithm) in KEY_KINDS {
        let identity = intermediate.identity(kind, algorithm, &[NAME]);
        let server = Server::start(identity.serve().build().unwrap(), Service::Echo);
        for version in VERSIONS {
            let mut client = PeerProgram::start(&mut s_client(&server, &authority, version));
            client.send(b"bye\n");
            let text = client.finish().expect_success();
            assert!(text.contains("Verify return code: 0 (ok)"), "{kind}: {text}");
            assert_eq!(server.observer.handshake().version, Some(version), "{kind}");
            server.observer.expect_end();
        }
    }
}

#[test]
fn t09_a_client_accepts_every_kind_of_key_of_s_server_behind_an_intermediate() {
    let authority = Authority::new("s_server_keys");
    let intermediate = authority.intermediate();
    let config = authority.trusting_client().build().unwrap();
    let group = one_loop();
    // openssl 3.0 reads no Ed25519 key in the form that rcgen writes.
    for (kind, algorithm) in &KEY_KINDS[..3] {
        let identity = intermediate.identity(kind, algorithm, &[NAME]);
        for version in VERSIONS {
            let chain = identity.chain.to_str().unwrap();
            let options = ["-rev", only(version), "-cert_chain", chain];
            let server = SServer::start(&identity, &options);
            let client = Client::connect(&group, server.address, &config);
            client.send("wheel\n");
            let handshake = client.observer.handshake();
            assert_eq!(handshake.version, Some(version), "{kind}");
            assert!(handshake.peer_certificates.len() >= 2, "{kind}: the intermediate too");
            assert_eq!(client.observer.read(6), b"leehw\n", "{kind}");
            client.close();
        }
    }
}

/// Each side is made to ask for another key share than the one that is offered first.
#[test]
fn t09_openssl_and_a_hello_retry_request() {
    let authority = Authority::new("retry");
    let identity = authority.server();
    let server = Server::start(identity.serve().build().unwrap(), Service::Echo);
    let mut command = s_client(&server, &authority, ProtocolVersion::TLSv1_3);
    let mut client = PeerProgram::start(command.args(["-groups", "P-521:P-384", "-msg"]));
    client.send(b"bye\n");
    let text = client.finish().expect_success();
    assert_eq!(text.matches(", ClientHello").count(), 2, "{text}");
    assert!(text.contains("Server Temp Key: ECDH, secp384r1, 384 bits"), "{text}");
    server.observer.handshake();
    server.observer.expect_end();

    let config = authority.trusting_client().build().unwrap();
    let offered = config.config().crypto_provider().kx_groups[0].name();
    assert_ne!(offered, NamedGroup::secp384r1, "another group is offered first");
    let server = SServer::start(&identity, &["-rev", "-tls1_3", "-groups", "P-384"]);
    let group = one_loop();
    let client = Client::connect(&group, server.address, &config);
    client.send("wheel\n");
    client.observer.handshake();
    assert_eq!(client.observer.read(6), b"leehw\n");
    client.close();
}

/// The name that the client asks for selects the certificate of `s_server`.
#[test]
fn t09_a_client_sends_the_name_that_s_server_chooses_by() {
    let authority = Authority::new("s_server_names");
    let other = authority.identity("other", &rcgen::PKCS_ECDSA_P256_SHA256, &["other.example"]);
    let named = authority.server();
    let (chain, key) = (named.chain.to_str().unwrap(), named.key.to_str().unwrap());
    let config = authority.trusting_client().build().unwrap();
    let group = one_loop();
    for version in VERSIONS {
        let options = ["-rev", only(version), "-servername", NAME, "-cert2", chain, "-key2", key];
        let server = SServer::start(&other, &options);
        let client = Client::connect(&group, server.address, &config);
        client.send("wheel\n");
        client.observer.handshake();
        assert_eq!(client.observer.read(6), b"leehw\n");
        client.close();
    }
}

/// Without a name and with one that the certificate has not, the server answers with the certificate it has.
#[test]
fn t09_openssl_s_client_judges_the_name_itself() {
    let authority = Authority::new("s_client_names");
    let server = Server::start(authority.server().serve().build().unwrap(), Service::Echo);
    for (options, seen) in
        [(["-noservername", "-brief"], None), (["-servername", "no.example"], Some("no.example"))]
    {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-CAfile"]).arg(&authority.root);
        command.args(["-connect", &server.address.to_string()]).args(options);
        let mut client = PeerProgram::start(&mut command);
        client.send(b"bye\n");
        client.finish().expect_success();
        assert_eq!(server.observer.handshake().server_name.as_deref(), seen);
        server.observer.expect_end();
    }
    let mut command = Command::new("openssl");
    command.args(["s_client", "-verify_return_error", "-verify_hostname", "no.example", "-CAfile"]);
    command.arg(&authority.root).args(["-connect", &server.address.to_string()]);
    let result = PeerProgram::run(&mut command);
    assert!(!result.status.success());
    assert!(result.text().contains("hostname mismatch"), "{}", result.text());
    let failure = server.observer.failure().to_string();
    assert!(failure.contains("BadCertificate"), "{failure}");
}
