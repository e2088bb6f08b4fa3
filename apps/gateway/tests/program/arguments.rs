//! Arguments, environment, file: what the program accepts, and how it refuses.

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Output};

use rustix::process::Signal;

use super::support::process::{Process, program};
use super::support::{http, temp};

/// Runs the program until it ends by itself; returns its status, standard output and standard error.
fn run(args: &[&str]) -> (Option<i32>, String, String) {
    output(program().args(args))
}

fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn g06_help_and_version_exit_with_0_and_name_every_flag() {
    let (status, told, _) = run(&["--help"]);
    assert_eq!(status, Some(0));
    for flag in ["bind", "port", "config", "check", "clients-max", "tls-certificate", "drain"] {
        assert!(told.contains(&format!("--{flag} ")), "--{flag} in {told}");
    }
    let (status, told, _) = run(&["--version"]);
    assert_eq!((status, told.starts_with("gateway ")), (Some(0), true));
}

#[test]
fn g06_wrong_arguments_exit_with_2_and_all_problems_are_named() {
    let (status, printed, told) = run(&["--prot", "1", "--drain", "soon", "serve"]);
    assert_eq!((status, printed.as_str()), (Some(2), ""));
    let expected = [
        "there is no key --prot; --port is the nearest one",
        "--drain: drain = \"soon\" is not accepted",
        "the argument \"serve\" is not a flag",
    ];
    for problem in expected {
        let line = told.lines().find(|line| line.contains(problem));
        assert!(line.is_some_and(|line| line.starts_with("gateway: ")), "{problem} in {told}");
    }
}

#[test]
fn g06_flags_are_stronger_than_variables_and_those_than_the_file() {
    let folder = temp::folder("precedence");
    let file = folder.join("gateway.toml");
    fs::write(&file, "bind = \"127.9.9.1\"\nloops = 3\n[clients]\nmax = 7\n").unwrap();
    let args = ["--check", "--loops", "1", "--config", file.to_str().unwrap()];
    let mut command = program();
    let (status, told, problems) =
        output(command.args(args).env("WATERWHEEL_LOOPS", "2").env("WATERWHEEL_BIND", "127.9.9.2"));
    assert_eq!((status, problems.as_str()), (Some(0), ""));
    let path = file.display();
    for line in [
        "loops = 1 (--loops)".to_owned(),
        "bind = 127.9.9.2 (WATERWHEEL_BIND)".to_owned(),
        format!("clients.max = 7 ({path}:4)"),
    ] {
        assert!(told.lines().any(|told| told == line), "{line} in {told}");
    }
    assert!(told.ends_with("the configuration is usable\n"), "{told}");
}

#[test]
fn g06_a_check_reads_the_files_that_the_configuration_names_and_listens_nowhere() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    assert_eq!(run(&["--check", "--port", &port]).0, Some(0), "it does not listen");
    let missing = "/nowhere/keys.json";
    let (status, _, told) = run(&["--check", "--tokens-jwks", missing]);
    assert!(status == Some(2) && told.contains(missing), "{told}");
    let (status, _, told) = run(&["--check", "--admin-key-file", missing]);
    assert!(status == Some(2) && told.contains(missing), "{told}");
    let args = ["--check", "--tls-certificate", missing, "--tls-key", missing];
    let (status, _, told) = run(&[&args[..], &["--tokens-jwks", "/nowhere/else.json"]].concat());
    assert!(status == Some(2) && told.contains(missing), "{told}");
    assert!(told.contains("/nowhere/else.json"), "all problems: {told}");
}

#[test]
fn g03_without_keys_no_address_but_loopback_is_served() {
    for bind in ["0.0.0.0", "::"] {
        for check in [&["--check"][..], &[]] {
            let (status, _, told) = run(&[check, &["--bind", bind, "--port", "0"]].concat());
            assert_eq!(status, Some(2), "{told}");
            assert!(told.contains("anyone who reaches the gateway may"), "{told}");
        }
    }
    let (status, _, told) = run(&["--check", "--proxy-trusted", "127.0.0.1"]);
    assert!(status == Some(2) && told.contains("behind a trusted proxy"), "{told}");
    let mut gateway = Process::start(&["--bind", "127.0.0.1"]);
    let told = gateway.line_with("access: ");
    assert!(told.contains("open: any program on this machine may do everything"), "{told}");
    let page = gateway.line_with("page: ");
    assert_eq!(page, format!("page: http://{}/", gateway.address));
}

#[test]
fn g03_the_key_in_a_file_opens_what_is_for_operators() {
    const KEY: &str = "0123456789abcdef0123";
    let file = temp::folder("admin_key").join("admin.key");
    fs::write(&file, format!("{KEY}\n")).unwrap();
    let gateway = Process::start(&["--admin-key-file", file.to_str().unwrap()]);
    assert_eq!(http::get(gateway.address, "/metrics").status, 401);
    let mut client = http::HttpClient::connect(gateway.address);
    assert_eq!(client.get_with("/metrics", "0123456789abcdef0124").status, 401);
    assert_eq!(client.get_with("/metrics", KEY).status, 200);
    assert_eq!(client.get(&format!("/metrics?token={KEY}")).status, 200);
    assert_eq!(client.get("/healthz").status, 200, "for everybody");
    assert_eq!(http::get(gateway.address, "/api/live").status, 401);
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait().0.code(), Some(0));
    let open = Process::start(&["--admin-key-file", file.to_str().unwrap(), "--metrics-open"]);
    assert_eq!(http::get(open.address, "/metrics").status, 200);
}

#[test]
fn g06_a_port_in_use_is_reported_with_advice() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let (status, printed, told) = run(&["--port", &port.to_string()]);
    assert_eq!((status, printed.as_str()), (Some(1), ""));
    assert!(told.contains(&format!("cannot listen at 127.0.0.1:{port}")), "{told}");
    assert!(told.contains("choose a free one, for instance --port"), "{told}");
}

#[test]
fn g06_an_unavailable_address_is_reported_with_advice() {
    let (status, _, told) = run(&["--bind", "192.0.2.1", "--open"]);
    assert_eq!(status, Some(1));
    assert!(told.contains("choose another with --bind"), "{told}");
}
