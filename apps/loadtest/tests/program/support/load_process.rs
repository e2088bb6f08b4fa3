//! The program in a child process.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// The exit status of a run, and what it has printed.
pub(crate) struct LoadOutcome {
    pub(crate) status: i32,
    pub(crate) table: String,
}

impl LoadOutcome {
    /// Asserts that all was well.
    pub(crate) fn expect_success(self) -> Self {
        assert_eq!(self.status, 0, "{}", self.table);
        assert!(!self.table.contains("FAILED"), "{}", self.table);
        self
    }

    /// Asserts that the run has failed, for a reason with this text.
    pub(crate) fn expect_failure(self, reason: &str) -> Self {
        assert_eq!(self.status, 1, "{}", self.table);
        let is_told = |line: &str| line.trim_start().starts_with("FAILED") && line.contains(reason);
        assert!(self.table.lines().any(is_told), "{reason} in\n{}", self.table);
        self
    }
}

/// A running program. Killed on drop.
pub(crate) struct LoadProcess {
    child: Child,
    progress: BufReader<std::process::ChildStderr>,
}

impl LoadProcess {
    /// Starts the program with arguments that are separated by spaces.
    pub(crate) fn start(args: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_loadtest"))
            .args(args.split_whitespace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let progress = BufReader::new(child.stderr.take().expect("it is piped"));
        Self { child, progress }
    }

    /// Reads progress until a line begins with this text.
    pub(crate) fn wait_for(&mut self, start: &str) {
        let mut line = String::new();
        while !line.starts_with(start) {
            line.clear();
            let read = self.progress.read_line(&mut line).expect("progress is text");
            assert_ne!(read, 0, "the program has ended before {start:?}");
        }
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    }

    /// Waits for the end.
    pub(crate) fn wait(mut self) -> LoadOutcome {
        let mut errors = String::new();
        self.progress.read_to_string(&mut errors).expect("errors are text");
        let mut table = String::new();
        let mut stdout = self.child.stdout.take().expect("it is piped");
        stdout.read_to_string(&mut table).expect("the table is text");
        let status = self.child.wait().expect("it ends").code().expect("by itself");
        LoadOutcome { status, table: table + &errors }
    }
}

impl Drop for LoadProcess {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the program, and returns also what it has written as JSON.
pub(crate) fn run_with_json(args: &str) -> (LoadOutcome, Value) {
    let file = TempFile::new("json");
    let outcome = LoadProcess::start(&format!("{args} --json {}", file.0)).wait();
    let text = std::fs::read_to_string(&file.0).unwrap_or_else(|_| panic!("{}", outcome.table));
    (outcome, serde_json::from_str(&text).expect("it is JSON"))
}

/// The path of a file that is removed on drop.
pub(crate) struct TempFile(pub(crate) String);

impl TempFile {
    pub(crate) fn new(extension: &str) -> Self {
        let name = std::thread::current().name().unwrap_or("test").replace("::", "-");
        let name = format!("loadtest-{}-{name}.{extension}", std::process::id());
        Self(std::env::temp_dir().join(name).display().to_string())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
