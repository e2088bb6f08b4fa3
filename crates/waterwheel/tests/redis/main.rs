//! RESP and the `redis` example against other implementations: redis-cli, redis-benchmark and redis-py as clients,
//! redis-server as a server and as the reference for replies.
//!
//! A test whose program is not installed prints a note and passes; `scripts/test` installs the programs.

mod client_of_redis;
mod expiry;
mod pooled_client;
mod programs;
mod pubsub;
mod raw_client;
mod same_replies;
mod wire;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use waterwheel::channel::{Address, UnixAddress};

#[path = "../support/program.rs"]
mod program;
#[path = "../support/random.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod random;

/// Runs a program with this standard input, and returns its output, or `None` if it is not installed.
pub(crate) fn run_program(program: &str, args: &[&str], input: &str) -> Option<String> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("not tested: {program}: {error}");
            return None;
        }
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{program} {args:?}: {text}");
    Some(text)
}

/// A running redis-server at a Unix socket in a directory of its own; dropping the value kills it.
pub(crate) struct RedisServer {
    child: Child,
    directory: PathBuf,
}

impl RedisServer {
    /// Starts a server, or returns `None` if redis-server is not installed.
    pub(crate) fn start() -> Option<Self> {
        static SERVERS: AtomicU32 = AtomicU32::new(0);
        let number = SERVERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("waterwheel-redis-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--enable-debug-command", "yes"]);
        command.arg("--unixsocket").arg(directory.join("redis.sock")).arg("--dir").arg(&directory);
        match command.stdout(Stdio::piped()).spawn() {
            Ok(mut child) => {
                wait_for_output("ready to accept connections", child.stdout.take().unwrap());
                Some(Self { child, directory })
            }
            Err(error) => {
                println!("not tested: redis-server: {error}");
                None
            }
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join("redis.sock")
    }

    pub(crate) fn address(&self) -> Address {
        Address::Unix(UnixAddress::path(self.path()))
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Waits until a program prints this text. A thread reads the later output, so that the program never blocks on it.
fn wait_for_output(text: &str, mut stdout: impl Read + Send + 'static) {
    let mut all = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&all).contains(text) {
        assert_eq!(stdout.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&all));
        all.push(byte[0]);
    }
    std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
}
