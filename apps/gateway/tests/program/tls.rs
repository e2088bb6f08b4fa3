//! The gateway with TLS: real clients, arguments, limits, drain. `reload.rs` has the reload.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::Signal;
use waterwheel::executor::Clock;

use super::support::LIMIT;
use super::support::lines::{HELLO, LineClient};
use super::support::process::{Process, program};
use super::support::tls::{NAME, TlsIdentity};

fn spawn(command: &mut Command) -> Child {
    let program = command.get_program().to_owned();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap_or_else(|error| panic!("{program:?}: {error}; scripts/test installs it"))
}

/// A subscriber by `openssl s_client`.
fn subscribe_by_openssl(identity: &TlsIdentity, address: SocketAddr) -> (Child, impl BufRead) {
    let mut child = spawn(
        Command::new("openssl")
            .args(["s_client", "-quiet", "-verify_return_error"])
            .args(["-servername", NAME, "-verify_hostname", NAME, "-CAfile"])
            .arg(&identity.certificate)
            .args(["-connect", &address.to_string()]),
    );
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    child.stdin.as_mut().unwrap().write_all(b"USER ssl\nSUB news\n").unwrap();
    for expected in [HELLO, "OK hello ssl"] {
        assert_eq!(next_line(&mut lines), expected);
    }
    assert!(next_line(&mut lines).starts_with("OK "));
    (child, lines)
}

fn next_line(lines: &mut impl BufRead) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

const PYTHON_CLIENT: &str = "
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[1])
tcp = socket.create_connection(('127.0.0.1', int(sys.argv[2])))
with context.wrap_socket(tcp, server_hostname='wheel.example') as tls:
    lines = tls.makefile('rw', newline='\\n')
    for line in 'USER python', 'PUB news from python', 'QUIT':
        print(line, file=lines, flush=True)
    # Ends with an error unless the gateway sends close_notify.
    print(lines.read(), end='')
";

#[test]
fn t09_openssl_curl_and_python_publish_and_subscribe_over_tls() {
    let identity = TlsIdentity::new("real_clients", "server");
    let gateway = Process::start(&identity.arguments());
    let (mut openssl, mut heard) = subscribe_by_openssl(&identity, gateway.address);
    let port = gateway.address.port();

    let curl = spawn(
        Command::new("curl")
            .args(["--silent", "--show-error", "--fail", "--cacert"])
            .arg(&identity.certificate)
            .args(["--resolve", &format!("{NAME}:{port}:127.0.0.1")])
            .args(["--header", "Content-Type: text/plain", "--data", "from curl"])
            .arg(format!("https://{NAME}:{port}/topics/news")),
    );
    let Output { status, stdout, stderr } = curl.wait_with_output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    assert!(stdout.starts_with(b"{\"position\":"), "{}", String::from_utf8_lossy(&stdout));
    assert_eq!(next_line(&mut heard), "MSG news - from curl");

    let python = spawn(
        Command::new("python3")
            .args(["-c", PYTHON_CLIENT])
            .arg(&identity.certificate)
            .arg(port.to_string()),
    );
    assert_published(python, "python");
    assert_eq!(next_line(&mut heard), "MSG news python from python");

    openssl.stdin.as_mut().unwrap().write_all(b"QUIT\n").unwrap();
    assert_eq!(next_line(&mut heard), "BYE goodbye");
    assert_eq!(next_line(&mut heard), "", "its end");
    assert!(openssl.wait().unwrap().success());
    gateway.signal(Signal::TERM);
    let (status, printed) = gateway.wait();
    assert_eq!(status.code(), Some(0));
    assert!(printed.ends_with("3 TLS handshakes, 0 failed\n"), "{printed}");
}

/// Asserts that a client was answered until `QUIT`, and ended without an error.
fn assert_published(client: Child, name: &str) {
    let Output { status, stdout, stderr } = client.wait_with_output().unwrap();
    let log = String::from_utf8_lossy(&stderr);
    let heard = String::from_utf8_lossy(&stdout);
    let begin = format!("{HELLO}\nOK hello {name}\nOK ");
    assert!(heard.starts_with(&begin) && heard.ends_with("\nBYE goodbye\n"), "{heard}: {log}");
    assert!(status.success(), "{name}: {status}: {log}");
}

#[test]
fn t02_close_notify_of_a_client_is_its_end_of_input() {
    let identity = TlsIdentity::new("close_notify", "server");
    let gateway = Process::start(&identity.arguments());
    let mut ann = LineClient::named_by(gateway.address, Some(&identity), "ann");
    ann.say("PING");
    ann.finish();
    ann.expect("PONG");
    ann.expect("BYE end of input");
    ann.expect_end();
}

/// Behind TLS, a silent client is greeted after the handshake.
#[test]
fn k13_detection_begins_behind_the_handshake() {
    let identity = TlsIdentity::new("silent", "server");
    let args = [&identity.arguments()[..], &["--detection-silence", "10ms"]].concat();
    let gateway = Process::start(&args);
    for _ in 0..5 {
        let mut client = LineClient::connect_tls_silently(gateway.address, &identity, None);
        client.expect(HELLO);
        client.ask("PING", "PONG");
    }
}

