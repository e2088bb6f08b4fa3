//! Programs that speak HTTP, at the other end of a connection.

use std::process::{Command, Output};

/// Runs curl with these arguments, and returns what it prints. A number of seconds ends a curl that hangs.
pub(crate) fn run_curl(args: &[&str]) -> Output {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--noproxy", "*", "--max-time", "60"]).args(args);
    command.output().unwrap_or_else(|error| panic!("curl: {error}; scripts/test installs it"))
}

/// Runs curl, and returns the body of the response and its status.
pub(crate) fn fetch(args: &[&str]) -> (String, u16) {
    let output = run_curl(&[&["--write-out", "\n%{http_code}"], args].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "curl {args:?}: {}, {text}{error}", output.status);
    let (body, status) = text.rsplit_once('\n').unwrap();
    (body.to_owned(), status.parse().unwrap())
}
