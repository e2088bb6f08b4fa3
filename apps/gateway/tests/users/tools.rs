//! The programs that play the users.

use std::path::PathBuf;
use std::process::{Command, Output};

/// A script of this folder, with its path.
pub(crate) fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/users/scripts").join(name)
}

/// Node, version 20 or later.
pub(crate) fn node() -> Command {
    let version = Command::new("node").arg("--version").output();
    let major = version.ok().and_then(|output| {
        let text = String::from_utf8(output.stdout).ok()?;
        text.strip_prefix('v')?.split('.').next()?.parse::<u32>().ok()
    });
    assert!(major.is_some_and(|major| major >= 20), "{}", missing("node"));
    Command::new("node")
}

/// Runs a program and returns what it printed. Fails with its output if it fails.
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let Output { status, stdout, stderr } = output;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (printed, complained) = (text(stdout), text(stderr));
    assert!(status.success(), "{command:?}: {status}\n{printed}\n{complained}");
    printed
}

fn missing(tool: &str) -> String {
    format!("{tool} is missing or too old; `scripts/test --provide {tool}` installs it")
}
