//! Autobahn's suite (W04): its fuzzing client against a server by async functions, its fuzzing server against a client by
//! handlers, both with compression that keeps its context where the other side lets it.
//!
//! An ordinary run has the cases that are quick; `scripts/test autobahn` has all of them, optimised. The reports, with
//! every frame of a case, stay in `target/tmp/autobahn`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use waterwheel::channel::{Bootstrap, HandlerResult};
use waterwheel::executor::Error;
use waterwheel::http::{Client, Request, Response, serve};
use waterwheel::net::Tcp;
use waterwheel::websocket::{
    DeflateOptions, HandshakeError, WebSocket, WebSocketConnector, WebSocketContext,
    WebSocketHandler, WebSocketLimits, WebSocketMessage, WebSocketOptions, WebSocketUpgrade,
};

use crate::autobahn_report::failed_cases;
use crate::peer_program::PeerProgram;
use crate::support::{beside_the_build, one_loop};

/// All cases of the suite.
const ALL: CaseSelection = CaseSelection { patterns: r#"["*"]"#, count: 517 };

/// The cases that take seconds in all: without large messages (9) and most texts (6), and with one flood of compressed messages of
/// each kind (12, 13).
const QUICK: CaseSelection = CaseSelection {
    patterns: r#"["1.*", "2.*", "3.*", "4.*", "5.*", "6.1.*", "6.2.*", "6.3.*", "7.*", "10.*", "12.1.1", "13.7.1"]"#,
    count: 113,
};

/// The cases of a run, as patterns of the suite, and their number.
struct CaseSelection {
    patterns: &'static str,
    count: usize,
}

/// A run of the suite: its program, and the folder of its report.
struct SuiteRun {
    program: PeerProgram,
    report: PathBuf,
    cases: Vec<String>,
}

impl SuiteRun {
    /// Starts the suite in a mode. Returns `None` if it is not installed.
    fn start(mode: &str, selection: &CaseSelection, fields: &str) -> Option<Self> {
        let python = beside_the_build("autobahn/python2.7");
        if !python.exists() {
            println!("not tested: Autobahn's suite is missing; scripts/test installs it");
            return None;
        }
        let name = format!("{mode}-{}", selection.count);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("autobahn").join(name);
        let _ = fs::remove_dir_all(&folder); // The report of the last run.
        fs::create_dir_all(&folder).unwrap();
        let (report, specification) = (folder.join("report"), folder.join("specification.json"));
        let (outdir, patterns) = (report.display(), selection.patterns);
        fs::write(
            &specification,
            format!(r#"{{"outdir": "{outdir}", "cases": {patterns}, {fields}}}"#),
        )
        .unwrap();
        let mut command = Command::new(python);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/websocket/peers/wstest.py"));
        command.args(["--mode", mode, "--webport", "0", "--spec"]).arg(&specification);
        command.env("PYTHONUNBUFFERED", "1").current_dir(&folder);
        let mut program = PeerProgram::start(&mut command);
        let cases = program.wait_for_line("Cases = ");
        let cases = cases.split('\'').filter(|text| text.contains('.')).map(str::to_owned);
        let cases: Vec<_> = cases.collect();
        assert_eq!(cases.len(), selection.count, "the cases of {patterns}");
        Some(Self { program, report, cases })
    }
}

/// Fails if a case has not passed, or has no result.
fn check_report(folder: &Path, cases: &[String]) {
    let index = fs::read_to_string(folder.join("index.json")).expect("a report");
    let failed = failed_cases(&index, cases).unwrap();
    let (count, all) = (failed.len(), cases.len());
    assert!(failed.is_empty(), "{count} of {all} cases failed:\n{}", failed.join("\n"));
}

/// Returns options that take the largest message of the suite, 16 MiB, and compress as the other side likes. Without
/// pings: the suite counts frames, and writes its report for seconds.
fn options() -> WebSocketOptions {
    let deflate =
        DeflateOptions::builder().context_takeover(true).peer_context_takeover(true).build();
    WebSocketOptions::builder()
        .limits(WebSocketLimits::default().max_message(16 * 1024 * 1024))
        .ping_interval(Duration::MAX)
        .deflate(deflate.unwrap())
        .build()
        .unwrap()
}

fn check_server(selection: &CaseSelection) {
    let (group, options) = (one_loop(), options());
    let service = async move |request: Request| {
        let upgrade = WebSocketUpgrade::of(&request, &options)?;
        Ok::<Response, HandshakeError>(upgrade.run(echo_to_end))
    };
    let server = serve(&group, Tcp, ("127.0.0.1", 0), service).join().unwrap();
    let url = format!("ws://{}", server.local_address().unwrap());
    let servers = format!(r#""servers": [{{"agent": "waterwheel", "url": "{url}"}}]"#);
    let Some(run) = SuiteRun::start("fuzzingclient", selection, &servers) else { return };
    run.program.finish().expect_success();
    check_report(&run.report, &run.cases);
}

fn check_client(selection: &CaseSelection) {
    let url = r#""url": "ws://127.0.0.1:9001""#;
    let Some(mut run) = SuiteRun::start("fuzzingserver", selection, url) else { return };
    let port = run.program.wait_for_line("listening on ");
    let (group, count) = (one_loop(), selection.count);
    let client = Client::builder(Bootstrap::new(&group, Tcp)).build().unwrap();
    let connector = WebSocketConnector::new(client).options(options());
    let clients = group.spawn_with(move || async move {
        let server = format!("ws://127.0.0.1:{port}");
        for case in 1..=count {
            echo(&connector, &format!("{server}/runCase?case={case}&agent=waterwheel")).await?;
        }
        echo(&connector, &format!("{server}/updateReports?agent=waterwheel")).await
    });
    clients.unwrap().join().unwrap().unwrap();
    check_report(&run.report, &run.cases);
}

/// Sends back what a case sends, to the end of its connection.
async fn echo(connector: &WebSocketConnector, url: &str) -> Result<(), Error> {
    let channel = connector.request(url).connect_with(Echo).await?;
    // Many cases end with a violation of the protocol: the suite judges how it was answered.
    let _ = channel.closed().await;
    Ok(())
}

/// The handler of the client.
struct Echo;

impl WebSocketHandler for Echo {
    fn on_message(
        &mut self,
        socket: &WebSocketContext<'_>,
        message: WebSocketMessage,
    ) -> HandlerResult {
        Ok(socket.send(message)?)
    }
}

/// The function of a connection of the server.
async fn echo_to_end(mut socket: WebSocket) -> Result<(), Error> {
    while let Some(message) = socket.next().await {
        // An error is a violation of the protocol, as above.
        let Ok(message) = message else { continue };
        socket.send(message).await?;
    }
    Ok(())
}

#[test]
fn w04_the_server_passes_the_quick_cases_of_autobahn() {
    check_server(&QUICK);
}

#[test]
fn w04_the_client_passes_the_quick_cases_of_autobahn() {
    check_client(&QUICK);
}

#[test]
#[ignore = "minutes: `scripts/test autobahn` runs it"]
fn w04_the_server_passes_all_cases_of_autobahn() {
    check_server(&ALL);
}

#[test]
#[ignore = "minutes: `scripts/test autobahn` runs it"]
fn w04_the_client_passes_all_cases_of_autobahn() {
    check_client(&ALL);
}
