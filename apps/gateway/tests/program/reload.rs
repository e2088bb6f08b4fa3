//! SIGHUP: the configuration and the files that it names are read again, and connections stay; a gateway whose terminal was
//! closed ends.

use std::fs;
use std::fs::{File, OpenOptions};

use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::support::lines::LineClient;
use super::support::process::{Process, program};
use super::support::tls::TlsIdentity;
use super::support::{http, temp};

/// Sends SIGHUP and waits for the line that says that the files were read.
fn reload(gateway: &mut Process, identity: &TlsIdentity) {
    gateway.signal(Signal::HUP);
    let line = gateway.line_with("SIGHUP");
    let (certificate, key) = (identity.certificate.display(), identity.key.display());
    let told = format!(
        "SIGHUP: new connections get the certificate of {certificate} (wheel.example) with the key of {key}"
    );
    assert!(line.starts_with(&told), "{line}");
}

#[test]
fn t04_new_connections_get_the_new_certificate_and_others_stay() {
    let identity = TlsIdentity::new("reload", "server");
    let mut gateway = Process::start_logged(&identity.arguments());
    let before = identity.der();
    let mut old = LineClient::named_by(gateway.address, Some(&identity), "old");
    assert_eq!(old.server_certificate(), before);
    for round in 0..3 {
        identity.renew();
        reload(&mut gateway, &identity);
        old.ask("PING", "PONG");
        // Trusts the new certificate alone.
        let mut new =
            LineClient::named_by(gateway.address, Some(&identity), &format!("new{round}"));
        assert_eq!(new.server_certificate(), identity.der());
        assert_ne!(identity.der(), before);
        new.ask("PUSH old hello", "OK");
        old.expect(&format!("PUSH new{round} hello"));
    }
    gateway.signal(Signal::TERM);
    old.expect_begin("BYE this gateway is shutting down");
    old.expect_end();
    drop(old);
    let (status, log) = gateway.wait_for_log();
    assert!(status.success(), "{status}: {log}");
    assert!(log.lines().all(|line| line.contains("level=info")), "{log}");
}

#[test]
fn t04_a_reload_that_fails_changes_nothing_and_names_the_file() {
    let (identity, other) =
        (TlsIdentity::new("broken", "server"), TlsIdentity::new("broken", "other"));
    let mut gateway = Process::start_logged(&identity.arguments());
    let (certificate, key) = (identity.der(), fs::read(&identity.key).unwrap());
    let [_, certificate_file, _, key_file] = identity.arguments();
    let mismatch = format!(
        "the certificate of `{certificate_file}` and the key of `{key_file}` cannot be used: "
    );
    let broken = [
        (b"no key".to_vec(), format!("`{key_file}` contains no private key")),
        (fs::read(&other.key).unwrap(), mismatch),
    ];
    for (content, reason) in broken {
        fs::write(&identity.key, content).unwrap();
        gateway.signal(Signal::HUP);
        let line = gateway.log_with("SIGHUP");
        assert!(line.contains(&format!("SIGHUP: stays as it was: {reason}")), "{line}");
        let client = LineClient::connect_tls(gateway.address, &identity);
        assert_eq!(client.server_certificate(), certificate);
    }
    fs::remove_file(&identity.key).unwrap();
    gateway.signal(Signal::HUP);
    let line = gateway.log_with("SIGHUP");
    assert!(line.contains(&format!("cannot read `{key_file}`: No such file")), "{line}");
    fs::write(&identity.key, key).unwrap();
    reload(&mut gateway, &identity);
}

#[test]
fn t04_a_reload_changes_the_authorities_of_clients_too() {
    let identity = TlsIdentity::new("reload_ca", "server");
    let client = TlsIdentity::new("reload_ca", "client");
    let authority = client.certificate.with_file_name("authority.crt");
    fs::copy(&client.certificate, &authority).unwrap();
    let ca = ["--tls-client-ca", authority.to_str().unwrap()];
    let mut gateway = Process::start_logged(&[&identity.arguments()[..], &ca].concat());
    let connect = |gateway: &Process| {
        let mut client =
            LineClient::connect_tls_silently(gateway.address, &identity, Some(&client));
        client.try_hear().map(|line| (line, client))
    };
    let (_, mut old) = connect(&gateway).unwrap();
    fs::copy(&identity.certificate, &authority).unwrap();
    reload(&mut gateway, &identity);
    let error = connect(&gateway).err().expect("its authority is no longer trusted");
    assert!(error.to_string().contains("received fatal alert"), "{error}");
    old.ask("PING", "PONG");
}

#[test]
fn g06_a_reload_applies_keys_of_access_and_names_what_waits_for_a_restart() {
    const KEY: &str = "0123456789abcdef0123";
    let file = temp::folder("reload_config").join("gateway.toml");
    fs::write(&file, "drain = \"10s\"\n").unwrap();
    let mut gateway = Process::start_logged(&["--config", file.to_str().unwrap()]);
    let mut before = LineClient::named(gateway.address, "ann");
    fs::write(&file, format!("drain = \"20s\"\n[admin]\nkey = \"{KEY}\"\n")).unwrap();
    gateway.signal(Signal::HUP);
    let line = gateway.log_with("SIGHUP");
    assert!(line.contains("changes that wait for a restart: drain"), "{line}");
    let line = gateway.line_with("SIGHUP");
    assert!(line.ends_with("; clients without a credential are refused"), "{line}");
    assert_eq!(http::get(gateway.address, "/metrics").status, 401);
    let mut client = http::HttpClient::connect(gateway.address);
    assert_eq!(client.get_with("/metrics", KEY).status, 200);
    before.ask("SUB news", "OK ");
    fs::write(&file, "drian = \"20s\"\nport = 70000\n").unwrap();
    gateway.signal(Signal::HUP);
    let path = file.display();
    for problem in [
        format!("nothing was reloaded: {path}:1: there is no key drian; drain is the nearest one"),
        format!("nothing was reloaded: {path}:2: port = 70000 is not accepted"),
    ] {
        let line = gateway.log_with("SIGHUP");
        assert!(line.contains(&problem), "{problem} in {line}");
    }
    assert_eq!(client.get_with("/metrics", KEY).status, 200, "as before");
}

/// Returns the two ends of a terminal.
fn terminal() -> (File, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    // NOCTTY: the kernel must not hang up this process with it.
    let flags = rustix::fs::OFlags::NOCTTY.bits() as i32;
    let mut options = OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::custom_flags(options.read(true).write(true), flags);
    (File::from(master), options.open(name).unwrap())
}

#[test]
fn g06_a_gateway_whose_terminal_was_closed_ends_in_order() {
    let (master, slave) = terminal();
    let mut command = program();
    command.stderr(slave.try_clone().unwrap());
    drop(slave);
    let mut gateway = Process::start_from(command, &[]);
    let mut client = LineClient::named(gateway.address, "ann");
    gateway.signal(Signal::HUP);
    let line = gateway.line_with("SIGHUP");
    assert!(line.starts_with("SIGHUP: the configuration was read again; "), "{line}");
    drop(master);
    gateway.signal(Signal::HUP);
    client.expect_begin("BYE this gateway is shutting down");
    client.expect_end();
    let line = gateway.line_with("delivering");
    assert!(line.starts_with("the terminal was closed: delivering what was published"), "{line}");
    drop(client);
    assert_eq!(gateway.wait().0.code(), Some(0));
}
