//! The gateway program: signals, exit status, arguments, output.

mod support;

use std::fs;
use std::io::{ErrorKind, Read};
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use support::{Client, Process};
use waterwheel::executor::{Clock, DEFAULT_QUIET_PERIOD};

#[test]
fn sigterm_and_sigint_end_the_gateway_with_status_0() {
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::INT, "SIGINT")] {
        let gateway = Process::start(&[]);
        let mut client = Client::named(gateway.address, "ann");
        gateway.signal(signal);
        client.expect("BYE the gateway is shutting down");
        client.expect_end();
        drop(client);
        let (status, printed) = gateway.wait();
        assert_eq!(status.code(), Some(0), "{printed}");
        let told = format!(
            "{name}: delivering accepted lines; a second signal ends the gateway at once\n"
        );
        assert_eq!(printed, told + "1 lines received, 0 delivered, 0 missed\n");
    }
}

/// The gateway waits for neither a quiet period nor idle clients.
#[test]
fn l11_an_idle_gateway_ends_at_once() {
    let end = |clients: u32| {
        let gateway = Process::start(&[]);
        let _idle: Vec<_> = (0..clients).map(|_| Client::connect(gateway.address)).collect();
        let signalled = Clock::Monotonic.now();
        gateway.signal(Signal::TERM);
        assert_eq!(gateway.wait().0.code(), Some(0));
        Clock::Monotonic.now().since(signalled)
    };
    for clients in [0, 3] {
        // A busy machine may delay some of them, a quiet period would delay all.
        assert!((0..5).any(|_| end(clients) < DEFAULT_QUIET_PERIOD), "with {clients} clients");
    }
}

#[test]
fn a_second_signal_ends_the_gateway_at_once() {
    let mut gateway = Process::start(&["--overflow", "drop-newest", "--drain", "3600"]);
    let mut slow = Client::named(gateway.address, "slow");
    slow.ask("SUB news", "OK");
    let mut speaker = Client::named(gateway.address, "speaker");
    // Fills the outbox and the kernel's socket buffer, so that the drain cannot complete.
    let line = format!("PUB news {}", "x".repeat(900));
    loop {
        speaker.say(&line);
        if speaker.hear().as_deref() == Some("OK 0") {
            break;
        }
    }
    gateway.signal(Signal::TERM);
    let told = "SIGTERM: delivering accepted lines; a second signal ends the gateway at once";
    assert_eq!(gateway.line(), told);
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait().0.code(), Some(143));
    drop(slow);
}

#[test]
fn a_port_in_use_is_reported_with_advice() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let gateway = env!("CARGO_BIN_EXE_gateway");
    let output = Command::new(gateway).args(["--port", &port.to_string()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains(&format!("cannot listen at 127.0.0.1:{port}")), "{told}");
    assert!(told.contains("choose a free one, for instance --port"), "{told}");
    assert_eq!(output.stdout, b"");
}

#[test]
fn an_unavailable_address_is_reported_with_advice() {
    let gateway = env!("CARGO_BIN_EXE_gateway");
    let output = Command::new(gateway).args(["--bind", "192.0.2.1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("choose another with --bind"), "{told}");
}

#[test]
fn help_exits_with_0_and_wrong_arguments_with_2() {
    let run = |arg: &str| Command::new(env!("CARGO_BIN_EXE_gateway")).arg(arg).output().unwrap();
    let help = run("--help");
    assert_eq!(help.status.code(), Some(0));
    let told = String::from_utf8(help.stdout).unwrap();
    let options = ["bind", "port", "threads", "business", "queue", "overflow", "max-line", "idle"];
    for option in options.into_iter().chain(["drain", "clients", "stats"]) {
        assert!(told.contains(&format!("--{option}")), "--{option} in {told}");
    }
    assert_eq!(run("--prot").status.code(), Some(2));
}

#[test]
fn o01_stats_prints_a_table_of_the_loops_every_second() {
    let mut gateway = Process::start(&["--stats", "--threads", "2"]);
    let mut client = Client::named(gateway.address, "ann");
    client.ask("SUB news", "OK");
    for _ in 0..2 {
        let heading = gateway.line();
        let told = heading.strip_prefix("1 client, 1 user, 1 topic; ");
        assert!(told.is_some_and(|rest| rest.ends_with(" out, 0 missed")), "{heading}");
        let titles = gateway.line();
        assert!(titles.starts_with("loop ") && titles.ends_with(" out/s"), "{titles}");
        for _ in 0..2 {
            let row = gateway.line();
            assert_eq!(row.len(), titles.len(), "{row}");
            assert!(row.starts_with("loop-"), "{row}");
        }
    }
}

/// L16 with the whole program: fewer file descriptors than clients (EMFILE).
#[test]
fn l16_emfile_neither_spins_nor_loses_waiting_connections() {
    let gateway = Process::start_by("prlimit", &["--nofile=64:64"], &[]);
    let mut clients: Vec<_> = (0..200).map(|_| Client::connect_silently(gateway.address)).collect();
    clients[0].expect("HELLO send USER name, or HELP");
    // The last client is in the kernel's accept queue. CPU time is measured while it waits for a second.
    let before = ticks(gateway.id());
    let last = clients.last().unwrap().stream();
    last.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let nothing = (&mut &*last).read(&mut [0]).unwrap_err();
    assert!(matches!(nothing.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{nothing}");
    let spent = ticks(gateway.id()) - before;
    assert!(spent < 5, "{spent} hundredths of a second in one second");
    clients[0].ask("PING", "PONG");
    // All clients leave, those in the accept queue too; a new one is served.
    drop(clients);
    let mut newcomer = Client::connect_silently(gateway.address);
    newcomer.expect("HELLO send USER name, or HELP");
    drop(newcomer);
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait().0.code(), Some(0));
}

/// Returns the CPU time of a process in clock ticks (hundredths of a second).
fn ticks(id: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    // utime and stime, the 12th and 13th field after the name in parentheses.
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}
