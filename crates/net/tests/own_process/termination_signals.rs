//! SIGTERM and SIGINT tied to a drain (L11).
//!
//! Without the test harness: each test starts this program again as the process to terminate, and sends it
//! signals.

use std::io::{BufRead, BufReader, Lines};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process, setrlimit};
use waterwheel_channel::{
    Address, Ctx, DrainOptions, Draining, EventLoopGroup, Handler, HandlerResult, Hold, Msg,
    ServerBootstrap, local,
};
use waterwheel_executor::{Clock, DEFAULT_QUIET_PERIOD};
use waterwheel_net::{Auto, Tcp, Terminate, TerminationSignal};

/// The environment variable with the role of the process.
const ROLE: &str = "WATERWHEEL_TEST_ROLE";

/// A process that has not exited is killed after this time.
const TIME_LIMIT: Duration = Duration::from_secs(20);

fn main() {
    match std::env::var(ROLE).as_deref() {
        Ok("drains") => drains(),
        Ok("idles") => idles(),
        Ok("hangs") => hangs(&Terminate::new().unwrap()),
        Ok("hangs with 7") => hangs(&Terminate::with_exit_status(7).unwrap()),
        Ok("waits") => waits(),
        Ok("has no descriptors") => has_no_descriptors(),
        Ok(other) => panic!("unknown role {other}"),
        Err(_) => {
            start_children_with_default_signals();
            l11_the_first_signal_drains_and_the_process_exits_normally();
            l11_an_idle_server_ends_without_a_quiet_period();
            l11_the_second_signal_exits_at_once();
            l11_the_first_signal_can_be_waited_for();
            l11_a_failed_installation_leaves_the_signal_handlers_unchanged();
            l11_a_hundred_busy_processes_receive_the_signal();
        }
    }
}

/// Catches SIGINT and SIGTERM in this process: execve(2) resets a caught signal to its default, but an
/// ignored signal stays ignored. A shell without job control starts background commands with SIGINT ignored.
fn start_children_with_default_signals() {
    for signal in [Signal::TERM, Signal::INT] {
        let always = Arc::new(AtomicBool::new(true));
        let status = 128 + signal.as_raw();
        signal_hook::flag::register_conditional_shutdown(signal.as_raw(), status, always)
            .expect("a signal that can be caught");
    }
}

// The process.

/// Prints "drain begins" when the drain begins, and releases the business thread.
struct Server(mpsc::Sender<Hold>);

impl Handler for Server {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.send(ctx.hold()).expect("main waits");
        Ok(())
    }

    fn on_user_event(&mut self, _: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.is::<Draining>() {
            println!("drain begins");
        }
        Ok(())
    }
}

/// Prints every message.
struct Client;

impl Handler for Client {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        println!("read {}", msg.get::<String>().map_or("something", |text| text));
        Ok(())
    }
}

fn drains() {
    let (servers, clients) = (group(), group());
    let (give, work) = mpsc::channel();
    let (ours, theirs) = local::pair();
    let client = theirs.initialiser(|edit| {
        edit.add_last("client", Client)?;
        Ok(())
    });
    let client = clients.register(client).join().unwrap();
    let server = ours.initialiser(|edit| {
        edit.add_last("server", Server(give))?;
        Ok(())
    });
    let _server = servers.register(server).join().unwrap();
    let hold = work.recv().unwrap();
    let terminate = Terminate::new().unwrap();
    terminate.drain(&servers, options());
    println!("ready");
    let business = thread::spawn(move || {
        terminate.first_signal().join().unwrap();
        hold.channel().send(String::from("the answer"));
        drop(hold);
    });
    servers.termination().join().unwrap();
    business.join().unwrap();
    client.closed().join().unwrap();
    println!("over");
}

/// A server with an idle connection, and drain options without a quiet period.
fn idles() {
    let group = group();
    let server = ServerBootstrap::new(&group, Tcp).bind("127.0.0.1:0").join().unwrap();
    let Some(Address::Ip(address)) = server.local_address() else { panic!("a bound server") };
    let client = std::net::TcpStream::connect(address).unwrap();
    Terminate::new().unwrap().drain(&group, DrainOptions::default());
    println!("ready");
    group.termination().join().unwrap();
    println!("over");
    drop(client);
}

fn hangs(terminate: &Terminate) {
    let group = group();
    let (ours, _theirs) = local::pair();
    let _hold = group.register(ours).join().unwrap().hold();
    terminate.drain(&group, options());
    println!("ready");
    terminate.first_signal().join().unwrap();
    println!("drain begins");
    group.termination().join().unwrap();
    println!("over");
}

