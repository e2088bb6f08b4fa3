//! A gateway in a process of its own, and those that take over from it.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use waterwheel::executor::Clock;

use super::LIMIT;

/// A gateway in a child process, killed on drop.
pub(crate) struct Process {
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
    stderr: Option<BufReader<ChildStderr>>,
    pub(crate) address: SocketAddr,
}

impl Process {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_from(program(), args)
    }

    /// Starts a gateway whose log the test reads.
    pub(crate) fn start_logged(args: &[&str]) -> Self {
        let mut command = program();
        command.stderr(Stdio::piped());
        Self::start_from(command, args)
    }

    /// Starts a gateway through another command, such as `prlimit`.
    pub(crate) fn start_by(command: &str, before: &[&str], args: &[&str]) -> Self {
        let mut command = Command::new(command);
        command.args(before).arg(env!("CARGO_BIN_EXE_gateway"));
        Self::start_from(command, args)
    }

    /// Starts a gateway with this standard output. The address comes from the kernel, because
    /// the output may be unwritable.
    pub(crate) fn start_into(stdout: impl Into<Stdio>, args: &[&str]) -> Self {
        let mut command = program();
        command.args(["--port", "0"]).args(args).stdin(Stdio::null()).stdout(stdout.into());
        let mut child = command.spawn().expect("the gateway starts");
        let begun = Clock::Monotonic.now();
        let address = loop {
            if let Some(address) = listening_address(child.id()) {
                break address;
            }
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "the gateway ended before it listened: {ended:?}");
            assert!(Clock::Monotonic.now().since(begun) < LIMIT, "the gateway does not listen");
            thread::yield_now();
        };
        Self { child, stdout: None, stderr: None, address }
    }

    /// Starts a gateway by this command, on a port of its own.
    pub(crate) fn start_from(mut command: Command, args: &[&str]) -> Self {
        command.args(["--port", "0"]).args(args).stdin(Stdio::null());
        Self::spawn(command)
    }

    /// Starts a gateway by this command, which has its arguments and its standard input.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the gateway starts");
        let stderr = child.stderr.take().map(BufReader::new);
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        stdout.read_line(&mut first).unwrap();
        let address = first.strip_prefix("listening on ").and_then(|rest| rest.split(';').next());
        let address = address.and_then(|address| address.parse().ok());
        let address =
            address.unwrap_or_else(|| panic!("the first line names the address: {first:?}"));
        Self { child, stdout: Some(stdout), stderr, address }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Reads the next line of its standard output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.stdout.as_mut().unwrap().read_line(&mut line).unwrap();
        assert!(read > 0, "its standard output has ended");
        line.trim_end().to_owned()
    }

    /// Reads its standard output up to a line with this text.
    pub(crate) fn line_with(&mut self, text: &str) -> String {
        loop {
            let line = self.line();
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Reads its log up to a line with this text.
    pub(crate) fn log_with(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.stderr.as_mut().unwrap().read_line(&mut line).unwrap();
            assert!(read > 0, "its log has ended, without {text:?}");
            if line.contains(text) {
                return line.trim_end().to_owned();
            }
        }
    }

    /// Waits for the end; returns the status and the rest of its log.
    pub(crate) fn wait_for_log(mut self) -> (ExitStatus, String) {
        let mut stderr = self.stderr.take().unwrap();
        let log = thread::spawn(move || {
            let mut rest = String::new();
            stderr.read_to_string(&mut rest).map(|_| rest)
        });
        let (status, _) = self.wait();
        (status, log.join().unwrap().unwrap())
    }

    /// Closes the reading end of its standard output.
    pub(crate) fn stop_reading(&mut self) {
        self.stdout = None;
    }

    /// Waits for the end; its standard output is not read.
    pub(crate) fn status(mut self) -> ExitStatus {
        wait_for_end(self.id());
        self.child.wait().unwrap()
    }

    /// Waits for the end; returns the status and the rest of its standard output.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let mut stdout = self.stdout.take().unwrap();
        let (ended, end) = mpsc::channel();
        thread::spawn(move || {
            let mut rest = String::new();
            // The end of the process closes the pipe.
            stdout.read_to_string(&mut rest).unwrap();
            ended.send(rest)
        });
        let rest = end.recv_timeout(LIMIT).expect("the gateway ends");
        (self.child.wait().unwrap(), rest)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that has taken over, killed on drop. It is no child of this one.
pub(crate) struct Successor(pub(crate) u32);

impl Successor {
    /// Reads the id from the line with which the old process tells it.
    pub(crate) fn of_line(line: &str) -> Self {
        let id = line.split(' ').nth(1).and_then(|id| id.parse().ok());
        Self(id.unwrap_or_else(|| panic!("no process in {line:?}")))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(pid(self.0), signal).unwrap();
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        let _ = kill_process(pid(self.0), Signal::KILL);
    }
}

/// Returns a command that starts the gateway.
pub(crate) fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_gateway"))
}

/// Waits until a process has ended, a child of this one or not.
pub(crate) fn wait_for_end(id: u32) {
    let Ok(process) = pidfd_open(pid(id), PidfdFlags::empty()) else { return };
    let limit = Timespec::try_from(LIMIT).unwrap();
    let mut ended = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
    assert_eq!(poll(&mut ended, Some(&limit)), Ok(1), "process {id} does not end");
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(id.try_into().unwrap()).unwrap()
}

/// Returns the IPv4 address on which a process listens, from `/proc`: the socket in state TCP_LISTEN (0A)
/// whose inode is among the process's file descriptors.
fn listening_address(pid: u32) -> Option<SocketAddr> {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let links = fds.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
    let own: Vec<String> = links.map(|link| link.display().to_string()).collect();
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).ok()?;
    table.lines().skip(1).find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (local, state, inode) = (*columns.get(1)?, *columns.get(3)?, *columns.get(9)?);
        if state != "0A" || !own.contains(&format!("socket:[{inode}]")) {
            return None;
        }
        let (ip, port) = local.split_once(':')?;
        // The kernel prints the four bytes of the address as one number of the machine's byte order.
        let ip = u32::from_str_radix(ip, 16).ok()?.to_ne_bytes();
        Some(SocketAddr::from((ip, u16::from_str_radix(port, 16).ok()?)))
    })
}
