//! Inherited sockets: socket activation (C12).
//!
//! Without the test harness: each test starts this program again, with sockets as descriptors 3 and 4, in the
//! role of the server process.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_getfd};
use waterwheel_channel::{
    Ctx, EventLoopGroup, Handler, HandlerResult, Msg, NewChannel, ServerBootstrap,
};
use waterwheel_net::{Auto, InheritError, Inherited, Tcp};

/// The environment variable with the role of the process.
const ROLE: &str = "WATERWHEEL_TEST_ROLE";

/// Longer than any step takes.
const TIME_LIMIT: Duration = Duration::from_secs(20);

fn main() {
    match std::env::var(ROLE).as_deref() {
        Ok("serves") => serves(),
        Ok("takes") => takes(),
        Ok("takes twice") => takes_twice(),
        Ok("opens first") => opens_first(),
        Ok(other) => panic!("unknown role {other}"),
        Err(_) => {
            c12_inherited_sockets_are_served_under_their_names();
            c12_connections_made_before_the_process_started_are_served();
            c12_sockets_meant_for_another_process_are_left_alone();
            c12_a_descriptor_that_does_not_listen_is_named_and_nothing_is_taken();
            c12_a_process_without_sockets_has_none();
            c12_a_failed_take_cannot_be_repeated();
            c12_a_descriptor_opened_by_the_process_is_never_taken();
        }
    }
}

// The process.

/// Sends a greeting, then echoes.
struct Echo(String);

impl Handler for Echo {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.write_and_flush(bytes::Bytes::from(format!("{}\n", self.0)));
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write_and_flush(msg);
        Ok(())
    }
}

/// Greets accepted connections with the name of the socket.
struct Named(String);

impl Handler for Named {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let name = self.0.clone();
        let accepted = msg.take::<NewChannel>().expect("a connection").initialiser(move |edit| {
            edit.add_last("echo", Echo(name))?;
            Ok(())
        });
        drop(ctx.event_loop().handle().register(accepted));
        Ok(())
    }
}

fn serves() {
    let inherited = Inherited::take().unwrap();
    assert!(
        matches!(Inherited::take(), Err(InheritError::AlreadyTaken)),
        "a second take is refused"
    );
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let mut servers = Vec::new();
    for socket in inherited {
        assert!(fcntl_getfd(&socket).unwrap().contains(FdFlags::CLOEXEC));
        let (name, address) = (socket.name().to_owned(), socket.local_address().unwrap());
        let greeting = name.clone();
        let bootstrap = ServerBootstrap::new(&group, Tcp).initialiser(move |edit| {
            edit.add_last("named", Named(greeting.clone()))?;
            Ok(())
        });
        let server = bootstrap.listen_on(socket.into_listener().unwrap()).join().unwrap();
        assert_eq!(server.local_address(), Some(address.clone()));
        println!("{name} {address}");
        servers.push(server);
    }
    println!("ready");
    servers[0].closed().join().unwrap();
}

fn takes() {
    match Inherited::take() {
        Ok(inherited) => println!("{} taken", inherited.len()),
        Err(error) => println!("{error}"),
    }
    // All descriptors are still open.
    for fd in [3, 4] {
        println!("{fd} {}", state(fd));
    }
}

/// Calls `take` for one descriptor too many, then opens a listener under that number, and calls `take` again.
fn takes_twice() {
    println!("{}", Inherited::take().unwrap_err());
    let own = TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(own.as_raw_fd(), 5, "the missing number");
    match Inherited::take() {
        Ok(inherited) => println!("{} taken", inherited.len()),
        Err(error) => println!("{error}"),
    }
    assert_is_usable(&own);
}

/// Opens a listener under a number that the environment announces, and then calls `take`.
fn opens_first() {
    let own = TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(own.as_raw_fd(), 5);
    match Inherited::take() {
        Ok(inherited) => println!("{} taken", inherited.len()),
        Err(error) => println!("{error}"),
    }
    for fd in [3, 4] {
        println!("{fd} {}", state(fd));
    }
    assert_is_usable(&own);
}

/// Prints "usable" if the listener is still open.
fn assert_is_usable(own: &TcpListener) {
    let _peer = TcpStream::connect(own.local_addr().unwrap()).unwrap();
    own.accept().unwrap();
    println!("usable");
}

/// Returns whether a descriptor is open and whether it is close-on-exec.
fn state(fd: u32) -> &'static str {
    const CLOSED_ON_EXEC: u32 = 0o2_000_000;
    let Ok(known) = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")) else {
        return "is closed";
    };
    let flags = known.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    match flags.expect("flags in fdinfo") & CLOSED_ON_EXEC {
        0 => "is open",
        _ => "is open, and kept from others",
    }
}

