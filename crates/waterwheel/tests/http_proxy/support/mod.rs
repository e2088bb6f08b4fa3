//! Programs and scripted servers.

pub(crate) mod nginx;
pub(crate) mod scripted_server;

use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Output};
use std::time::Duration;

use http::Response;
use waterwheel::channel::{Bootstrap, EventLoopGroup};
use waterwheel::http::{Client, ClientBuilder, Incoming};
use waterwheel::net::{Auto, Tcp};

use crate::program::{Program, WAIT_LIMIT, connect};

/// Runs a program to its end; `None` if it is not installed.
pub(crate) fn run(program: &str, args: &[&str]) -> Option<Output> {
    match Command::new(program).args(args).output() {
        Ok(output) => Some(output),
        Err(error) => {
            println!("not tested: {program}: {error}");
            None
        }
    }
}

/// Runs curl, which must succeed, and returns what it prints.
pub(crate) fn curl(args: &[&str]) -> Option<Vec<u8>> {
    let output = run("curl", &[&["--silent", "--show-error", "--max-time", "120"], args].concat())?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "curl {args:?}: {}: {stderr}", output.status);
    Some(output.stdout)
}

/// Runs curl as [`curl`] does, for an answer that is text.
pub(crate) fn curl_text(args: &[&str]) -> Option<String> {
    curl(args).map(|bytes| String::from_utf8(bytes).unwrap())
}

/// Starts the reverse proxy in front of a server.
pub(crate) fn start_proxy(upstream: SocketAddr, options: &[&str]) -> Program {
    let url = format!("http://{upstream}");
    let mut args: Vec<&dyn fmt::Display> = vec![&"--threads", &2, &0, &url];
    args.extend(options.iter().map(|option| option as &dyn fmt::Display));
    Program::start("reverse_proxy", &args)
}

/// Runs a future of a client on a loop, which uses real sockets.
pub(crate) fn with_client<F>(
    build: impl FnOnce(ClientBuilder) -> ClientBuilder,
    call: impl FnOnce(Client) -> F + Send + 'static,
) -> F::Output
where
    F: Future<Output: Send> + 'static,
{
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let client = build(Client::builder(Bootstrap::new(&group, Tcp))).build().unwrap();
    let output = group.spawn_with(move || call(client)).unwrap().join().unwrap();
    let ended = group.shutdown_gracefully(Duration::ZERO, WAIT_LIMIT).unwrap();
    ended.join().unwrap();
    output
}

/// Reads the body of a response that is a text.
pub(crate) async fn text(response: Response<Incoming>) -> String {
    let body = response.into_body().collect(1 << 24).await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

/// Reads everything up to the end of a stream.
pub(crate) fn read_all(mut stream: &TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Sends a request, and returns everything that comes back until the connection ends.
pub(crate) fn exchange(server: SocketAddr, request: &str) -> String {
    let stream = connect(server);
    (&stream).write_all(request.as_bytes()).unwrap();
    read_all(&stream)
}

/// Returns the value of a field of a head, whose names are compared without regard to case.
pub(crate) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut values = head.lines().filter_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    });
    let value = values.next();
    assert!(values.next().is_none(), "{name} is there once at most: {head}");
    value
}

/// Returns bytes that do not repeat: a loss or a swap shows.
pub(crate) fn unequal_bytes(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..len.div_ceil(8)).flat_map(|_| next().to_le_bytes()).take(len).collect()
}
