//! Processes of nats-server.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// The longest that a server may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// Numbers the servers of this process: each has an address and a directory of its own.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// A server with a directory of its own, which is removed with it. Dropping it kills the process.
pub(crate) struct NatsServer {
    pub(crate) address: SocketAddr,
    directory: PathBuf,
    /// The lines of the configuration file, besides the address.
    config: String,
    child: Option<Child>,
}

/// True if nats-server is installed; tells if it is not.
pub(crate) fn has_nats() -> bool {
    let found = Command::new("nats-server").arg("--version").stdout(Stdio::null()).status();
    let is_found = found.is_ok_and(|status| status.success());
    if !is_found {
        println!("not tested: nats-server is not installed");
    }
    is_found
}

/// Returns the configuration of JetStream that keeps what it has in the server's directory.
pub(crate) const JETSTREAM: &str = "jetstream { store_dir: \"DIR/store\" }\n";

impl NatsServer {
    /// Starts a server with JetStream.
    pub(crate) fn start() -> Self {
        Self::with_config(JETSTREAM)
    }

    /// Starts a server with lines of configuration, in which `DIR` is its directory.
    pub(crate) fn with_config(config: &str) -> Self {
        let mut server = Self::at(free_address(), config);
        server.run();
        server
    }

    /// Prepares a server that listens here.
    pub(crate) fn at(address: SocketAddr, config: &str) -> Self {
        let name = format!(
            "waterwheel-nats-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        let config = config.replace("DIR", directory.to_str().unwrap());
        Self { address, directory, config, child: None }
    }

    /// True while the process runs.
    pub(crate) fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// Returns the URL of the server.
    pub(crate) fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Starts the process, and waits until it says that it is ready.
    pub(crate) fn run(&mut self) {
        let path = self.directory.join("nats.conf");
        let (host, port) = (self.address.ip(), self.address.port());
        let text = format!("host: {host}\nport: {port}\n{}", self.config);
        fs::write(&path, text).unwrap();
        let mut command = Command::new("nats-server");
        command.arg("-c").arg(&path).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut text = String::new();
        while !text.contains("Server is ready") {
            assert!(log.read_line(&mut text).unwrap() > 0, "nats-server has ended: {text}");
        }
        // Read on, so that the server never blocks on its log.
        thread::spawn(move || io::copy(&mut log, &mut io::sink()));
        self.child = Some(child);
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            kill_process(Pid::from_child(child), signal).unwrap();
        }
    }

    /// Stops the process, and waits until it has stopped.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        let pid = self.child.as_ref().map(Pid::from_child);
        let stopped = waitpid(pid, WaitOptions::UNTRACED).unwrap();
        assert!(stopped.is_some_and(|(_, status)| status.stopped()));
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Keeps a copy of the files of a server that does not run.
    pub(crate) fn save_files(&self) {
        self.copy_files("store", "saved");
    }

    /// Replaces the files of a server that does not run by the copy.
    pub(crate) fn restore_files(&self) {
        fs::remove_dir_all(self.directory.join("store")).unwrap();
        self.copy_files("saved", "store");
    }

    fn copy_files(&self, from: &str, to: &str) {
        let (from, to) = (self.directory.join(from), self.directory.join(to));
        let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
        assert!(copied.success() && self.child.is_none());
    }

    /// Sends a request as a client would that only speaks for a moment, and returns the payload of the answer.
    pub(crate) fn request(&self, subject: &str, payload: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(ANSWER_LIMIT)).unwrap();
        let length = payload.len();
        write!(
            stream,
            "CONNECT {{\"verbose\":false}}\r\nSUB answer 1\r\nPUB {subject} answer {length}\r\n{payload}\r\nPING\r\n"
        )
        .unwrap();
        let mut reader = BufReader::new(stream);
        loop {
            let mut line = String::new();
            assert!(
                reader.read_line(&mut line).unwrap() > 0,
                "the server has closed the connection"
            );
            if line.starts_with("MSG answer") {
                let length = line.split_whitespace().last().unwrap().parse().unwrap();
                let mut payload = vec![0; length];
                reader.read_exact(&mut payload).unwrap();
                return String::from_utf8(payload).unwrap();
            }
        }
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Returns an address of loopback that nothing else of this machine listens on.
pub(crate) fn free_address() -> SocketAddr {
    let number = NEXT.fetch_add(1, Ordering::Relaxed) ^ (std::process::id() << 6);
    let [_, _, high, low] = number.to_be_bytes();
    let host = Ipv4Addr::new(127, 77, high, low.max(1));
    TcpListener::bind((host, 0)).unwrap().local_addr().unwrap()
}
