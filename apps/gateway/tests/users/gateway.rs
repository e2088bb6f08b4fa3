//! The gateway as a program that a test starts, and requests to it by curl.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::tools::{installed, succeed};

/// A gateway in a child process, killed on drop.
pub(crate) struct Gateway {
    child: Child,
    /// Kept open, so that the gateway can write to it.
    _stdout: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
}

impl Gateway {
    /// Starts a gateway with two loops and these arguments, on a port of its own.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_at(0, args)
    }

    /// Starts a gateway on this port.
    pub(crate) fn start_at(port: u16, args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gateway"));
        command.args(["--port", &port.to_string(), "--loops", "2"]).args(args);
        // The log would stand between the lines of the tests.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the gateway starts");
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        stdout.read_line(&mut first).unwrap();
        let address = first.strip_prefix("listening on ").and_then(|rest| rest.split(';').next());
        let address = address.and_then(|address| address.parse().ok());
        let address =
            address.unwrap_or_else(|| panic!("the first line names the address: {first:?}"));
        Self { child, _stdout: stdout, address }
    }

    /// Returns the address of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the address of its WebSockets.
    pub(crate) fn websocket_url(&self) -> String {
        format!("ws://{}/ws", self.address)
    }

    /// Ends it as SIGKILL does: nothing is delivered, no client is told.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Returns the processor time that its threads have taken.
    pub(crate) fn processor_time(&self) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let nanos = threads.map(|thread| {
            let schedule = fs::read_to_string(thread.unwrap().path().join("schedstat")).unwrap();
            schedule.split(' ').next().unwrap().parse::<u64>().unwrap()
        });
        Duration::from_nanos(nanos.sum())
    }

    /// Publishes JSON by curl. Returns the answer.
    pub(crate) fn publish(&self, topic: &str, json: &str) -> Value {
        self.curl(
            &format!("/topics/{topic}"),
            &["-H", "content-type: application/json", "-d", json],
        )
    }

    /// Asks for a path by curl. Returns the answer, of whatever status, as JSON.
    pub(crate) fn curl(&self, path: &str, args: &[&str]) -> Value {
        let text = self.curl_text(path, args);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
    }

    /// Asks for a path by curl. Returns the answer, of whatever status.
    pub(crate) fn curl_text(&self, path: &str, args: &[&str]) -> String {
        let mut curl = installed("curl");
        curl.args(["--silent", "--show-error", "--noproxy", "*", "--max-time", "60"]);
        succeed(curl.args(args).arg(self.url(path)))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Fails if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
