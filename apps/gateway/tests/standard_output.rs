//! A closed, full or unread standard output costs neither lines nor the exit status.

mod support;

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, PipeWriter};

use rustix::process::Signal;
use support::{Client, Process};

/// Ends a gateway while an acknowledged line is unread; asserts that the line is delivered and the status is 0.
fn assert_clean_end(gateway: Process, mut ann: Client) {
    ann.ask("USER ann", "OK hello ann");
    let mut bob = Client::named(gateway.address, "bob");
    bob.ask("PUSH ann acknowledged", "OK");
    gateway.signal(Signal::TERM);
    ann.expect("PUSH bob acknowledged");
    ann.expect("BYE the gateway is shutting down");
    ann.expect_end();
    drop((ann, bob));
    assert_eq!(gateway.status().code(), Some(0));
}

/// The case of `gateway | head -1`.
#[test]
fn r04_a_closed_standard_output_costs_neither_lines_nor_the_exit_status() {
    for args in [&[][..], &["--stats"]] {
        let mut gateway = Process::start(args);
        gateway.stop_reading();
        let ann = Client::connect(gateway.address);
        assert_clean_end(gateway, ann);
    }
}

/// The case of `gateway >/dev/full`.
#[test]
fn r04_a_full_disk_costs_neither_lines_nor_the_exit_status() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let gateway = Process::start_into(full, &["--stats"]);
    let ann = Client::connect(gateway.address);
    assert_clean_end(gateway, ann);
}

/// The case of `gateway --stats | less` without scrolling.
#[test]
fn r04_an_unread_pipe_costs_neither_lines_nor_the_exit_status() {
    let (reader, writer) = io::pipe().unwrap();
    let ours = writer.try_clone().unwrap();
    let gateway = Process::start_into(writer, &["--stats"]);
    let mut first = String::new();
    let mut reader = BufReader::new(reader);
    reader.read_line(&mut first).unwrap();
    assert!(first.starts_with("listening on "), "{first}");
    fill(&ours);
    let ann = Client::connect(gateway.address);
    assert_clean_end(gateway, ann);
}

/// Fills a pipe, so that a writer blocks.
fn fill(pipe: &PipeWriter) {
    rustix::io::ioctl_fionbio(pipe, true).unwrap();
    while rustix::io::write(pipe, &[b'x'; 4096]).is_ok() {}
    while rustix::io::write(pipe, b"x").is_ok() {}
    rustix::io::ioctl_fionbio(pipe, false).unwrap();
}
