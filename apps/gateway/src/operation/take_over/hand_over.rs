//! Starts the new process, gives it the sockets, and waits until it is ready.

use std::ffi::OsString;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use thiserror::Error;
use waterwheel::executor::Clock;

use super::handed_sockets::send_sockets;
use super::{READY, VARIABLE};
use crate::port::listening_socket::ListeningSocket;

/// Variables that are for the old process alone.
const OWN_VARIABLES: [&str; 4] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"];

/// A take-over that is under way. Dropping it kills the new process, unless that is ready.
#[derive(Debug)]
pub struct HandOver {
    /// The thread's end of the connection; shutting it down ends the wait.
    stream: UnixStream,
    waiting: Option<JoinHandle<()>>,
}

/// Why a take-over failed. The old process goes on.
#[derive(Debug, Error)]
pub enum TakeOverError {
    /// The program cannot be started.
    #[error("{} cannot be started: {cause}", program.display())]
    Start {
        /// The program.
        program: OsString,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// The sockets cannot be sent.
    #[error("the new process did not get the sockets: {0}")]
    Sockets(io::Error),
    /// The new process has ended, or closed the connection.
    #[error("the new process ended before it was ready: {0}")]
    Ended(String),
    /// The new process has not become ready.
    #[error("the new process was not ready within {} seconds", limit.as_secs_f64())]
    Timeout {
        /// The limit.
        limit: Duration,
    },
}

impl HandOver {
    /// Starts the program of this process's arguments and gives it the sockets. `on_end` is called on a thread of its own with
    /// the id of the new process, once that is ready, or with the reason why it is not; the new process is dead by then.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn begin(
        sockets: &[ListeningSocket],
        limit: Duration,
        on_end: impl FnOnce(Result<u32, TakeOverError>) + Send + 'static,
    ) -> Result<Self, TakeOverError> {
        let (stream, theirs) = UnixStream::pair().map_err(TakeOverError::Sockets)?;
        let fds: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
        // Waits in the connection until the new process reads it.
        send_sockets(&stream, &fds).map_err(TakeOverError::Sockets)?;
        let of_thread = stream.try_clone().map_err(TakeOverError::Sockets)?;
        let mut child = start_program(theirs)?;
        let wait = move || on_end(wait_until_ready(&mut child, of_thread, limit));
        let waiting = thread::Builder::new().name(String::from("take-over")).spawn(wait);
        // Without the thread, the child ends: its connection has no other end.
        let waiting = waiting.map_err(TakeOverError::Sockets)?;
        Ok(Self { stream, waiting: Some(waiting) })
    }
}

impl Drop for HandOver {
    fn drop(&mut self) {
        // Fails if the new process has shut it down.
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(waiting) = self.waiting.take() {
            let _ = waiting.join();
        }
    }
}

/// Starts the program as this process was started. The file of that name may be a newer one by now.
fn start_program(connection: UnixStream) -> Result<Child, TakeOverError> {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_else(|| OsString::from("/proc/self/exe"));
    let mut command = Command::new(&program);
    command.args(arguments).env(VARIABLE, "1").stdin(Stdio::from(OwnedFd::from(connection)));
    OWN_VARIABLES.iter().for_each(|name| _ = command.env_remove(name));
    command.spawn().map_err(|cause| TakeOverError::Start { program, cause })
}

/// Waits until the new process is ready; otherwise kills it.
fn wait_until_ready(
    child: &mut Child,
    stream: UnixStream,
    limit: Duration,
) -> Result<u32, TakeOverError> {
    let outcome = read_ready(stream, limit);
    if matches!(outcome, Ok(true)) {
        return Ok(child.id());
    }
    // A process that has ended by itself keeps its status.
    let _ = child.kill();
    let status = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
    match outcome {
        Err(error) if is_timeout(&error) => Err(TakeOverError::Timeout { limit }),
        _ => Err(TakeOverError::Ended(status)),
    }
}

/// Returns true if the new process said that it is ready; false if it closed the connection, or said something else.
fn read_ready(mut stream: UnixStream, limit: Duration) -> io::Result<bool> {
    let began = Clock::Monotonic.now();
    let mut said = Vec::new();
    while said.len() < READY.len() {
        let left = limit.saturating_sub(Clock::Monotonic.now().since(began));
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut bytes = [0; READY.len()];
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(false),
            Ok(count) => said.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(said == READY)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn g07_a_process_is_ready_when_it_has_said_so_in_full() {
        let limit = Duration::from_secs(20);
        let said = |parts: &[&[u8]]| {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            parts.iter().for_each(|part| theirs.write_all(part).unwrap());
            drop(theirs);
            read_ready(ours, limit).unwrap()
        };
        assert!(said(&[READY]) && said(&[b"rea", b"dy\n"]));
        assert!(!said(&[]) && !said(&[b"read"]) && !said(&[b"hello\n"]));
    }

    #[test]
    fn g07_a_process_that_says_nothing_is_waited_for_no_longer_than_the_limit() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let error = read_ready(ours, Duration::from_millis(20)).unwrap_err();
        assert!(is_timeout(&error), "{error}");
    }
}
