//! Runs an example as a program.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fmt;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Limit of every wait: far longer than a busy machine needs.
pub(crate) const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// A running example; dropping the value kills it.
pub(crate) struct Program {
    pub(crate) child: Child,
    /// Address at which the program listens, as it prints it.
    pub(crate) listen_address: String,
    pub(crate) stdout: BufReader<ChildStdout>,
}

impl Program {
    /// Starts an example, and waits for its first line, "listening on ADDRESS".
    pub(crate) fn start(name: &str, args: &[&dyn fmt::Display]) -> Self {
        let mut command = Command::new(path_of(name));
        command.args(args.iter().map(ToString::to_string)).stdout(Stdio::piped());
        let missing = "if the example is not built: cargo build -p waterwheel --examples";
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{name}: {e}; {missing}"));
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        stdout.read_line(&mut first).unwrap();
        let address = first.trim().strip_prefix("listening on ");
        let address = address.unwrap_or_else(|| panic!("{name} prints {first:?} first"));
        let listen_address = address.to_owned();
        Self { child, listen_address, stdout }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listen_address.parse().unwrap()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.address())
    }

    /// Returns the program's resident memory, in KiB.
    pub(crate) fn memory(&self) -> usize {
        self.status("VmRSS:")
    }

    /// Returns the program's peak resident memory, in KiB.
    pub(crate) fn peak_memory(&self) -> usize {
        self.status("VmHWM:")
    }

    /// Returns a number from the program's /proc/PID/status.
    pub(crate) fn status(&self, field: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the path of an example's program, beside the tests. Cargo builds examples with the tests, unless it is asked
/// for a single test file.
pub(crate) fn path_of(example: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples").join(example)
}

pub(crate) fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&to, WAIT_LIMIT).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream.set_write_timeout(Some(WAIT_LIMIT)).unwrap();
    stream
}
