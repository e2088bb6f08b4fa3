//! The gateway with TLS: real clients, arguments, limits, drain. `tls_reload.rs` has the reload.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::Signal;
use support::tls::{NAME, TlsIdentity};
use support::{Client, InProcess, LIMIT, Process};
use waterwheel::executor::Clock;
use waterwheel_gateway::tls::handshake_monitor::HandshakeCounts;
use waterwheel_gateway::tls::port::TlsFiles;

fn spawn(command: &mut Command) -> Child {
    let program = command.get_program().to_owned();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap_or_else(|error| panic!("{program:?}: {error}; scripts/test installs it"))
}

fn files(identity: &TlsIdentity) -> TlsFiles {
    let (certificate, key) = (identity.certificate.clone(), identity.key.clone());
    TlsFiles { certificate, key, client_ca: None }
}

/// Waits until the handshakes of a gateway in this process have these counts.
fn wait_for_handshakes(gateway: &InProcess, done: u64, failed: u64) {
    let begun = Clock::Monotonic.now();
    let counts = || gateway.gateway.tls().unwrap().handshakes();
    while counts() != (HandshakeCounts { done, failed }) {
        assert!(Clock::Monotonic.now().since(begun) < LIMIT, "{:?}", counts());
        std::thread::yield_now();
    }
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
    for expected in ["HELLO send USER name, or HELP", "OK hello ssl", "OK"] {
        assert_eq!(next_line(&mut lines), expected);
    }
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

    // Gopher over TLS: a line, and what the server sends until its end.
    let commands = "USER%20curl%0APUB%20news%20from%20curl%0AQUIT";
    let curl = spawn(
        Command::new("curl")
            .args(["--silent", "--show-error", "--cacert"])
            .arg(&identity.certificate)
            .args(["--resolve", &format!("{NAME}:{port}:127.0.0.1")])
            .arg(format!("gophers://{NAME}:{port}/1{commands}")),
    );
    assert_published(curl, "curl");
    assert_eq!(next_line(&mut heard), "MSG news curl from curl");

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
    let expected = format!("HELLO send USER name, or HELP\nOK hello {name}\nOK 1\nBYE goodbye\n");
    assert_eq!(String::from_utf8_lossy(&stdout), expected, "{name}: {log}");
    assert!(status.success(), "{name}: {status}: {log}");
}

#[test]
fn t02_close_notify_of_a_client_is_its_end_of_input() {
    let identity = TlsIdentity::new("close_notify", "server");
    let gateway = InProcess::start(|config| config.tls = Some(files(&identity)));
    let mut ann = Client::named_by(gateway.address, Some(&identity), "ann");
    ann.say("PING");
    ann.finish();
    ann.expect("PONG");
    ann.expect("BYE end of input");
    ann.expect_end();
    drop(ann);
    gateway.end();
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
    let line = gateway.log_line();
    let told = format!("connection of {peer} closed: the TLS handshake failed: ");
    assert!(line.contains(&told), "{line}");
    for _ in 1..CLIENTS {
        speak_plainly(gateway.address);
    }
    // A client of TLS is served as before.
    Client::connect_tls(gateway.address, &identity).ask("PING", "PONG");
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
        .map(|n| Client::named_by(gateway.address, Some(&identity), &format!("client{n}")))
        .collect();
    clients[0].ask("PUSH client1 hello", "OK");
    gateway.signal(Signal::TERM);
    clients[1].expect("PUSH client0 hello");
    for client in &mut clients {
        client.expect("BYE the gateway is shutting down");
        client.expect_end();
    }
    drop(clients);
    let (status, printed) = gateway.wait();
    assert_eq!(status.code(), Some(0));
    let told = "4 lines received, 1 delivered, 0 missed\n3 TLS handshakes, 0 failed\n";
    assert!(printed.ends_with(told), "{printed}");
}

