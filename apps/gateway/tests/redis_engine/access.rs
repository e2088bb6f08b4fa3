//! Users, passwords, and TLS.

use std::fs;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use waterwheel_gateway::access::secret::Secret;
use waterwheel_gateway::config::engine_settings::{EngineKind, EngineSettings};
use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::open::{check_engine, open_engine};
use waterwheel_gateway::engine::redis::RedisEngine;
use waterwheel_gateway::engine::redis::options::RedisOptions;
use waterwheel_gateway::engine::{Engine, EngineStatus};

use super::server::{Persistence, RedisServer, is_redis_installed};
use super::{Gateway, new_loops, wait_until};
use crate::engine_suite::{RecordingSink, is_unavailable, json, publish, wait};

/// Opens an engine that cannot connect, and returns its status when it says why.
fn status_with(options: RedisOptions, part: &str) -> EngineStatus {
    let loops = new_loops();
    let sink = Arc::new(RecordingSink::default());
    let engine = RedisEngine::open(options, HistoryLimits::default(), &loops, sink).unwrap();
    wait_until(|| engine.status().description.contains(part));
    let refused = wait(engine.publish(vec![json("a", 0)])).unwrap_err();
    assert!(is_unavailable(&refused), "{refused}");
    engine.status()
}

#[test]
fn g08_a_password_is_sent_and_a_wrong_one_is_told() {
    if !is_redis_installed() {
        return;
    }
    let server = RedisServer::with_arguments(&["--save", "", "--requirepass", "a b\"ü"]);
    let with =
        |password: &str| RedisOptions { password: Some(Secret::new(password)), ..server.options() };
    let gateway = Gateway::with_options(with("a b\"ü"));
    gateway.publish("a", 0);
    let status = status_with(with("wrong"), "WRONGPASS");
    assert!(!status.is_available && !status.description.contains("wrong\""), "{status:?}");
    status_with(server.options(), "NOAUTH");
}

#[test]
fn g08_the_engine_of_the_settings_is_opened_and_connects() {
    if !is_redis_installed() {
        return;
    }
    let server = RedisServer::with_arguments(&["--save", "", "--requirepass", "secret"]);
    let settings = EngineSettings {
        kind: EngineKind::Redis,
        url: Some(format!("redis://{}/2", server.host_and_port())),
        password: Some(Secret::new("secret")),
        prefix: "mine".to_owned(),
        ..EngineSettings::default()
    };
    let loops = new_loops();
    let open = |settings: &EngineSettings| {
        let sink = Arc::new(RecordingSink::default());
        let timeout = Duration::from_secs(5);
        open_engine(settings, HistoryLimits::default(), timeout, &loops, sink)
    };
    let engine = open(&settings).unwrap();
    assert_eq!(engine.name(), "redis");
    wait_until(|| engine.status().is_available);
    publish(&*engine, "a", 0).unwrap();
    assert_eq!(server.cli(&["-a", "secret", "-n", "2", "XLEN", "{mine}:h:a"]), "1");
    assert_eq!(open(&EngineSettings::default()).unwrap().name(), "memory");
    let without = EngineSettings { url: None, ..settings };
    assert!(open(&without).unwrap_err().to_string().contains("engine.url"));
    assert!(check_engine(&without).is_err() && check_engine(&EngineSettings::default()).is_ok());
}

#[test]
fn g08_a_user_with_the_rights_that_the_guide_names_is_enough() {
    if !is_redis_installed() {
        return;
    }
    let server = RedisServer::start(Persistence::Nothing);
    let rights = "on >secret ~{waterwheel}:* &{waterwheel}:* +@all -@admin -@dangerous +info";
    let words: Vec<&str> =
        ["ACL", "SETUSER", "gateway"].into_iter().chain(rights.split(' ')).collect();
    assert_eq!(server.cli(&words), "OK");
    let options = RedisOptions {
        user: Some("gateway".to_owned()),
        password: Some(Secret::new("secret")),
        ..server.options()
    };
    let gateway = Gateway::with_options(options.clone());
    for text in ["a", "a.*", ">"] {
        gateway.subscribe(text);
    }
    gateway.publish("a", 0);
    gateway.sink.wait_for("a", 0);
    assert_eq!(gateway.history(">", None, 10).publications.len(), 1);
    let other = RedisOptions { prefix: "other".to_owned(), ..options };
    status_with(other, "NOPERM");
}

#[test]
fn g08_tls_is_spoken_and_a_certificate_of_somebody_else_is_refused() {
    if !is_redis_installed() {
        return;
    }
    let directory =
        std::env::temp_dir().join(format!("waterwheel-redis-tls-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let identity = |name: &str, address: Ipv4Addr| {
        let made = rcgen::generate_simple_self_signed([address.to_string()]).unwrap();
        let file = |kind: &str| directory.join(format!("{name}.{kind}")).display().to_string();
        fs::write(file("crt"), made.cert.pem()).unwrap();
        fs::write(file("key"), made.signing_key.serialize_pem()).unwrap();
        (file("crt"), file("key"))
    };
    let address = RedisServer::reserve_address();
    let (certificate, key) = identity("server", address);
    let (other, _) = identity("other", address);
    let server = RedisServer::with_tls(address, &certificate, &key);
    let url = format!("rediss://{}", server.host_and_port());
    let options = RedisOptions {
        ca: Some(certificate.into()),
        timeout: Duration::from_secs(2),
        ..RedisOptions::new(url.parse().unwrap())
    };
    let gateway = Gateway::with_options(options.clone());
    gateway.subscribe("a");
    gateway.publish("a", 0);
    gateway.sink.wait_for("a", 0);
    let wrong = RedisOptions { ca: Some(other.into()), ..options.clone() };
    status_with(wrong, "certificate");
    let plain = RedisOptions { timeout: Duration::from_millis(500), ..server.options() };
    let status = status_with(plain, server.host_and_port().as_str());
    assert!(!status.is_available, "no TLS with a server that has only that");
    drop(server);
    fs::remove_dir_all(directory).unwrap();
}