#[test]
fn t08_plain_text_gets_an_alert_and_lines_in_the_log_that_have_a_limit() {
    let identity = TlsIdentity::new("plain_text", "server");
    let mut gateway = Process::start_logged(&identity.arguments());
    const CLIENTS: usize = 200;
    let speak_plainly = |address: SocketAddr| {
        let mut plain = TcpStream::connect(address).unwrap();
        plain.set_read_timeout(Some(LIMIT)).unwrap();
        plain.write_all(b"USER ann\nPUB news hello\n").unwrap();
        let mut answer = Vec::new();
        plain.read_to_end(&mut answer).unwrap();
        assert_eq!(answer.first(), Some(&21), "an alert and nothing else: {answer:?}");
        assert_eq!(answer.len(), 7, "an alert and nothing else: {answer:?}");
        plain.local_addr().unwrap()
    };
    let peer = speak_plainly(gateway.address);
    let line = gateway.log_with("connection of");
    let told = format!("connection of {peer} closed: the TLS handshake failed: ");
    assert!(line.contains(&told), "{line}");
    for _ in 1..CLIENTS {
        speak_plainly(gateway.address);
    }
    // A client of TLS is served as before.
    LineClient::connect_tls(gateway.address, &identity).ask("PING", "PONG");
    gateway.signal(Signal::TERM);
    let (status, log) = gateway.wait_for_log();
    assert_eq!(status.code(), Some(0));
    let lines = log.lines().filter(|line| line.contains("the TLS handshake failed")).count();
    assert!((1..CLIENTS - 1).contains(&lines), "{lines} lines for {CLIENTS} clients");
}

#[test]
fn l11_sigterm_ends_connections_with_close_notify() {
    let identity = TlsIdentity::new("sigterm", "server");
    let gateway = Process::start(&identity.arguments());
    let mut clients: Vec<_> = (0..3)
        .map(|n| LineClient::named_by(gateway.address, Some(&identity), &format!("client{n}")))
        .collect();
    clients[0].ask("PUSH client1 hello", "OK");
    gateway.signal(Signal::TERM);
    clients[1].expect("PUSH client0 hello");
    for client in &mut clients {
        client.expect_begin("BYE this gateway is shutting down");
        client.expect_end();
    }
    drop(clients);
    let (status, printed) = gateway.wait();
    assert_eq!(status.code(), Some(0));
    let told = "3 TLS handshakes, 0 failed\n";
    assert!(printed.ends_with(told), "{printed}");
}

#[test]
fn t08_connections_in_their_handshake_count_against_the_limit_of_connections() {
    let identity = TlsIdentity::new("half_open", "server");
    let args = [&identity.arguments()[..], &["--connections-max", "2"]].concat();
    let gateway = Process::start(&args);
    let mut half_open: Vec<_> =
        (0..2).map(|_| TcpStream::connect(gateway.address).unwrap()).collect();
    let mut refused = TcpStream::connect(gateway.address).unwrap();
    refused.set_read_timeout(Some(LIMIT)).unwrap();
    assert!(matches!(refused.read(&mut [0]), Ok(0) | Err(_)), "closed");
    half_open.pop();
    let begun = Clock::Monotonic.now();
    // The gateway learns of the end of a connection in its own time.
    loop {
        let tcp = TcpStream::connect(gateway.address).unwrap();
        tcp.set_read_timeout(Some(LIMIT)).unwrap();
        let mut client = LineClient::of_tls(tcp, &identity);
        if client.try_send("PING\n").is_ok() && matches!(client.try_hear(), Ok(Some(_))) {
            break;
        }
        assert!(Clock::Monotonic.now().since(begun) < LIMIT, "nobody is served");
    }
}

/// Runs the program until it ends by itself; returns what it prints on standard error.
fn refused(args: &[&str]) -> String {
    let mut command = program();
    let output = command.args(["--port", "0"]).args(args).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert_eq!(output.stdout, b"");
    told
}

#[test]
fn t04_files_that_cannot_be_used_are_refused_at_the_start_with_file_and_reason() {
    let (one, other) = (TlsIdentity::new("start", "one"), TlsIdentity::new("start", "other"));
    let [_, certificate, _, key] = one.arguments();
    let told = refused(&["--tls-certificate", certificate]);
    assert!(told.contains("tls.certificate needs tls.key, which is not set"), "{told}");
    let told = refused(&["--tls-certificate", "/nowhere.crt", "--tls-key", key]);
    assert!(told.contains("cannot read `/nowhere.crt`: No such file"), "{told}");
    let told = refused(&["--tls-certificate", certificate, "--tls-key", certificate]);
    assert!(told.contains(&format!("`{certificate}` contains no private key")), "{told}");
    let [.., other_key] = other.arguments();
    let told = refused(&["--tls-certificate", certificate, "--tls-key", other_key]);
    let both =
        format!("the certificate of `{certificate}` and the key of `{other_key}` cannot be used");
    assert!(told.contains(&both), "{told}");
    let with_ca = |ca| refused(&[&one.arguments()[..], &["--tls-client-ca", ca]].concat());
    assert!(with_ca("/nowhere.pem").contains("cannot read `/nowhere.pem`"));
    assert!(with_ca(key).contains(&format!("`{key}` contains no certificate")));
}

#[test]
fn t04_with_a_client_authority_only_its_clients_are_served() {
    let identity = TlsIdentity::new("client_ca", "server");
    let (trusted, stranger) =
        (TlsIdentity::new("client_ca", "trusted"), TlsIdentity::new("client_ca", "stranger"));
    let ca = ["--tls-client-ca", trusted.certificate.to_str().unwrap()];
    let mut gateway = Process::start_logged(&[&identity.arguments()[..], &ca].concat());
    for own in [None, Some(&stranger)] {
        let mut refused = LineClient::connect_tls_silently(gateway.address, &identity, own);
        let error = refused.try_hear().unwrap_err();
        assert!(error.to_string().contains("received fatal alert"), "{error}");
        let line = gateway.log_with("TLS handshake");
        assert!(line.contains("the TLS handshake failed: "), "{line}");
    }
    let mut served = LineClient::connect_tls_silently(gateway.address, &identity, Some(&trusted));
    served.ask("PING", HELLO);
    served.expect("PONG");
}
