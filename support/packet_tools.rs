//! Runs tcpdump and tshark, for tests that read captures with them.
//!
//! A test that includes this file (`#[path = "…"] mod packet_tools;`) fails if the programs are missing; `scripts/test`
//! installs them (Debian packages `tcpdump` and `tshark`).
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::path::Path;
use std::process::Command;

/// Runs a program and returns its standard output.
fn run(program: &str, file: &Path, args: &[&str]) -> String {
    let output = Command::new(program).arg("-n").arg("-r").arg(file).args(args).output();
    let output = output
        .unwrap_or_else(|error| panic!("{program}: {error}; `scripts/test tests` installs it"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {errors}");
    assert!(!errors.contains("truncated"), "{program}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs `tcpdump -n -r FILE` with more arguments.
pub(crate) fn tcpdump(file: &Path, args: &[&str]) -> String {
    run("tcpdump", file, args)
}

/// Runs `tshark -n -r FILE` with more arguments.
pub(crate) fn tshark(file: &Path, args: &[&str]) -> String {
    run("tshark", file, args)
}

/// Returns the packets that tshark calls malformed, that have a wrong checksum, or that do not fit the TCP connection
/// they belong to; empty if there are none.
pub(crate) fn tshark_complaints(file: &Path) -> String {
    let bad = "_ws.malformed || _ws.unreassembled || tcp.analysis.flags || ip.checksum.status == \"Bad\" || \
               tcp.checksum.status == \"Bad\" || udp.checksum.status == \"Bad\" || _ws.expert.severity == \"Error\"";
    let checked = ["ip.check_checksum:TRUE", "tcp.check_checksum:TRUE", "udp.check_checksum:TRUE"];
    let [ip, tcp, udp] = checked;
    tshark(file, &["-o", ip, "-o", tcp, "-o", udp, "-Y", bad])
}

/// The bytes of a TCP stream, in each direction.
pub(crate) struct FollowedStream {
    pub(crate) from_initiator: Vec<u8>,
    pub(crate) from_acceptor: Vec<u8>,
}

/// Reassembles a stream by `tshark -z follow,tcp,raw,NUMBER`. The sender of its first bytes may be either side; the
/// initiator is found by its SYN.
pub(crate) fn follow_stream(file: &Path, number: usize) -> FollowedStream {
    let follow = format!("follow,tcp,raw,{number}");
    let text = tshark(file, &["-q", "-z", &follow]);
    let node = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
    };
    let (first, second) = (node("Node 0: "), node("Node 1: "));
    let (mut plain, mut indented) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let (target, digits) = match line.strip_prefix('\t') {
            Some(digits) => (&mut indented, digits),
            None => (&mut plain, line),
        };
        if !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
            target.extend((0..digits.len()).step_by(2).map(byte));
        }
    }
    let filter = format!("tcp.stream == {number} && tcp.flags.syn == 1 && tcp.flags.ack == 0");
    let fields = ["-e", "ip.src", "-e", "ipv6.src", "-e", "tcp.srcport"];
    let syn = tshark(file, &[&["-Y", &*filter, "-T", "fields"], &fields[..]].concat());
    let parts: Vec<_> = syn.split_whitespace().collect();
    let [host, port] = parts[..] else { panic!("one SYN: {syn:?}") };
    let is = |node: &str| {
        node.starts_with(host) && node.ends_with(&format!(":{port}"))
            || node == format!("[{host}]:{port}")
    };
    assert!(is(&first) != is(&second), "{host} {port} is {first} or {second}");
    // The lines of node 0 are plain, those of node 1 indented.
    match is(&first) {
        true => FollowedStream { from_initiator: plain, from_acceptor: indented },
        false => FollowedStream { from_initiator: indented, from_acceptor: plain },
    }
}
