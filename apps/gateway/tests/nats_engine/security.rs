//! Credentials and TLS.

use waterwheel::tls::ClientTls;
use waterwheel_gateway::engine::Engine;
use waterwheel_gateway::engine::nats::options::NatsOptions;

use super::server::{JETSTREAM, NatsServer, has_nats};
use super::test_gateway::{Gateway, options};
use crate::tls_identity::{NAME, TlsIdentity};

#[test]
fn g08_a_token_or_a_user_with_a_password_opens_nats_and_nothing_else() {
    if !has_nats() {
        return;
    }
    let of = [
        ("authorization { token: \"s3c:ret\" }", "s3c%3Aret", "s3c"),
        ("authorization { user: ann, password: \"p@ss\" }", "ann:p%40ss", "ann:pass"),
    ];
    for (config, right, wrong) in of {
        let server = NatsServer::with_config(&format!("{JETSTREAM}{config}\n"));
        let url = |credentials: &str| format!("nats://{credentials}@{}", server.address);
        let gateway = Gateway::with_options(options(&url(right)));
        gateway.wait_connected();
        gateway.publish("a", 1);
        for refused in [url(wrong), server.url()] {
            let gateway = Gateway::with_options(options(&refused));
            gateway.wait_description("Authorization Violation");
            assert!(!gateway.engine.status().is_available);
            assert!(
                !gateway.engine.status().description.contains(wrong),
                "the password is not shown"
            );
        }
    }
}

#[test]
fn g08_tls_begins_behind_the_greeting_and_the_certificate_is_checked() {
    if !has_nats() {
        return;
    }
    let (identity, other) = (TlsIdentity::new("nats", "server"), TlsIdentity::new("nats", "other"));
    let files =
        format!("tls {{ cert_file: {:?}, key_file: {:?} }}\n", identity.certificate, identity.key);
    let server = NatsServer::with_config(&format!("{JETSTREAM}{files}"));
    let secured = |trusted: &TlsIdentity, name: &str| {
        let tls = ClientTls::builder().trust_file(&trusted.certificate).build().unwrap();
        NatsOptions { tls: Some(tls), tls_name: Some(name.to_owned()), ..options(&server.url()) }
    };
    let gateway = Gateway::with_options(secured(&identity, NAME));
    gateway.wait_connected();
    gateway.subscribe("a");
    for n in 0..100 {
        gateway.publish("a", format!("\"{}\"", "x".repeat(n * 100)));
    }
    gateway.sink.wait_count(100);
    for (refused, reason) in [
        (options(&server.url()), "it requires TLS"),
        (secured(&other, NAME), "certificate"),
        (secured(&identity, "other.example"), "certificate"),
    ] {
        let gateway = Gateway::with_options(refused);
        gateway.wait_description(reason);
        assert!(!gateway.engine.status().is_available);
    }
}

#[test]
fn g08_a_server_without_tls_is_refused_if_tls_is_wanted() {
    if !has_nats() {
        return;
    }
    let server = NatsServer::start();
    let tls = ClientTls::builder().trust_system_roots().build();
    let Ok(tls) = tls else { return println!("not tested: this system has no roots") };
    let wanted = NatsOptions { tls: Some(tls), ..options(&server.url()) };
    let gateway = Gateway::with_options(wanted);
    gateway.wait_description("it does not offer TLS");
}
