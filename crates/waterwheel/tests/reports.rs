//! What a program that has installed nothing shows of its faults (R04).
//!
//! Each test starts one of the programs below in a process of its own, and reads its standard error.

use std::fmt::{self, Write as _};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};
use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Address, Channel, Ctx, DrainOptions, Edit, EventLoopGroup, Handler, HandlerResult, In,
    InboundHandler, Msg, ServerBootstrap,
};
use waterwheel::codec::{LineDecoder, LineEncoder};
use waterwheel::executor::{Error, Report};
use waterwheel::net::{Auto, Tcp};

/// Which program the process is, in its environment.
const ROLE: &str = "WATERWHEEL_TEST_ROLE";

/// A process that should have ended is killed after this time.
const LIMIT: Duration = Duration::from_secs(60);

/// Reports of a kind that are written at once; then one a second.
const BURST: usize = 32;

const FLOOD: usize = 50_000;
const CONNECTIONS: usize = 200;

// The programs.

#[test]
#[ignore = "the programs that the other tests start"]
fn program() {
    match std::env::var(ROLE).as_deref() {
        Ok("writes a string") => run(
            None,
            |edit| edit.add_last("app", Writes).map(drop),
            |to| {
                ask(to, b"x");
            },
        ),
        Ok("fails") => run(
            None,
            |edit| edit.add_last("app", Fails).map(drop),
            |to| {
                ask(to, b"x");
            },
        ),
        Ok("is flooded") => run(None, lines, |to| {
            ask(to, &[&b"\xff\n".repeat(FLOOD)[..], b"quit\n"].concat());
        }),
        Ok("has many clients") => run(None, lines, |to| {
            for _ in 0..CONNECTIONS {
                ask(to, b"\xff\nquit\n");
            }
        }),
        Ok("has a reporter") => run(Some(|_: &Report<'_>| {}), lines, |to| {
            ask(to, b"\xff\nquit\n");
        }),
        Ok("gets a subscriber") => run(None, lines, |to| {
            ask(to, b"\xff\nquit\n");
            tracing::subscriber::set_global_default(ToStdout).expect("there was none");
            ask(to, b"\xff\nquit\n");
        }),
        _ => {} // By itself it has nothing to do.
    }
}