// The tests.

/// A process of this program, killed at the end of its test.
struct Process {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts the process with `passed` as descriptors 3 and 4. A shell sets LISTEN_PID to its own
    /// pid, then execs the process, which keeps the pid.
    fn start(role: &str, passed: [OwnedFd; 2], environment: &str) -> Self {
        let script = format!("exec 3<&0 4<&2 0</dev/null 2>/dev/null; {environment} exec \"$0\"");
        let [third, fourth] = passed;
        let mut child = Command::new("/bin/sh")
            .args(["-c", &script])
            .arg(std::env::current_exe().unwrap())
            .env(ROLE, role)
            .stdin(Stdio::from(third))
            .stderr(Stdio::from(fourth))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, said }
    }

    fn next_line(&mut self) -> String {
        self.said.next().expect("a line of output").unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listen() -> (OwnedFd, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener.into(), address)
}

fn null() -> OwnedFd {
    std::fs::File::open("/dev/null").unwrap().into()
}

fn connect(to: SocketAddr) -> TcpStream {
    let peer = TcpStream::connect(to).unwrap();
    peer.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    peer
}

#[track_caller]
fn assert_greets(peer: &mut TcpStream, name: &str) {
    peer.write_all(b"ping").unwrap();
    let expected = format!("{name}\nping");
    let mut received = vec![0; expected.len()];
    peer.read_exact(&mut received).unwrap();
    assert_eq!(String::from_utf8(received).unwrap(), expected);
}

fn c12_inherited_sockets_are_served_under_their_names() {
    let ((one, at_one), (other, at_other)) = (listen(), listen());
    let environment = "LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=front:back";
    let mut process = Process::start("serves", [one, other], environment);
    assert_eq!(process.next_line(), format!("front {at_one}"));
    assert_eq!(process.next_line(), format!("back {at_other}"));
    assert_eq!(process.next_line(), "ready");
    assert_greets(&mut connect(at_one), "front");
    assert_greets(&mut connect(at_other), "back");
}

fn c12_connections_made_before_the_process_started_are_served() {
    let (listener, address) = listen();
    let mut early = connect(address);
    let mut process = Process::start("serves", [listener, null()], "LISTEN_PID=$$ LISTEN_FDS=1");
    assert_greets(&mut early, "unknown");
    assert_eq!(process.next_line(), format!("unknown {address}"));
}

fn c12_sockets_meant_for_another_process_are_left_alone() {
    let environment = format!("LISTEN_PID={} LISTEN_FDS=2", std::process::id());
    let mut process = Process::start("takes", [listen().0, listen().0], &environment);
    assert_eq!(process.next_line(), "0 taken");
    assert_eq!([process.next_line(), process.next_line()], ["3 is open", "4 is open"]);
}

fn c12_a_descriptor_that_does_not_listen_is_named_and_nothing_is_taken() {
    let environment = "LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=door:window";
    let mut process = Process::start("takes", [listen().0, null()], environment);
    let error = process.next_line();
    assert!(error.contains("descriptor 4 (`window`) is not a listening socket"), "{error}");
    assert_eq!([process.next_line(), process.next_line()], ["3 is open", "4 is open"]);
    let environment = "LISTEN_PID=$$ LISTEN_FDS=3";
    let mut process = Process::start("takes", [listen().0, listen().0], environment);
    let error = process.next_line();
    assert!(error.contains("descriptor 5 (`unknown`)"), "{error}");
    assert_eq!([process.next_line(), process.next_line()], ["3 is open", "4 is open"]);
}

fn c12_a_failed_take_cannot_be_repeated() {
    let environment = "LISTEN_PID=$$ LISTEN_FDS=3";
    let mut process = Process::start("takes twice", [listen().0, listen().0], environment);
    let missing = process.next_line();
    assert!(missing.contains("descriptor 5 (`unknown`)"), "{missing}");
    let again = process.next_line();
    assert!(again.contains("called before"), "{again}");
    assert_eq!(process.next_line(), "usable");
}

fn c12_a_descriptor_opened_by_the_process_is_never_taken() {
    let environment = "LISTEN_PID=$$ LISTEN_FDS=3 LISTEN_FDNAMES=a:b:c";
    let mut process = Process::start("opens first", [listen().0, listen().0], environment);
    let error = process.next_line();
    assert!(error.contains("descriptor 5 (`c`) was not inherited"), "{error}");
    assert_eq!([process.next_line(), process.next_line()], ["3 is open", "4 is open"]);
    assert_eq!(process.next_line(), "usable");
}

fn c12_a_process_without_sockets_has_none() {
    let mut process = Process::start("takes", [null(), null()], "");
    assert_eq!(process.next_line(), "0 taken");
}
