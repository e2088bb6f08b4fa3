//! Real Redis servers, each at an address of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use waterwheel_gateway::engine::redis::options::RedisOptions;

/// The port of all servers; their addresses differ.
const PORT: u16 = 6379;

/// The persistence of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// A restarted server is empty.
    Nothing,
    /// Every change is on the disk before it is answered.
    AppendOnlyFile,
}

/// A redis-server. Dropping it kills it, and removes its directory.
pub(crate) struct RedisServer {
    address: Ipv4Addr,
    directory: PathBuf,
    arguments: Vec<String>,
    child: Option<Child>,
}

/// True if redis-server is installed.
pub(crate) fn is_redis_installed() -> bool {
    let found = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
    let is_installed = found.is_ok_and(|status| status.success());
    if !is_installed {
        println!("not tested: redis-server is not installed");
    }
    is_installed
}

impl RedisServer {
    /// Starts a server.
    pub(crate) fn start(persistence: Persistence) -> Self {
        let arguments: &[&str] = match persistence {
            Persistence::Nothing => &["--save", ""],
            Persistence::AppendOnlyFile => {
                &["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
            }
        };
        Self::with_arguments(arguments)
    }

    /// Starts a server with further arguments. `{address}` in them stands for its address.
    pub(crate) fn with_arguments(arguments: &[&str]) -> Self {
        let port = PORT.to_string();
        let arguments = [&["--port", &port], arguments].concat();
        Self::at(Self::reserve_address(), &arguments)
    }

    /// Starts a server that speaks TLS only.
    pub(crate) fn with_tls(address: Ipv4Addr, certificate: &str, key: &str) -> Self {
        let port = PORT.to_string();
        let mut arguments = vec!["--port", "0", "--tls-port", &port, "--tls-auth-clients", "no"];
        arguments.extend(["--tls-cert-file", certificate, "--tls-key-file", key]);
        arguments.extend(["--tls-ca-cert-file", certificate, "--save", ""]);
        Self::at(address, &arguments)
    }

    /// Returns an address for one server: 127.64.0.1 to 127.127.255.255, by process and number.
    pub(crate) fn reserve_address() -> Ipv4Addr {
        static SERVERS: AtomicU32 = AtomicU32::new(1);
        let number = SERVERS.fetch_add(1, Ordering::Relaxed);
        let [_, _, high, low] = std::process::id().to_be_bytes();
        Ipv4Addr::new(127, 64 | (high & 63), low, u8::try_from(number).unwrap())
    }

    fn at(address: Ipv4Addr, arguments: &[&str]) -> Self {
        let directory = std::env::temp_dir().join(format!("waterwheel-engine-{address}"));
        // A test that was killed leaves its files behind.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let arguments =
            arguments.iter().map(|text| text.replace("{address}", &address.to_string())).collect();
        let mut server = Self { address, directory, arguments, child: None };
        server.restart();
        server
    }

    /// Starts the server again, after [`kill`](Self::kill).
    pub(crate) fn restart(&mut self) {
        let mut command = Command::new("redis-server");
        command.args(["--bind", &self.address.to_string()]);
        command.args(["--protected-mode", "no", "--enable-debug-command", "yes"]);
        command.arg("--dir").arg(&self.directory).args(&self.arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut all = Vec::new();
        while !all.last().is_some_and(|line: &String| line.contains("eady to accept connections")) {
            match lines.next() {
                Some(line) => all.push(line.unwrap()),
                None => panic!("redis-server has ended: {all:#?}"),
            }
        }
        // Reads the rest, so that the server never blocks on its output.
        std::thread::spawn(move || lines.for_each(drop));
        self.child = Some(child);
    }

    /// Kills the server, without a chance to write anything.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Stops the process, or lets it go on.
    pub(crate) fn set_stopped(&self, is_stopped: bool) {
        let pid = Pid::from_child(self.child.as_ref().unwrap());
        kill_process(pid, if is_stopped { Signal::STOP } else { Signal::CONT }).unwrap();
    }

    /// Runs a command with redis-cli, and returns what it prints.
    pub(crate) fn cli(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        command.args(["-h", &self.address.to_string(), "-p", &PORT.to_string()]).args(arguments);
        let output = command.output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Returns the directory of the server.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns `host:port`.
    pub(crate) fn host_and_port(&self) -> String {
        format!("{}:{PORT}", self.address)
    }

    /// Returns the options of an engine.
    pub(crate) fn options(&self) -> RedisOptions {
        self.options_for("")
    }

    /// Returns the options of an engine, with an addition to the URL.
    pub(crate) fn options_for(&self, path: &str) -> RedisOptions {
        RedisOptions::new(format!("redis://{}{path}", self.host_and_port()).parse().unwrap())
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}