/// Serves while `client` runs, and ends.
fn run(
    reporter: Option<fn(&Report<'_>)>,
    pipeline: fn(&mut Edit<'_>) -> Result<(), waterwheel::channel::PipelineError>,
    client: impl FnOnce(SocketAddr),
) {
    let mut builder = EventLoopGroup::builder(Auto).threads(1).name("loop");
    if let Some(reporter) = reporter {
        builder = builder.reporter(Arc::new(reporter));
    }
    let group = builder.build().unwrap();
    let server: Channel = ServerBootstrap::new(&group, Tcp)
        .child_initialiser(move |edit| Ok(pipeline(edit)?))
        .bind("127.0.0.1:0")
        .join()
        .unwrap();
    let Some(Address::Ip(address)) = server.local_address() else { panic!("it is bound") };
    client(address);
    group.drain(DrainOptions::default()).join().unwrap();
    group.termination().join().unwrap();
}

/// Sends something, and waits until the server has ended the connection.
fn ask(to: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(bytes).unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
}

/// Answers with what nobody encodes.
struct Writes;

impl Handler for Writes {
    fn on_read(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        ctx.write_and_flush(String::from("an answer"));
        ctx.close();
        Ok(())
    }
}

struct Fails;

impl Handler for Fails {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        assert!(msg.is::<Bytes>());
        ctx.close();
        Err(Error::new("no \x1b[2Jsuch\nthing"))
    }
}

/// Reads lines of text; nobody deals with what is none.
fn lines(edit: &mut Edit<'_>) -> Result<(), waterwheel::channel::PipelineError> {
    edit.add_codec("lines", LineDecoder::new(1024).text(), LineEncoder::new())?;
    edit.add_last("app", In(Quits))?;
    Ok(())
}

struct Quits;

impl InboundHandler for Quits {
    type In = String;

    fn on_read(&mut self, ctx: &Ctx<'_>, line: String) -> HandlerResult {
        assert_eq!(line, "quit");
        ctx.close();
        Ok(())
    }
}

/// Writes the messages of events to standard output.
struct ToStdout;

impl Subscriber for ToStdout {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        println!("{} {}{}", event.metadata().target(), event.metadata().level(), fields.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

// The tests.

#[test]
fn r04_without_a_subscriber_a_message_nobody_encodes_is_shown_on_standard_error() {
    let shown = shown("writes a string");
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert!(shown[0].starts_with("waterwheel: loop"), "{shown:?}");
    let why = "a message of type alloc::string::String cannot be written: the transport `tcp`";
    assert!(shown[0].contains(why), "{shown:?}");
}

#[test]
fn r04_without_a_subscriber_an_error_of_a_handler_is_shown_as_one_line() {
    let shown = shown("fails");
    let why = "an error reached the end of the pipeline [app], 1 so far: no \\u{1b}[2Jsuch\\nthing";
    assert!(shown.len() == 1 && shown[0].ends_with(why), "{shown:?}");
}

#[test]
fn r04_a_peer_cannot_write_a_line_of_the_log_with_every_line_it_sends() {
    let shown = shown("is flooded");
    // Once per doubling.
    let most = FLOOD.ilog2() as usize + 1;
    assert!((1..=most).contains(&shown.len()), "{} lines: {shown:?}", shown.len());
}

#[test]
fn r04_peers_cannot_write_a_line_of_the_log_with_every_connection() {
    let shown = shown("has many clients");
    let seconds = usize::try_from(LIMIT.as_secs()).unwrap();
    assert!((BURST..BURST + seconds).contains(&shown.len()), "{} lines", shown.len());
}

#[test]
fn r04_a_reporter_of_the_users_gets_what_would_be_shown() {
    assert_eq!(shown("has a reporter"), Vec::<String>::new());
}

#[test]
fn r04_a_subscriber_that_is_installed_later_gets_what_follows() {
    let (status, stdout, stderr) = output(start("gets a subscriber", Stdio::piped()));
    assert!(status.success());
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let told = stdout.lines().filter(|line| line.starts_with("waterwheel ERROR message="));
    let told: Vec<_> = told.collect();
    assert!(told.len() == 1 && told[0].ends_with("executor=\"loop-0\""), "{stdout}");
}

#[test]
fn r04_a_standard_error_that_takes_nothing_neither_ends_nor_holds_a_loop() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (reader, nobody_reads) = io::pipe().unwrap();
    drop(reader);
    let (kept, no_room) = io::pipe().unwrap();
    fill(&no_room);
    for stderr in [full.into(), nobody_reads.into(), no_room.into()] {
        let (status, ..) = output(start("is flooded", stderr));
        assert!(status.success(), "{status}");
    }
    drop(kept);
}

/// Fills a pipe, so that whoever writes to it waits.
fn fill(pipe: &io::PipeWriter) {
    rustix::io::ioctl_fionbio(pipe, true).unwrap();
    while rustix::io::write(pipe, &[b'x'; 4096]).is_ok() {}
    while rustix::io::write(pipe, b"x").is_ok() {}
    rustix::io::ioctl_fionbio(pipe, false).unwrap();
}

/// The lines that the program has written to standard error; it has ended well.
fn shown(role: &str) -> Vec<String> {
    let (status, _, stderr) = output(start(role, Stdio::piped()));
    assert!(status.success(), "{status}: {stderr}");
    stderr.lines().map(String::from).collect()
}

fn start(role: &str, stderr: Stdio) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["program", "--exact", "--ignored", "--nocapture"]).env(ROLE, role);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap()
}

/// Waits for the end of a process, and kills one that has none.
fn output(child: Child) -> (ExitStatus, String, String) {
    let (pid, (over, ended)) = (Pid::from_child(&child), mpsc::channel::<()>());
    let watch = thread::spawn(move || {
        if ended.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
            kill_process(pid, Signal::KILL).unwrap();
        }
    });
    let output = child.wait_with_output().unwrap();
    drop(over);
    watch.join().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status, text(output.stdout), text(output.stderr))
}
