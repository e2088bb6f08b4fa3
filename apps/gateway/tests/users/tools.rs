//! The programs that play the users. None is left out of a test: one that is missing is a failure that names the command to
//! install it.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use waterwheel::executor::Clock;

/// Upper bound of every wait; a test that reaches it fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// A script of this folder, with its path.
pub(crate) fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/users/scripts").join(name)
}

/// Returns the folder of the build, beside which `scripts/test` installs packages.
pub(crate) fn build_folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the folder is inside that of the build")
}

/// Returns the folder of a package for Node.
pub(crate) fn package(name: &str) -> PathBuf {
    let folder = build_folder().join(name).join("node_modules");
    assert!(folder.join(name).is_dir(), "{}", missing(name));
    folder
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

/// Node with a script of this folder that uses these packages.
pub(crate) fn node_script(name: &str, packages: &[&str]) -> Command {
    let mut command = node();
    let folders = packages.iter().map(|name| package(name));
    command.env("NODE_PATH", std::env::join_paths(folders).unwrap()).arg(script(name));
    command
}

/// Python with a package.
pub(crate) fn python_with(package: &str) -> Command {
    let python = build_folder().join(package).join("bin/python3");
    assert!(python.exists(), "{}", missing(package));
    Command::new(python)
}

/// A program of the system.
pub(crate) fn installed(name: &str) -> Command {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&folders).any(|folder| folder.join(name).is_file());
    assert!(is_there, "{}", missing(name));
    Command::new(name)
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

/// Waits until something is so, which no event tells.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Clock::Monotonic.now();
    while !is_so() {
        assert!(Clock::Monotonic.now().since(begun) < LIMIT, "waited in vain: {what}");
        thread::yield_now();
    }
}

/// A program that runs while the test goes on, killed on drop. A thread reads what it prints.
pub(crate) struct Player {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    complaints: Option<thread::JoinHandle<String>>,
}

impl Player {
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (sender, lines) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            // A test that has failed reads no more.
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut stderr = child.stderr.take().unwrap();
        let complaints = thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Self { stdin: child.stdin.take(), child, lines, complaints: Some(complaints) }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends a line to its standard input.
    pub(crate) fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("the input is open");
        writeln!(stdin, "{line}").expect("the program reads");
    }

    /// Reads the next line that it prints.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        match self.lines.recv_timeout(LIMIT) {
            Ok(line) => line,
            Err(error) => {
                let _ = self.child.kill();
                let complaints = self.complaints.take().unwrap().join().unwrap();
                panic!("no line: {error}\n{complaints}");
            }
        }
    }

    /// Reads the next line and asserts its text.
    #[track_caller]
    pub(crate) fn expect(&mut self, line: &str) {
        assert_eq!(self.line(), line);
    }

    /// Ends its input, waits for its end with status 0, and returns the rest of what it printed.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Vec<String> {
        self.stdin = None;
        let mut rest = Vec::new();
        // The channel ends with the output.
        loop {
            match self.lines.recv_timeout(LIMIT) {
                Ok(line) => rest.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the program does not end: {rest:?}"),
            }
        }
        let status = self.child.wait().unwrap();
        let complaints = self.complaints.take().unwrap().join().unwrap();
        assert!(status.success(), "{status}\n{}\n{complaints}", rest.join("\n"));
        rest
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        // Fails if the program has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn missing(tool: &str) -> String {
    format!("{tool} is missing or too old; `scripts/test --provide {tool}` installs it")
}
