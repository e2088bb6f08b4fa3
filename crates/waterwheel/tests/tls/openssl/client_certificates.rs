//! T04 with openssl: servers that want certificates of their clients.

use std::sync::Arc;

use waterwheel::tls::rustls::{AlertDescription, CertificateError, Error, ProtocolVersion};
use waterwheel::tls::{ClientCertificates, TlsError, pem};

use super::{SServer, only, s_client};
use crate::support::VERSIONS;
use crate::support::certificates::{Authority, Identity};
use crate::support::endpoints::{Client, Server, Service, one_loop};
use crate::support::peer_program::{PeerProgram, ProgramResult};

/// Connects with a certificate or without, and says "bye".
fn say_bye(
    server: &Server,
    authority: &Authority,
    version: ProtocolVersion,
    identity: Option<&Identity>,
) -> ProgramResult {
    let mut command = s_client(server, authority, version);
    if let Some(identity) = identity {
        command.args(identity.options("-cert", "-key")).arg("-cert_chain").arg(&identity.chain);
    }
    // Quiet, it does not end with its input, but with the connection.
    let mut client = PeerProgram::start(command.arg("-quiet"));
    client.send_in_background(b"bye\n".into());
    client.finish()
}

#[test]
fn t04_openssl_s_client_presents_a_certificate_where_it_is_optional_or_required() {
    let (authority, stranger) = (Authority::new("s_client_auth"), Authority::new("stranger"));
    let roots = Arc::new(pem::load_roots(&authority.root).unwrap());
    let (own, foreign) = (authority.intermediate().client(), stranger.client());
    for is_required in [false, true] {
        let clients = match is_required {
            true => ClientCertificates::Required(roots.clone()),
            false => ClientCertificates::Optional(roots.clone()),
        };
        let config = authority.server().serve().client_certificates(clients).build().unwrap();
        let server = Server::start(config, Service::Echo);
        for version in VERSIONS {
            assert_eq!(say_bye(&server, &authority, version, Some(&own)).expect_success(), "bye\n");
            let certificates = server.observer.handshake().peer_certificates;
            let chain = pem::load_certificates(&own.chain).unwrap();
            assert!(chain.iter().all(|sent| certificates.contains(sent)), "with the intermediate");
            server.observer.expect_end();

            let result = say_bye(&server, &authority, version, None);
            if is_required {
                assert_eq!(server.observer.handshake_failure(), Error::NoCertificatesPresented);
                assert!(result.stderr.contains("alert certificate required"), "{}", result.stderr);
            } else {
                assert_eq!(result.expect_success(), "bye\n");
                assert!(server.observer.handshake().peer_certificates.is_empty());
                server.observer.expect_end();
            }

            let result = say_bye(&server, &authority, version, Some(&foreign));
            let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
            assert_eq!(server.observer.handshake_failure(), unknown);
            assert!(result.stderr.contains("alert unknown ca"), "{}", result.stderr);
        }
    }
}

#[test]
fn t04_a_client_presents_a_certificate_where_s_server_wants_one() {
    let (authority, stranger) = (Authority::new("s_server_auth"), Authority::new("stranger2"));
    let (identity, own, foreign) = (authority.server(), authority.client(), stranger.client());
    let root = authority.root.to_str().unwrap();
    let group = one_loop();
    for (verify, is_required) in [("-verify", false), ("-Verify", true)] {
        for version in VERSIONS {
            let connect = |client: Option<&Identity>| {
                let mut config = authority.trusting_client();
                if let Some(client) = client {
                    config = config.certificate_files(&client.chain, &client.key);
                }
                let options = ["-rev", only(version), verify, "2", "-verify_return_error"];
                let options = [&options[..], &["-CAfile", root]].concat();
                let server = SServer::start(&identity, &options);
                let client = Client::connect(&group, server.address, &config.build().unwrap());
                client.send("wheel\n");
                (server, client)
            };
            let accepted = |client: Option<&Identity>| {
                let (_server, client) = connect(client);
                client.observer.handshake();
                assert_eq!(client.observer.read(6), b"leehw\n", "{verify} {version:?}");
                client.close();
            };
            let refused = |client: Option<&Identity>, expected: AlertDescription| {
                let (_server, client) = connect(client);
                // In TLS 1.3 the client's part of the handshake is over before the server has judged.
                let failure = match version {
                    ProtocolVersion::TLSv1_2 => client.observer.failure(),
                    _ => {
                        client.observer.handshake();
                        client.observer.failure()
                    }
                };
                let (TlsError::Handshake(error) | TlsError::Protocol(error)) = failure else {
                    panic!("{failure}");
                };
                assert_eq!(error, Error::AlertReceived(expected), "{verify} {version:?}");
            };
            accepted(Some(&own));
            refused(Some(&foreign), AlertDescription::UnknownCA);
            match (is_required, version) {
                (false, _) => accepted(None),
                (true, ProtocolVersion::TLSv1_2) => {
                    refused(None, AlertDescription::HandshakeFailure)
                }
                (true, _) => refused(None, AlertDescription::CertificateRequired),
            }
        }
    }
}
