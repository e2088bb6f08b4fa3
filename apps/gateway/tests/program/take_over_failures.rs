//! A take-over that fails leaves the old process as it was.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use waterwheel::executor::Clock;

use super::support::lines::LineClient;
use super::support::process::{Process, Successor, wait_for_end};
use super::support::{LIMIT, http, temp};

/// A gateway whose program file is replaced while it runs.
struct Replaceable {
    file: PathBuf,
    gateway: Process,
}

impl Replaceable {
    fn start(test: &str, args: &[&str]) -> Self {
        let file = temp::folder(test).join("gateway");
        fs::copy(env!("CARGO_BIN_EXE_gateway"), &file).unwrap();
        let mut command = Command::new(&file);
        command.stderr(Stdio::piped());
        Self { gateway: Process::start_from(command, args), file }
    }

    /// Puts a shell script in the place of the program.
    fn replace_by_script(&self, script: &str) {
        let new = self.file.with_extension("new");
        fs::write(&new, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&new, &self.file).unwrap();
    }

    fn replace_by_gateway(&self) {
        let new = self.file.with_extension("new");
        fs::copy(env!("CARGO_BIN_EXE_gateway"), &new).unwrap();
        fs::rename(&new, &self.file).unwrap();
    }

    /// Asks for a take-over, and asserts that it fails for this reason.
    fn assert_fails(&mut self, reason: &str) {
        self.gateway.signal(Signal::USR2);
        let line = self.gateway.log_with("this process goes on");
        assert!(line.contains(reason), "{reason} in {line}");
    }
}

#[test]
fn g07_a_new_process_that_fails_leaves_the_old_one_serving() {
    let mut old = Replaceable::start("fails", &["--take-over", "1s"]);
    let mut client = LineClient::named(old.gateway.address, "ann");
    client.ask("SUB news", "OK ");
    let cases = [
        ("exit 3", "the new process ended before it was ready: exit status: 3"),
        ("exec sleep 1000", "the new process was not ready within 1 seconds"),
        ("echo not ready >&0; exec sleep 1000", "the new process ended before it was ready"),
    ];
    for (script, reason) in cases {
        old.replace_by_script(script);
        old.assert_fails(reason);
        LineClient::named(old.gateway.address, "bob").ask("PUB news still here", "OK ");
        client.expect("MSG news bob still here");
        assert_eq!(http::get(old.gateway.address, "/readyz").body, "ok\n");
    }
    fs::remove_file(&old.file).unwrap();
    old.assert_fails("cannot be started: No such file");
    // The program is mended, and takes over.
    old.replace_by_gateway();
    old.gateway.signal(Signal::USR2);
    let successor = Successor::of_line(&old.gateway.line_with("has taken over"));
    client.expect_begin("BYE this gateway is shutting down");
    drop(client);
    wait_for_end(old.gateway.id());
    assert_eq!(http::get(old.gateway.address, "/readyz").body, "ok\n");
    successor.signal(Signal::TERM);
    wait_for_end(successor.0);
}

#[test]
fn g07_a_new_process_whose_configuration_is_wrong_leaves_the_old_one_serving() {
    let file = temp::folder("wrong_config").join("gateway.toml");
    fs::write(&file, "drain = \"5s\"\n").unwrap();
    let mut gateway = Process::start_logged(&["--config", file.to_str().unwrap()]);
    fs::write(&file, "drain = \"soon\"\n").unwrap();
    gateway.signal(Signal::USR2);
    let line = gateway.log_with("drain = \"soon\" is not accepted");
    assert!(line.starts_with("gateway: "), "of the new process: {line}");
    gateway.log_with("exit status: 2; this process goes on");
    assert_eq!(http::get(gateway.address, "/readyz").body, "ok\n");
}

#[test]
fn g07_a_new_process_that_is_killed_leaves_the_old_one_serving() {
    let mut old = Replaceable::start("killed", &[]);
    let pid = old.file.with_file_name("pid");
    old.replace_by_script(&format!(
        "echo $$ >{0}.new; mv {0}.new {0}; exec sleep 1000",
        pid.display()
    ));
    old.gateway.signal(Signal::USR2);
    kill_process(Pid::from_raw(read_number(&pid)).unwrap(), Signal::KILL).unwrap();
    old.gateway.log_with("signal: 9 (SIGKILL); this process goes on");
    assert_eq!(http::get(old.gateway.address, "/readyz").body, "ok\n");
}

#[test]
fn g07_a_gateway_that_is_told_to_end_kills_the_new_process_that_is_not_ready() {
    let mut old = Replaceable::start("ended", &[]);
    let pid = old.file.with_file_name("pid");
    old.replace_by_script(&format!(
        "echo $$ >{0}.new; mv {0}.new {0}; exec sleep 1000",
        pid.display()
    ));
    old.gateway.signal(Signal::USR2);
    let new = read_number(&pid);
    old.gateway.signal(Signal::USR2);
    old.gateway.log_with("take-over: one is under way already");
    old.gateway.signal(Signal::TERM);
    assert_eq!(old.gateway.wait().0.code(), Some(0));
    wait_for_end(new.unsigned_abs());
}

#[test]
fn g07_a_process_that_is_told_to_take_over_from_nobody_ends() {
    let mut command = super::support::process::program();
    let output = command.env("WATERWHEEL_TAKE_OVER", "1").stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("cannot take over from the process before this one"), "{told}");
}

/// Reads a number from a file, once the file is there.
fn read_number(file: &Path) -> i32 {
    let begun = Clock::Monotonic.now();
    loop {
        if let Ok(text) = fs::read_to_string(file) {
            return text.trim().parse().unwrap();
        }
        assert!(Clock::Monotonic.now().since(begun) < LIMIT, "{} is not there", file.display());
        std::thread::yield_now();
    }
}
