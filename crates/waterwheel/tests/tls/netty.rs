//! Netty's SslHandler, as client and as server: the program in NettyPeer.java, with the JDK's implementation of TLS.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use waterwheel::tls::rustls::ProtocolVersion;

use crate::support::certificates::Authority;
use crate::support::endpoints::{Client, Server, Service, one_loop};
use crate::support::peer_program::PeerProgram;
use crate::support::{NAME, VERSIONS, unequal_bytes};

/// The jars of Debian's libnetty-java.
const JARS: [&str; 6] = ["buffer", "codec", "common", "handler", "resolver", "transport"];

/// The directory of the compiled program. Compiled once for all tests.
static CLASSES: LazyLock<PathBuf> = LazyLock::new(|| {
    let classes = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tls/netty_classes");
    std::fs::create_dir_all(&classes).unwrap();
    for jar in jars() {
        assert!(Path::new(&jar).exists(), "{jar} is missing; scripts/test installs libnetty-java");
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/NettyPeer.java");
    let mut command = Command::new("javac");
    command.args(["-cp", &jars().join(":"), "-d"]).arg(&classes).arg(source);
    PeerProgram::run(&mut command).expect_success();
    classes
});

fn jars() -> [String; 6] {
    JARS.map(|jar| format!("/usr/share/java/netty-{jar}.jar"))
}

/// Returns a command that runs the program; quick to start rather than quick to run.
fn netty_peer() -> Command {
    let classes = CLASSES.to_str().unwrap();
    let mut command = Command::new("java");
    command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]);
    command.arg(format!("{classes}:{}", jars().join(":"))).arg("NettyPeer");
    command
}

fn java_name(version: ProtocolVersion) -> &'static str {
    match version {
        ProtocolVersion::TLSv1_2 => "TLSv1.2",
        _ => "TLSv1.3",
    }
}

#[test]
fn t09_a_netty_client_echoes_a_mebibyte_and_closes_in_order() {
    let authority = Authority::new("netty_client");
    let config = authority.server().serve().alpn(["echo"]).build().unwrap();
    let server = Server::start(config, Service::Echo);
    let mut command = netty_peer();
    command.args(["client", &server.port(), NAME]).arg(&authority.root).arg("1048576");
    command.args(VERSIONS.map(java_name));
    let output = PeerProgram::run(&mut command).expect_success();
    let expected = "TLSv1.2 echo 1048576 close_notify\nTLSv1.3 echo 1048576 close_notify\n";
    assert_eq!(output, expected);
    for version in VERSIONS {
        let handshake = server.observer.handshake();
        assert_eq!(handshake.version, Some(version));
        assert_eq!(handshake.server_name.as_deref(), Some(NAME));
        assert_eq!(handshake.alpn.as_deref(), Some(&b"echo"[..]));
        server.observer.expect_peer_closed();
    }
}

#[test]
fn t09_a_client_echoes_a_mebibyte_at_a_netty_server_and_resumes() {
    let authority = Authority::new("netty_server");
    let identity = authority.server();
    let group = one_loop();
    let data = unequal_bytes(1 << 20);
    for version in VERSIONS {
        let mut command = netty_peer();
        command.arg("server").arg(&identity.chain).arg(&identity.key);
        let mut server = PeerProgram::start(command.args([java_name(version), "2"]));
        let port: u16 = server.wait_for_line("port ").parse().unwrap();
        let config = authority.trusting_client().alpn(["echo"]).build().unwrap();
        for number in 0..2 {
            let client = Client::connect(&group, ([127, 0, 0, 1], port).into(), &config);
            client.send(data.clone());
            let handshake = client.observer.handshake();
            assert_eq!((handshake.version, handshake.is_resumed), (Some(version), number > 0));
            assert_eq!(handshake.alpn.as_deref(), Some(&b"echo"[..]));
            assert!(client.observer.read(data.len()) == data);
            client.close();
            let seen = server.wait_for_line(&format!("{} echo ", java_name(version)));
            assert_eq!(seen, "1048576 close_notify", "{version:?}, connection {number}");
        }
        server.finish().expect_success();
    }
}
