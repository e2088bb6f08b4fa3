//! Another program at the other end of a connection.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// The longest silence of a program that a test waits for: a guard against a hang.
const SILENCE_LIMIT: Duration = Duration::from_secs(120);

/// A running program, whose output is collected; dropping the value kills it.
pub(crate) struct PeerProgram {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    pieces: Receiver<(Stream, Vec<u8>)>,
    /// Standard output and standard error so far, and how far [`wait_for`](Self::wait_for) has searched.
    outputs: [(Vec<u8>, usize); 2],
}

#[derive(Clone, Copy)]
enum Stream {
    Output,
    Error,
}

/// The whole output of a program that has ended.
#[derive(Debug)]
pub(crate) struct ProgramResult {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl PeerProgram {
    /// Starts a program.
    ///
    /// # Panics
    /// The program is not installed.
    pub(crate) fn start(command: &mut Command) -> Self {
        let name = format!("{command:?}");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = command.spawn();
        let mut child =
            started.unwrap_or_else(|error| panic!("{name}: {error}; scripts/test installs it"));
        let (sender, pieces) = channel();
        collect(Stream::Output, child.stdout.take().unwrap(), sender.clone());
        collect(Stream::Error, child.stderr.take().unwrap(), sender);
        let stdin = child.stdin.take();
        Self { name, child, stdin, pieces, outputs: Default::default() }
    }

    /// Runs a program without input to its end.
    pub(crate) fn run(command: &mut Command) -> ProgramResult {
        Self::start(command).finish()
    }

    /// Writes to the program's standard input.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(bytes).unwrap_or_else(|error| panic!("{}: {error}", self.name));
    }

    /// Writes more than a pipe holds, from a thread, and ends the input.
    pub(crate) fn send_in_background(&mut self, bytes: Vec<u8>) {
        let mut stdin = self.stdin.take().unwrap();
        // The program may end before it has read everything: what it has printed tells why.
        thread::spawn(move || stdin.write_all(&bytes).unwrap_or_default());
    }

    /// Ends the program's standard input.
    pub(crate) fn end_input(&mut self) {
        self.stdin = None;
    }

    /// Waits until the program prints this text, behind the text of the last call.
    pub(crate) fn wait_for(&mut self, text: &str) {
        while !self.search(text) {
            assert!(self.receive(), "{} ends without {text:?}: {}", self.name, self.text());
        }
    }

    /// Waits for a line that begins with this text, and returns the rest of it.
    pub(crate) fn wait_for_line(&mut self, prefix: &str) -> String {
        self.wait_for(prefix);
        loop {
            let (output, searched) = &self.outputs[Stream::Output as usize];
            let rest = &output[*searched..];
            if let Some(len) = rest.iter().position(|&byte| byte == b'\n') {
                return String::from_utf8_lossy(&rest[..len]).trim().to_owned();
            }
            assert!(self.receive(), "{} ends in a line: {}", self.name, self.text());
        }
    }

    fn search(&mut self, text: &str) -> bool {
        self.outputs.iter_mut().any(|(output, searched)| {
            let mut windows = output[*searched..].windows(text.len());
            let found = windows.position(|window| window == text.as_bytes());
            *searched += found.map_or(0, |at| at + text.len());
            found.is_some()
        })
    }

    /// Ends the input, and waits for the end of the program.
    pub(crate) fn finish(mut self) -> ProgramResult {
        self.end_input();
        while self.receive() {}
        let status = self.child.wait().unwrap();
        let [(stdout, _), (stderr, _)] = std::mem::take(&mut self.outputs);
        ProgramResult { status, stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() }
    }

    /// Kills the program (SIGKILL): the kernel ends its connections, without a word of TLS.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Takes the next piece of output. Returns false when there is no more.
    fn receive(&mut self) -> bool {
        match self.pieces.recv_timeout(SILENCE_LIMIT) {
            Ok((stream, piece)) => self.outputs[stream as usize].0.extend(piece),
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => panic!("{} hangs: {}", self.name, self.text()),
        }
        true
    }

    fn text(&self) -> String {
        self.outputs.iter().map(|(output, _)| String::from_utf8_lossy(output)).collect()
    }
}

impl ProgramResult {
    /// Returns both outputs as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned() + &self.stderr
    }

    /// Checks that the program has succeeded, and returns its standard output as text.
    pub(crate) fn expect_success(self) -> String {
        assert!(self.status.success(), "{}: {}", self.status, self.text());
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

impl Drop for PeerProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(stream: Stream, mut from: impl Read + Send + 'static, to: Sender<(Stream, Vec<u8>)>) {
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            if to.send((stream, buffer[..len].to_vec())).is_err() {
                return;
            }
        }
    });
}
