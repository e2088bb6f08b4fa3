//! Runs programs that others wrote.

use std::io::ErrorKind;
use std::process::{Command, Output};

/// The Python of the system, with the Debian package python3-requests.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// The end of a program that was run.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
}

impl Ended {
    /// Returns what the program has printed. Its status has to be 0.
    pub(crate) fn expect_success(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout
    }
}

/// Runs a program to its end. Returns `None` if it is not installed.
pub(crate) fn run(program: &str, args: &[&str]) -> Option<Ended> {
    let output = Command::new(program).args(args).output();
    let Output { status, stdout, stderr } = match output {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("not tested: {program}: {error}");
            return None;
        }
        output => output.unwrap(),
    };
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into());
    Some(Ended { stdout, stderr, code: status.code() })
}

/// Runs curl without a progress bar; a minute ends a curl that hangs.
pub(crate) fn curl(args: &[&str]) -> Option<Ended> {
    let fixed = ["--silent", "--show-error", "--noproxy", "*", "--max-time", "60"];
    run("curl", &[&fixed[..], args].concat())
}

/// Runs a Python script with a module that may be missing. Returns what it prints.
pub(crate) fn python(module: &str, script: &str, args: &[&str]) -> Option<String> {
    let found = run(PYTHON, &["-c", &format!("import {module}")])?;
    if found.code != Some(0) {
        println!("not tested: {PYTHON} has no module {module}");
        return None;
    }
    Some(run(PYTHON, &[&["-c", script], args].concat())?.expect_success())
}