#[test]
fn t08_connections_in_their_handshake_count_against_the_limit_of_clients() {
    let identity = TlsIdentity::new("half_open", "server");
    let gateway = InProcess::start(|config| {
        (config.tls, config.clients) = (Some(files(&identity)), 2);
    });
    let half_open: Vec<_> = (0..2).map(|_| TcpStream::connect(gateway.address).unwrap()).collect();
    let begun = Clock::Monotonic.now();
    while gateway.gateway.client_counts().clients < 2 {
        assert!(Clock::Monotonic.now().since(begun) < LIMIT, "they are clients");
        std::thread::yield_now();
    }
    let mut refused = Client::connect_tls_silently(gateway.address, &identity, None);
    refused.expect("ERR the limit of 2 clients is reached; try again later");
    refused.expect_end();
    drop(half_open);
    wait_for_handshakes(&gateway, 1, 2);
    Client::connect_tls(gateway.address, &identity).ask("PING", "PONG");
    gateway.end();
}

#[test]
fn t05_a_slow_reader_gets_every_accepted_line_and_the_number_of_the_others() {
    let identity = TlsIdentity::new("slow_reader", "server");
    let args = [&identity.arguments()[..], &["--overflow", "drop-newest", "--queue", "16"]];
    let gateway = Process::start(&args.concat());
    let mut slow = Client::named_by(gateway.address, Some(&identity), "slow");
    slow.ask("SUB news", "OK");
    let mut speaker = Client::named_by(gateway.address, Some(&identity), "speaker");
    let text = "x".repeat(900);
    let (mut accepted, mut refused) = (Vec::new(), 0);
    for n in 0.. {
        speaker.say(&format!("PUB news {n} {text}"));
        match speaker.hear().as_deref() {
            Some("OK 1") => accepted.push(n),
            Some("OK 0") => refused += 1,
            other => panic!("{other:?}"),
        }
        if refused == 10 {
            break;
        }
    }
    let (mut heard, mut missed) = (Vec::new(), 0);
    while heard.len() < accepted.len() || missed < refused {
        let line = slow.hear().expect("it is connected");
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["MSG", "news", "speaker", n, same] if same == text => {
                heard.push(n.parse::<usize>().unwrap());
            }
            ["MISSED", lines] => missed += lines.parse::<usize>().unwrap(),
            _ => panic!("unexpected: {line}"),
        }
    }
    assert_eq!((heard, missed), (accepted, refused));
    slow.ask("PING", "PONG");
}

/// Runs the program until it ends by itself; returns what it prints on standard error.
fn refused(args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gateway"));
    let output = command.args(["--port", "0"]).args(args).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert_eq!(output.stdout, b"");
    assert!(told.contains("Usage: gateway"), "{told}");
    told
}

#[test]
fn t04_files_that_cannot_be_used_are_refused_at_the_start_with_file_and_reason() {
    let (one, other) = (TlsIdentity::new("start", "one"), TlsIdentity::new("start", "other"));
    let [_, certificate, _, key] = one.arguments();
    let told = refused(&["--tls-cert", certificate]);
    assert!(told.contains("--tls-key <FILE>"), "{told}");
    let told = refused(&["--tls-cert", "/nowhere.crt", "--tls-key", key]);
    assert!(told.contains("cannot read `/nowhere.crt`: No such file"), "{told}");
    let told = refused(&["--tls-cert", certificate, "--tls-key", certificate]);
    assert!(told.contains(&format!("`{certificate}` contains no private key")), "{told}");
    let [.., other_key] = other.arguments();
    let told = refused(&["--tls-cert", certificate, "--tls-key", other_key]);
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
        let mut refused = Client::connect_tls_silently(gateway.address, &identity, own);
        let error = refused.try_hear().unwrap_err();
        assert!(error.to_string().contains("received fatal alert"), "{error}");
        let line = gateway.log_line();
        assert!(line.contains("the TLS handshake failed: "), "{line}");
    }
    let mut served = Client::connect_tls_silently(gateway.address, &identity, Some(&trusted));
    served.expect("HELLO send USER name, or HELP");
}

#[test]
fn o01_the_table_counts_handshakes() {
    let identity = TlsIdentity::new("stats", "server");
    let args = [&identity.arguments()[..], &["--stats", "--threads", "1"]].concat();
    let mut gateway = Process::start(&args);
    let mut client = Client::connect_tls(gateway.address, &identity);
    client.ask("PING", "PONG");
    let heading = gateway.line();
    assert!(heading.ends_with(" missed; 1 TLS handshakes, 0 failed"), "{heading}");
}
