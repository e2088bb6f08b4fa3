//! The system calls of an answer with a file, counted by strace.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::site::{Site, curl, large_text, succeed};

/// The calls that find, open, describe, read and send files.
const TRACED: &str =
    "trace=openat,openat2,stat,lstat,fstat,newfstatat,statx,readlink,readlinkat,pread64,sendfile";

#[test]
fn h08_a_file_is_opened_in_one_call_and_described_in_another() {
    let site = Site::new("strace");
    let mut server = site.serve();
    let (url, trace) = (format!("http://{}", server.address()), site.file("trace"));
    let mut strace = Command::new("strace");
    strace.args(["-f", "-e", TRACED, "-p", &server.child.id().to_string()]).arg("-o").arg(&trace);
    let mut tracer = match strace.stderr(Stdio::piped()).spawn() {
        Ok(tracer) => tracer,
        Err(error) => return println!("not tested: strace: {error}"),
    };
    let (mut first, mut stderr) = (String::new(), BufReader::new(tracer.stderr.take().unwrap()));
    stderr.read_line(&mut first).unwrap();
    if !first.contains("attached") {
        tracer.wait().unwrap();
        return println!("not tested: strace: {first}");
    }
    for path in ["/pixel.png", "/large.bin", "/docs/", "/missing", "/docs"] {
        if succeed(curl().args(["--output", "/dev/null"]).arg(format!("{url}{path}"))).is_none() {
            break;
        }
    }
    server.child.kill().unwrap();
    // Also to its last word: without a reader it would end before it has written all calls.
    io::copy(&mut stderr, &mut io::sink()).unwrap();
    tracer.wait().unwrap();
    let trace = fs::read_to_string(&trace).unwrap();
    let calls: Vec<_> = trace
        .lines()
        .filter_map(|line| line.split_once(' ')?.1.trim_start().split_once('('))
        .filter(|(name, _)| name.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        .collect();
    let count = |wanted: &str| calls.iter().filter(|(name, _)| *name == wanted).count();
    // Two files, an index file, nothing, a folder: all but nothing are described.
    assert_eq!((count("openat2"), count("statx")), (5, 4), "{trace}");
    let sent = calls.iter().filter(|(name, _)| *name == "sendfile");
    let sent: u64 =
        sent.filter_map(|(_, rest)| rest.rsplit("= ").next()?.parse::<u64>().ok()).sum();
    assert_eq!(sent, 69 + large_text().len() as u64 + 11, "{trace}");
    assert_eq!(calls.len(), 9 + count("sendfile"), "no other calls: {trace}");
}
