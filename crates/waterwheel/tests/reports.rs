//! Reports of a program that has installed neither a reporter nor a tracing subscriber (R04).
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

/// Environment variable that selects the program.
const ROLE: &str = "WATERWHEEL_TEST_ROLE";

/// Time after which a process that has not ended is killed.
const LIMIT: Duration = Duration::from_secs(60);

/// Number of reports of a kind that are printed without delay; later reports are limited to one a second.
const BURST: usize = 32;

const FLOOD_LINES: usize = 50_000;
const CONNECTIONS: usize = 200;

// The programs.

#[test]
#[ignore = "the programs that the other tests start"]
fn program() {
    match std::env::var(ROLE).as_deref() {
        Ok("writes a string") => run(
            None,
            |edit| edit.add_last("app", WriteString).map(drop),
            |to| {
                ask(to, b"x");
            },
        ),
        Ok("fails") => run(
            None,
            |edit| edit.add_last("app", FailOnRead).map(drop),
            |to| {
                ask(to, b"x");
            },
        ),
        Ok("is flooded") => run(None, add_line_handlers, |to| {
            ask(to, &[&b"\xff\n".repeat(FLOOD_LINES)[..], b"quit\n"].concat());
        }),
        Ok("has many clients") => run(None, add_line_handlers, |to| {
            for _ in 0..CONNECTIONS {
                ask(to, b"\xff\nquit\n");
            }
        }),
        Ok("has a reporter") => run(Some(|_: &Report<'_>| {}), add_line_handlers, |to| {
            ask(to, b"\xff\nquit\n");
        }),
        Ok("gets a subscriber") => run(None, add_line_handlers, |to| {
            ask(to, b"\xff\nquit\n");
            tracing::subscriber::set_global_default(ToStdout)
                .expect("no subscriber is installed yet");
            ask(to, b"\xff\nquit\n");
        }),
        _ => {} // Without a role, the program does nothing.
    }
}

/// Serves while `client` runs, then drains the group.
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
    let Some(Address::Ip(address)) = server.local_address() else {
        panic!("the server is bound to an IP address")
    };
    client(address);
    group.drain(DrainOptions::default()).join().unwrap();
    group.termination().join().unwrap();
}

/// Sends bytes, and waits until the server has closed the connection.
fn ask(to: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(bytes).unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
}

/// Writes a message for which the pipeline has no encoder.
struct WriteString;

impl Handler for WriteString {
    fn on_read(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        ctx.write_and_flush(String::from("an answer"));
        ctx.close();
        Ok(())
    }
}

/// Fails with an error whose text has control characters.
struct FailOnRead;

impl Handler for FailOnRead {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        assert!(msg.is::<Bytes>());
        ctx.close();
        Err(Error::new("no \x1b[2Jsuch\nthing"))
    }
}

/// Adds a line codec and a handler that does not handle decoding errors.
fn add_line_handlers(edit: &mut Edit<'_>) -> Result<(), waterwheel::channel::PipelineError> {
    edit.add_codec("lines", LineDecoder::new(1024).text(), LineEncoder::new())?;
    edit.add_last("app", In(CloseOnQuit))?;
    Ok(())
}

/// Closes the channel at the line "quit".
struct CloseOnQuit;

impl InboundHandler for CloseOnQuit {
    type In = String;

    fn on_read(&mut self, ctx: &Ctx<'_>, line: String) -> HandlerResult {
        assert_eq!(line, "quit");
        ctx.close();
        Ok(())
    }
}

/// A tracing subscriber that prints events to standard output.
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
fn r04_without_a_subscriber_an_unencoded_message_is_printed_on_standard_error() {
    let printed = stderr_lines("writes a string");
    assert_eq!(printed.len(), 1, "{printed:?}");
    assert!(printed[0].starts_with("waterwheel: loop"), "{printed:?}");
    let why = "a message of type alloc::string::String cannot be written: the transport `tcp`";
    assert!(printed[0].contains(why), "{printed:?}");
}

#[test]
fn r04_without_a_subscriber_an_error_of_a_handler_is_printed_as_one_line() {
    let printed = stderr_lines("fails");
    let why = "an error reached the end of the pipeline [app], 1 so far: no \\u{1b}[2Jsuch\\nthing";
    assert!(printed.len() == 1 && printed[0].ends_with(why), "{printed:?}");
}

#[test]
fn r04_a_peer_cannot_cause_a_log_line_with_every_line_it_sends() {
    let printed = stderr_lines("is flooded");
    // Unhandled errors of a channel are reported at every doubling of their count.
    let max = FLOOD_LINES.ilog2() as usize + 1;
    assert!((1..=max).contains(&printed.len()), "{} lines: {printed:?}", printed.len());
}

#[test]
fn r04_peers_cannot_cause_a_log_line_with_every_connection() {
    let printed = stderr_lines("has many clients");
    let seconds = usize::try_from(LIMIT.as_secs()).unwrap();
    assert!((BURST..BURST + seconds).contains(&printed.len()), "{} lines", printed.len());
}

#[test]
fn r04_with_a_reporter_nothing_is_printed() {
    assert_eq!(stderr_lines("has a reporter"), Vec::<String>::new());
}

#[test]
fn r04_a_subscriber_installed_later_receives_later_reports() {
    let (status, stdout, stderr) = output(start("gets a subscriber", Stdio::piped()));
    assert!(status.success());
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let events = stdout.lines().filter(|line| line.starts_with("waterwheel ERROR message="));
    let events: Vec<_> = events.collect();
    assert!(events.len() == 1 && events[0].ends_with("executor=\"loop-0\""), "{stdout}");
}

#[test]
fn r04_an_unwritable_standard_error_neither_ends_nor_blocks_a_loop() {
    let full_device = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (reader, broken_pipe) = io::pipe().unwrap();
    drop(reader);
    let (unread, full_pipe) = io::pipe().unwrap();
    fill(&full_pipe);
    for stderr in [full_device.into(), broken_pipe.into(), full_pipe.into()] {
        let (status, ..) = output(start("is flooded", stderr));
        assert!(status.success(), "{status}");
    }
    drop(unread);
}

/// Fills a pipe, so that writes to it block.
fn fill(pipe: &io::PipeWriter) {
    rustix::io::ioctl_fionbio(pipe, true).unwrap();
    while rustix::io::write(pipe, &[b'x'; 4096]).is_ok() {}
    while rustix::io::write(pipe, b"x").is_ok() {}
    rustix::io::ioctl_fionbio(pipe, false).unwrap();
}

/// Runs a program to its successful end, and returns the lines it has printed to standard error.
fn stderr_lines(role: &str) -> Vec<String> {
    let (status, _, stderr) = output(start(role, Stdio::piped()));
    assert!(status.success(), "{status}: {stderr}");
    stderr.lines().map(String::from).collect()
}

fn start(role: &str, stderr: Stdio) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["program", "--exact", "--ignored", "--nocapture"]).env(ROLE, role);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap()
}

/// Waits for the end of a process, and kills it after [`LIMIT`].
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
