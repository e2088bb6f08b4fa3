//! A closed, full or unread standard output costs neither lines nor the exit status.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, PipeWriter};

use rustix::process::Signal;

use super::support::lines::{HELLO, LineClient};
use super::support::process::Process;

/// Ends a gateway while an acknowledged line is unread; asserts that the line is delivered and the status is 0.
fn assert_clean_end(gateway: Process) {
    let mut ann = LineClient::connect_silently(gateway.address);
    ann.say("USER ann");
    ann.expect(HELLO);
    ann.expect("OK hello ann");
    let mut bob = LineClient::named(gateway.address, "bob");
    bob.ask("PUSH ann acknowledged", "OK");
    gateway.signal(Signal::TERM);
    ann.expect("PUSH bob acknowledged");
    ann.expect_begin("BYE this gateway is shutting down");
    ann.expect_end();
    drop((ann, bob));
    assert_eq!(gateway.status().code(), Some(0));
}

/// The case of `gateway | head -1`.
#[test]
fn r04_a_closed_standard_output_costs_neither_lines_nor_the_exit_status() {
    let mut gateway = Process::start(&[]);
    gateway.stop_reading();
    assert_clean_end(gateway);
}

/// The case of `gateway >/dev/full`.
#[test]
fn r04_a_full_disk_costs_neither_lines_nor_the_exit_status() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let gateway = Process::start_into(full, &[]);
    assert_clean_end(gateway);
}

/// The case of `gateway | less` without scrolling.
#[test]
fn r04_an_unread_pipe_costs_neither_lines_nor_the_exit_status() {
    let (reader, writer) = io::pipe().unwrap();
    let ours = writer.try_clone().unwrap();
    let gateway = Process::start_into(writer, &[]);
    let mut first = String::new();
    let mut reader = BufReader::new(reader);
    reader.read_line(&mut first).unwrap();
    assert!(first.starts_with("listening on "), "{first}");
    fill(&ours);
    assert_clean_end(gateway);
}

/// Fills a pipe, so that a writer blocks.
fn fill(pipe: &PipeWriter) {
    rustix::io::ioctl_fionbio(pipe, true).unwrap();
    while rustix::io::write(pipe, &[b'x'; 4096]).is_ok() {}
    while rustix::io::write(pipe, b"x").is_ok() {}
    rustix::io::ioctl_fionbio(pipe, false).unwrap();
}
