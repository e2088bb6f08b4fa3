//! SIGHUP: the files of TLS are read again, and connections stay; without TLS nothing happens; a gateway whose
//! terminal was closed ends.

mod support;

use std::fs;
use std::fs::{File, OpenOptions};
use std::process::Command;

use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use support::tls::TlsIdentity;
use support::{Client, Process};

/// Sends SIGHUP and waits for the line that says that the files were read.
fn reload(gateway: &mut Process, identity: &TlsIdentity) {
    gateway.signal(Signal::HUP);
    let line = gateway.line();
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
    let mut old = Client::named_by(gateway.address, Some(&identity), "old");
    assert_eq!(old.server_certificate(), before);
    for round in 0..3 {
        identity.renew();
        reload(&mut gateway, &identity);
        old.ask("PING", "PONG");
        // Trusts the new certificate alone.
        let mut new = Client::named_by(gateway.address, Some(&identity), &format!("new{round}"));
        assert_eq!(new.server_certificate(), identity.der());
        assert_ne!(identity.der(), before);
        new.ask("PUSH old hello", "OK");
        old.expect(&format!("PUSH new{round} hello"));
    }
    gateway.signal(Signal::TERM);
    old.expect("BYE the gateway is shutting down");
    old.expect_end();
    assert_eq!(gateway.wait_for_log(), (std::process::ExitStatus::default(), String::new()));
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
        let line = gateway.log_line();
        let told = "SIGHUP: not reloaded, new connections get what they got before: ";
        assert!(line.contains(&format!("{told}{reason}")), "{line}");
        let client = Client::connect_tls(gateway.address, &identity);
        assert_eq!(client.server_certificate(), certificate);
    }
    fs::remove_file(&identity.key).unwrap();
    gateway.signal(Signal::HUP);
    let line = gateway.log_line();
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
        let mut client = Client::connect_tls_silently(gateway.address, &identity, Some(&client));
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
fn g06_without_tls_sighup_is_logged_and_the_gateway_stays() {
    let mut gateway = Process::start(&[]);
    let mut client = Client::connect(gateway.address);
    for _ in 0..2 {
        gateway.signal(Signal::HUP);
        assert_eq!(gateway.line(), "SIGHUP: nothing to reload without --tls-cert");
        client.ask("PING", "PONG");
    }
    gateway.signal(Signal::TERM);
    client.expect("BYE the gateway is shutting down");
    assert_eq!(gateway.wait().0.code(), Some(0));
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
    let mut command = Command::new(env!("CARGO_BIN_EXE_gateway"));
    command.stderr(slave.try_clone().unwrap());
    drop(slave);
    let mut gateway = Process::start_from(command, &[]);
    let mut client = Client::connect(gateway.address);
    gateway.signal(Signal::HUP);
    let reloaded = "SIGHUP: nothing to reload without --tls-cert";
    assert_eq!(gateway.line(), reloaded, "its terminal is open");
    drop(master);
    gateway.signal(Signal::HUP);
    client.expect("BYE the gateway is shutting down");
    client.expect_end();
    let told = "the terminal was closed: delivering accepted lines; a second signal ends the \
                gateway at once";
    assert_eq!(gateway.line(), told);
    drop(client);
    assert_eq!(gateway.wait().0.code(), Some(0));
}
