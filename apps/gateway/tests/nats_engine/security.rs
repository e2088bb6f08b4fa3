//! Credentials and TLS.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use waterwheel_gateway::access::secret::Secret;
use waterwheel_gateway::engine::Engine;
use waterwheel_gateway::engine::nats::options::NatsOptions;

use super::server::{JETSTREAM, NatsServer, free_address, has_nats};
use super::test_gateway::{Gateway, options};
use crate::engine_suite::{json, member, topic, wait};

#[test]
fn g08_a_token_or_a_user_with_a_password_opens_nats_and_nothing_else() {
    if !has_nats() {
        return;
    }
    let of = [
        ("authorization { token: \"s3cret\" }", None, "s3cret"),
        ("authorization { user: ann, password: \"p@s:s\" }", Some("ann"), "p@s:s"),
    ];
    for (config, user, right) in of {
        let server = NatsServer::with_config(&format!("{JETSTREAM}{config}\n"));
        let with = |user: Option<&str>, password: &str| NatsOptions {
            user: user.map(str::to_owned),
            password: Some(Secret::new(password)),
            ..options(&server.url())
        };
        let gateway = Gateway::with_options(with(user, right));
        gateway.wait_connected();
        gateway.publish("a", 1);
        for refused in [with(user, "wr0ng"), with(Some("bob"), right), options(&server.url())] {
            let gateway = Gateway::with_options(refused);
            gateway.wait_description("Authorization Violation");
            let status = gateway.engine.status();
            assert!(!status.is_available && !status.description.contains("wr0ng"));
        }
    }
}

/// The rights that the documentation names are enough, and those of another prefix are not.
#[test]
fn g08_a_user_of_nats_needs_the_rights_of_its_prefix_only() {
    if !has_nats() {
        return;
    }
    let config = format!(
        "{JETSTREAM}authorization {{ users: [{{ user: ann, password: s3cret, permissions: {{\n\
         publish: [\"waterwheel.>\", \"$JS.API.STREAM.*.waterwheel\",\n\
         \"$JS.API.CONSUMER.CREATE.waterwheel\", \"$JS.FC.>\"]\n\
         subscribe: [\"waterwheel.>\", \"_INBOX.>\"] }} }}] }}\n"
    );
    let server = NatsServer::with_config(&config);
    let options = NatsOptions {
        user: Some("ann".to_owned()),
        password: Some(Secret::new("s3cret")),
        ..options(&server.url())
    };
    let (one, two) =
        (Gateway::with_options(options.clone()), Gateway::with_options(options.clone()));
    one.wait_connected();
    two.wait_connected();
    two.subscribe("a");
    // Enough that the server wants its flow to be controlled.
    let text = format!("\"{}\"", "x".repeat(10_000));
    for _ in 0..20 {
        let batch = (0..100).map(|_| json("a", &text)).collect();
        wait(one.engine.publish(batch)).unwrap();
    }
    two.sink.wait_count(2_000);
    one.engine.enter(&topic("room"), &member("c1", None));
    two.wait_presence("room", 1);
    let refused = NatsOptions { prefix: "other".to_owned(), ..options };
    Gateway::with_options(refused).wait_description("Permissions Violation");
}

#[test]
fn g08_tls_begins_behind_the_greeting_and_the_certificate_is_checked() {
    if !has_nats() {
        return;
    }
    let address = free_address();
    let (identity, other) = (certificate(address, "server"), certificate(address, "other"));
    let strange = certificate(free_address(), "strange");
    let start = |identity: &(PathBuf, PathBuf), at| {
        let files = format!("tls {{ cert_file: {:?}, key_file: {:?} }}\n", identity.0, identity.1);
        let mut server = NatsServer::at(at, &format!("{JETSTREAM}{files}"));
        server.run();
        server
    };
    let server = start(&identity, address);
    let secured = |server: &NatsServer, trusted: &(PathBuf, PathBuf)| NatsOptions {
        ca: Some(trusted.0.clone()),
        ..options(&server.url().replace("nats://", "tls://"))
    };
    let gateway = Gateway::with_options(secured(&server, &identity));
    gateway.wait_connected();
    gateway.subscribe("a");
    for n in 0..100 {
        gateway.publish("a", format!("\"{}\"", "x".repeat(n * 100)));
    }
    gateway.sink.wait_count(100);
    for (refused, reason) in [
        (options(&server.url()), "it requires TLS"),
        (secured(&server, &other), "certificate"),
        (secured(&start(&strange, free_address()), &strange), "certificate"),
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
    let ca = certificate(server.address, "unused").0;
    let url = server.url().replace("nats://", "tls://");
    let gateway = Gateway::with_options(NatsOptions { ca: Some(ca), ..options(&url) });
    gateway.wait_description("it does not offer TLS");
}

/// Makes a certificate for an address, and its key, in files.
fn certificate(address: SocketAddr, name: &str) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed([address.ip().to_string()]).unwrap();
    let directory =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("nats").join(address.port().to_string());
    fs::create_dir_all(&directory).unwrap();
    let file = |kind: &str| directory.join(format!("{name}.{kind}"));
    fs::write(file("crt"), made.cert.pem()).unwrap();
    fs::write(file("key"), made.signing_key.serialize_pem()).unwrap();
    (file("crt"), file("key"))
}
