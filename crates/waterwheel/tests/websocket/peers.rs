//! The programs of `peers/` at the other end of a connection: commands that run them, if what they need is installed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::peer_program::PeerProgram;
use crate::support::beside_the_build;

/// The jars of Debian's libnetty-java.
const JARS: [&str; 7] =
    ["buffer", "codec", "codec-http", "common", "handler", "resolver", "transport"];

/// The directory of the compiled program of Netty. Compiled once for all tests.
static NETTY_CLASSES: LazyLock<PathBuf> = LazyLock::new(|| {
    let classes = Path::new(env!("CARGO_TARGET_TMPDIR")).join("websocket/netty_classes");
    std::fs::create_dir_all(&classes).unwrap();
    let mut command = Command::new("javac");
    command.args(["-encoding", "UTF-8", "-cp", &jars().join(":"), "-d"]).arg(&classes);
    PeerProgram::run(command.arg(source("NettyWebSocketPeer.java"))).expect_success();
    classes
});

fn jars() -> [String; 7] {
    JARS.map(|jar| format!("/usr/share/java/netty-{jar}.jar"))
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/websocket/peers").join(name)
}

/// Returns true if this file is there; else prints what is not tested.
fn is_installed(tool: &str, file: &Path) -> bool {
    let exists = file.exists();
    if !exists {
        println!("not tested: {tool} is missing; scripts/test installs it: {}", file.display());
    }
    exists
}

/// Returns a command that runs the program with Python's websockets.
pub(crate) fn python_peer() -> Option<Command> {
    let python = beside_the_build("websockets/bin/python3");
    let mut command = Command::new(&python);
    command.arg(source("python_peer.py")).env("PYTHONUNBUFFERED", "1");
    is_installed("Python's websockets", &python).then_some(command)
}

/// Returns a command that runs the program with Node's ws.
pub(crate) fn node_peer() -> Option<Command> {
    node("ws", "node_peer.js")
}

/// Returns a command that runs the program with Chromium.
pub(crate) fn chromium_peer() -> Option<Command> {
    let is_complete = is_installed("Chromium", Path::new("/usr/bin/chromium"));
    is_complete.then(|| node("playwright-core", "chromium_peer.js"))?
}

/// Returns a command of Node with a package that is installed beside the build.
fn node(package: &str, program: &str) -> Option<Command> {
    let modules = beside_the_build(package).join("node_modules");
    let mut command = Command::new("node");
    command.arg(source(program)).env("NODE_PATH", &modules);
    is_installed(package, &modules.join(package)).then_some(command)
}

/// Returns a command that runs the program with Netty; quick to start rather than quick to run.
pub(crate) fn netty_peer() -> Option<Command> {
    if !jars().iter().all(|jar| is_installed("libnetty-java", Path::new(jar))) {
        return None;
    }
    let mut command = Command::new("java");
    command.args([
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Dfile.encoding=UTF-8",
        "-Dstdout.encoding=UTF-8",
        "-cp",
    ]);
    let classes = NETTY_CLASSES.to_str().unwrap();
    command.arg(format!("{classes}:{}", jars().join(":"))).arg("NettyWebSocketPeer");
    Some(command)
}