fn waits() {
    let terminate = Terminate::new().unwrap();
    let called = Arc::new(AtomicBool::new(false));
    println!("ready");
    let signal = terminate.first_signal().join().unwrap();
    let (sender, events) = mpsc::channel();
    let late = called.clone();
    terminate.on_first_signal(move |signal| {
        late.store(true, Ordering::Relaxed);
        sender.send(signal).unwrap();
    });
    assert_eq!(events.recv().unwrap(), signal, "a late listener is called too");
    assert!(called.load(Ordering::Relaxed));
    println!("{signal}");
}

/// Lowers RLIMIT_NOFILE to leave two descriptors; opening a third fails with EMFILE.
fn has_no_descriptors() {
    let free = rustix::io::dup(std::io::stdout()).unwrap().as_raw_fd();
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(u64::try_from(free).unwrap() + 2);
    setrlimit(Resource::Nofile, limit).unwrap();
    Terminate::new().unwrap_err();
    let (_kept, never) = mpsc::channel::<()>();
    println!("ready");
    never.recv().unwrap();
}

fn group() -> EventLoopGroup {
    EventLoopGroup::builder(Auto).threads(1).build().unwrap()
}

fn options() -> DrainOptions {
    DrainOptions::within(10 * TIME_LIMIT).shutdown(Duration::ZERO, TIME_LIMIT).unwrap()
}

// The tests.

fn l11_the_first_signal_drains_and_the_process_exits_normally() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut process = Process::start("drains");
        process.expect_line("ready");
        process.signal(signal);
        // Two loops: the order of their lines is not defined.
        let mut said = [process.line(), process.line()];
        said.sort();
        assert_eq!(said, ["drain begins", "read the answer"]);
        process.expect_line("over");
        assert_eq!(process.status(), Some(0));
    }
}

fn l11_an_idle_server_ends_without_a_quiet_period() {
    let end = || {
        let mut process = Process::start("idles");
        process.expect_line("ready");
        let signalled = Clock::Monotonic.now();
        process.signal(Signal::TERM);
        process.expect_line("over");
        assert_eq!(process.status(), Some(0));
        Clock::Monotonic.now().since(signalled)
    };
    // A busy machine may delay some of them, a quiet period would delay all.
    assert!((0..5).any(|_| end() < DEFAULT_QUIET_PERIOD));
}

fn l11_the_second_signal_exits_at_once() {
    let expected = [
        ("hangs", Signal::TERM, TerminationSignal::Terminate.exit_status()),
        ("hangs", Signal::INT, TerminationSignal::Interrupt.exit_status()),
        ("hangs with 7", Signal::TERM, 7),
    ];
    for (role, second, status) in expected {
        let mut process = Process::start(role);
        process.expect_line("ready");
        process.signal(Signal::TERM);
        process.expect_line("drain begins");
        process.signal(second);
        assert_eq!(process.status(), Some(status), "{role}");
    }
    assert_eq!(TerminationSignal::Terminate.exit_status(), 143);
    assert_eq!(TerminationSignal::Interrupt.exit_status(), 130);
}

fn l11_the_first_signal_can_be_waited_for() {
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::INT, "SIGINT")] {
        let mut process = Process::start("waits");
        process.expect_line("ready");
        process.signal(signal);
        process.expect_line(name);
        assert_eq!(process.status(), Some(0));
    }
}

fn l11_a_failed_installation_leaves_the_signal_handlers_unchanged() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut process = Process::start("has no descriptors");
        process.expect_line("ready");
        process.signal(signal);
        assert_eq!(
            process.end().signal(),
            Some(signal.as_raw()),
            "the first signal ends the process"
        );
    }
}

/// No process hangs, and none loses the answer.
fn l11_a_hundred_busy_processes_receive_the_signal() {
    for _ in 0..100 {
        let mut process = Process::start("drains");
        process.expect_line("ready");
        process.signal(Signal::TERM);
        let said: Vec<_> = (0..3).map(|_| process.line()).collect();
        assert!(said.iter().any(|line| line == "read the answer"), "{said:?}");
        assert_eq!(process.status(), Some(0));
    }
}

/// A process of this program.
struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// Dropped when the process has exited, so that the watchdog does not kill it.
    _watch: mpsc::Sender<()>,
}

impl Process {
    fn start(role: &str) -> Self {
        let own = std::env::current_exe().expect("the path of this program");
        let command = Command::new(own).env(ROLE, role).stdout(Stdio::piped()).spawn();
        let mut child = command.expect("a process");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let (watch, ended) = mpsc::channel::<()>();
        let pid = Pid::from_child(&child);
        thread::spawn(move || {
            if ended.recv_timeout(TIME_LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        Self { child, lines, _watch: watch }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("a line of output").expect("in UTF-8")
    }

    #[track_caller]
    fn expect_line(&mut self, expected: &str) {
        assert_eq!(self.line(), expected);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a running process");
    }

    /// Waits for the exit status.
    fn status(self) -> Option<i32> {
        self.end().code()
    }

    fn end(mut self) -> ExitStatus {
        self.child.wait().expect("an exit status")
    }
}
