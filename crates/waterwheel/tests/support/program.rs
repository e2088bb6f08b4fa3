//! An example, run as a program.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fmt;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A program that was started, and is ended with its test.
pub(crate) struct Program {
    pub(crate) child: Child,
    /// Where it listens.
    pub(crate) place: String,
    pub(crate) said: BufReader<ChildStdout>,
}

impl Program {
    /// Starts an example; it says first where it listens.
    pub(crate) fn start(name: &str, args: &[&dyn fmt::Display]) -> Self {
        let mut command = Command::new(path_of(name));
        command.args(args.iter().map(ToString::to_string)).stdout(Stdio::piped());
        let missing = "if it is not there: cargo build -p waterwheel --examples";
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{name}: {e}; {missing}"));
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        said.read_line(&mut first).unwrap();
        let place = first.trim().strip_prefix("listening on ");
        let place = place.unwrap_or_else(|| panic!("{name} says {first:?}")).to_owned();
        Self { child, place, said }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.place.parse().unwrap()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.address())
    }

    /// How much memory it has, in KiB.
    pub(crate) fn memory(&self) -> usize {
        self.status("VmRSS:")
    }

    /// How much it has had at most, in KiB.
    pub(crate) fn peak_memory(&self) -> usize {
        self.status("VmHWM:")
    }

    pub(crate) fn status(&self, of: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(of)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Beside the tests: cargo builds the examples with them, unless it is asked for one file of tests alone.
pub(crate) fn path_of(example: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples").join(example)
}

pub(crate) fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&to, PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}
