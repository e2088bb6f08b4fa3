//! Clients over TCP and TLS, and gateways in this process or in a child process.
#![allow(dead_code, reason = "each test program uses what it needs")]

pub(crate) mod tls;

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use waterwheel::channel::Drained;
use waterwheel::executor::{Clock, Report, Reporter};
use waterwheel_gateway::gateway::{Gateway, GatewayConfig};

use self::tls::{Stream, TlsIdentity};

/// Upper bound of every wait; a test that reaches it fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A connected client.
pub(crate) struct Client {
    reader: BufReader<Stream>,
}

impl Client {
    /// Connects and reads the greeting.
    pub(crate) fn connect(to: SocketAddr) -> Self {
        let mut client = Self::connect_silently(to);
        client.expect("HELLO send USER name, or HELP");
        client
    }

    /// Connects without reading the greeting.
    pub(crate) fn connect_silently(to: SocketAddr) -> Self {
        Self::over(Stream::Plain(connect(to)))
    }

    /// Connects over TLS, trusting this identity, and reads the greeting.
    pub(crate) fn connect_tls(to: SocketAddr, server: &TlsIdentity) -> Self {
        let mut client = Self::connect_tls_silently(to, server, None);
        client.expect("HELLO send USER name, or HELP");
        client
    }

    /// Connects over TLS, with a certificate of its own if given, without reading the greeting.
    pub(crate) fn connect_tls_silently(
        to: SocketAddr,
        server: &TlsIdentity,
        own: Option<&TlsIdentity>,
    ) -> Self {
        Self::over(Stream::tls(connect(to), server, own))
    }

    /// Connects, over TLS if an identity is given, and takes a name.
    pub(crate) fn named_by(to: SocketAddr, server: Option<&TlsIdentity>, name: &str) -> Self {
        let mut client = match server {
            Some(server) => Self::connect_tls(to, server),
            None => Self::connect(to),
        };
        client.ask(&format!("USER {name}"), &format!("OK hello {name}"));
        client
    }

    /// Connects and takes a name.
    pub(crate) fn named(to: SocketAddr, name: &str) -> Self {
        Self::named_by(to, None, name)
    }

    fn over(stream: Stream) -> Self {
        Self { reader: BufReader::new(stream) }
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.reader.get_ref().tcp()
    }

    /// Returns the certificate of the gateway, in DER.
    pub(crate) fn server_certificate(&self) -> Vec<u8> {
        self.reader.get_ref().server_certificate()
    }

    /// Sends these bytes.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("the gateway reads");
    }

    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes.as_ref())
    }

    /// Sends a line.
    pub(crate) fn say(&mut self, line: &str) {
        self.send(format!("{line}\n"));
    }

    /// Reads the next line; `None` at EOF.
    pub(crate) fn hear(&mut self) -> Option<String> {
        self.try_hear().expect("a line, or the end")
    }

    pub(crate) fn try_hear(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        assert_eq!(line.pop(), Some('\n'), "a line ends: {line:?}");
        Ok(Some(line))
    }

    /// Reads a line and asserts its text.
    pub(crate) fn expect(&mut self, line: &str) {
        assert_eq!(self.hear().as_deref(), Some(line));
    }

    /// Asserts EOF.
    pub(crate) fn expect_end(&mut self) {
        assert_eq!(self.hear(), None);
    }

    /// Sends a line and asserts the reply.
    pub(crate) fn ask(&mut self, line: &str, answer: &str) {
        self.say(line);
        assert_eq!(self.hear().as_deref(), Some(answer), "to {line:?}");
    }

    /// Shuts down the output: with close_notify, if there is TLS.
    pub(crate) fn finish(&mut self) {
        self.reader.get_mut().finish();
    }
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&to, LIMIT).expect("the gateway listens");
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Collects reports.
#[derive(Clone, Default)]
pub(crate) struct Reports(Arc<Mutex<Vec<String>>>);

impl Reports {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Reporter for Reports {
    fn report(&self, report: &Report<'_>) {
        self.0.lock().unwrap().push(report.fault.to_string());
    }
}

/// A gateway in this process.
pub(crate) struct InProcess {
    pub(crate) gateway: Gateway,
    pub(crate) reports: Reports,
    pub(crate) address: SocketAddr,
}

impl InProcess {
    pub(crate) fn start(change: impl FnOnce(&mut GatewayConfig)) -> Self {
        let drain = LIMIT;
        let mut config = GatewayConfig { port: 0, drain, ..GatewayConfig::default() };
        change(&mut config);
        let reports = Reports::default();
        let reporter: Arc<dyn Reporter> = Arc::new(reports.clone());
        let gateway = Gateway::start(&config, &reporter).expect("any port will do");
        let address = gateway.address().unwrap();
        Self { gateway, reports, address }
    }

    pub(crate) fn client(&self, name: &str) -> Client {
        Client::named(self.address, name)
    }

    /// Drains the gateway; asserts that nothing is left and nothing was reported.
    pub(crate) fn end(self) {
        assert_eq!(self.gateway.drain().unwrap(), Drained::Complete);
        assert_eq!(self.gateway.client_counts(), Default::default(), "no client is left");
        assert_eq!(self.reports.all(), Vec::<String>::new(), "nothing was reported");
    }
}

/// A gateway in a child process, killed on drop.
pub(crate) struct Process {
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
    stderr: Option<BufReader<ChildStderr>>,
    pub(crate) address: SocketAddr,
}

impl Process {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_from(Command::new(env!("CARGO_BIN_EXE_gateway")), args)
    }

    /// Starts a gateway whose log the test reads.
    pub(crate) fn start_logged(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gateway"));
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
        let mut command = Command::new(env!("CARGO_BIN_EXE_gateway"));
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

    /// Starts a gateway by this command.
    pub(crate) fn start_from(mut command: Command, args: &[&str]) -> Self {
        command.args(["--port", "0"]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the gateway starts");
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
        self.stdout.as_mut().unwrap().read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Reads the next line of its log.
    pub(crate) fn log_line(&mut self) -> String {
        let mut line = String::new();
        self.stderr.as_mut().unwrap().read_line(&mut line).unwrap();
        line.trim_end().to_owned()
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
        let pid = Pid::from_child(&self.child);
        let (over, ended) = mpsc::channel::<()>();
        let watch = thread::spawn(move || {
            if ended.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                kill_process(pid, Signal::KILL).unwrap();
            }
        });
        let status = self.child.wait().unwrap();
        drop(over);
        watch.join().unwrap();
        status
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
