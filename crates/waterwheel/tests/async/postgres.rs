//! A PostgreSQL server of Debian's package `postgresql`, started by the test.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, getuid, kill_process};

/// A running server at a Unix socket in a directory of its own; dropping the value ends it and removes the directory.
pub(crate) struct Postgres {
    child: Child,
    directory: PathBuf,
}

/// The name of the databases' owner, and of the first database.
const USER: &str = "postgres";

impl Postgres {
    /// Starts a server, and waits until it accepts connections.
    ///
    /// # Panics
    /// If PostgreSQL is not installed or does not start.
    pub(crate) fn start() -> Self {
        static SERVERS: AtomicU32 = AtomicU32::new(0);
        let number = SERVERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("waterwheel-postgres-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        let account = Account::of_the_server();
        account.own(&directory);
        let data = directory.join("data");

        let mut initdb = account.command("initdb");
        initdb.args(["--username", USER, "--auth", "trust", "--no-sync", "--locale", "C"]);
        let output = initdb.args(["--encoding", "UTF8", "--pgdata"]).arg(&data).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&text));

        let mut postgres = account.command("postgres");
        postgres.arg("-D").arg(&data).arg("-k").arg(&directory).args(["-c", "listen_addresses="]);
        postgres.args(["-c", "fsync=off", "-c", "shared_buffers=16MB"]);
        let mut child = postgres.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = child.stderr.take().unwrap();
        let server = Self { child, directory };
        wait_until_ready(BufReader::new(log));
        server
    }

    /// Returns how clients connect, in the form of libpq.
    pub(crate) fn config(&self) -> String {
        format!("host={} user={USER}", self.directory.display())
    }

    /// Ends the server as a crash does: connections break.
    pub(crate) fn crash(mut self) {
        self.end();
    }

    /// SIGQUIT is the immediate shutdown: the server ends its processes and does not wait for clients.
    fn end(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::QUIT);
        let _ = self.child.wait();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.end();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Waits for the log line of a server that accepts connections. A thread reads the later lines, so that the server never
/// blocks on them.
fn wait_until_ready(mut log: impl BufRead + Send + 'static) {
    let mut text = String::new();
    while !text.contains("ready to accept connections") {
        assert!(log.read_line(&mut text).unwrap() > 0, "PostgreSQL ended: {text}");
    }
    std::thread::spawn(move || io::copy(&mut log, &mut io::sink()));
}

/// The account of the server, which refuses to run as root: that of the package if the test is root's.
struct Account {
    user_and_group: Option<(u32, u32)>,
}

impl Account {
    fn of_the_server() -> Self {
        let is_root = getuid().is_root();
        Self { user_and_group: is_root.then(|| find_account(USER)) }
    }

    fn own(&self, directory: &Path) {
        if let Some((user, group)) = self.user_and_group {
            chown(directory, Some(user), Some(group)).unwrap();
        }
    }

    /// Returns a command that runs a program of PostgreSQL under this account. The program ends with the thread that
    /// starts it, even if that is killed.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "QUIT"]);
        if let Some((user, group)) = self.user_and_group {
            command.args([format!("--reuid={user}"), format!("--regid={group}")]);
            command.arg("--clear-groups");
        }
        command.arg("--").arg(find_program(program)).current_dir("/");
        command
    }
}

/// Returns the user and the group of an account in /etc/passwd.
fn find_account(name: &str) -> (u32, u32) {
    let accounts = fs::read_to_string("/etc/passwd").unwrap();
    let fields = accounts.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let account = fields.into_iter().find(|fields| fields[0] == name);
    let account = account.unwrap_or_else(|| panic!("no account `{name}`: {INSTALL}"));
    (account[2].parse().unwrap(), account[3].parse().unwrap())
}

const INSTALL: &str = "install PostgreSQL (apt-get install postgresql); `scripts/test` does";

/// Returns the path of a program of PostgreSQL, of the newest version that is installed. Debian has them outside of PATH.
fn find_program(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let versions = versions.filter_map(|entry| {
        let entry = entry.ok()?;
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        let program = entry.path().join("bin").join(name);
        program.exists().then_some((version, program))
    });
    versions.max().unwrap_or_else(|| panic!("no program `{name}`: {INSTALL}")).1
}
