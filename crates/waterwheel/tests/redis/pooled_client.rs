//! The `redis_client` example, a pool and pipelining, with redis-server: also one that is killed and started again.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use crate::program::{connect, path_of};
use crate::wait_for_output;

/// A redis-server at a TCP port; dropping the value kills it.
struct TcpRedis(Child);

impl TcpRedis {
    /// Starts a server, or returns `None` if redis-server is not installed.
    fn start(at: SocketAddr) -> Option<Self> {
        let mut command = Command::new("redis-server");
        command.args(["--bind", &at.ip().to_string(), "--port", &at.port().to_string()]);
        command.args(["--protected-mode", "no", "--save", "", "--appendonly", "no"]);
        match command.stdout(Stdio::piped()).spawn() {
            Ok(mut child) => {
                wait_for_output("eady to accept connections", child.stdout.take().unwrap());
                Some(Self(child))
            }
            Err(error) => {
                println!("not tested: redis-server: {error}");
                None
            }
        }
    }
}

impl Drop for TcpRedis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns an address that nobody uses: a port at a host address of this process. At another one, or at all of them,
/// redis-server would not get a port that connections of other tests had, for a minute after their end (TIME_WAIT).
fn free_address() -> SocketAddr {
    let [.., high, low] = std::process::id().to_be_bytes();
    let host = Ipv4Addr::new(127, 64, high, low);
    TcpListener::bind((host, 0)).unwrap().local_addr().unwrap()
}

/// A running client; dropping the value kills it.
struct Client(Child);

impl Client {
    fn start(server: SocketAddr, tasks: u32, rounds: u64) -> Self {
        let mut command = Command::new(path_of("redis_client"));
        command.args([server.to_string(), tasks.to_string(), rounds.to_string()]);
        Self(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends an inline command, and returns the first line of the reply that ends with a line end of its own.
fn ask(redis: &mut BufReader<TcpStream>, command: &str) -> String {
    redis.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut line = String::new();
    redis.read_line(&mut line).unwrap();
    let Some(len) = line.strip_prefix('$') else { return line.trim().to_owned() };
    let Ok(len) = len.trim().parse::<usize>() else { return String::new() };
    let mut bulk = vec![0; len + 2];
    redis.read_exact(&mut bulk).unwrap();
    String::from_utf8_lossy(&bulk).trim().to_owned()
}

/// Asks until the clients have done this many rounds.
fn wait_for_rounds(server: SocketAddr, rounds: u64) -> BufReader<TcpStream> {
    let mut redis = BufReader::new(connect(server));
    for _ in 0..10_000_000 {
        if ask(&mut redis, "GET rounds").parse::<u64>().is_ok_and(|done| done >= rounds) {
            return redis;
        }
    }
    panic!("the client stands still");
}

#[test]
fn k12_redis_client_shares_few_connections_among_many_tasks() {
    let server = free_address();
    let Some(_redis) = TcpRedis::start(server) else { return };
    let mut client = Client::start(server, 12, 50);
    let mut output = String::new();
    client.0.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(client.0.wait().unwrap().success(), "{output}");
    for task in 0..12 {
        let line = format!(
            "task {task}: 50 rounds, 0 repeated, last replies \
             [Simple(b\"OK\"), Bulk(b\"hello from {task}\"), Integer("
        );
        assert!(output.contains(&line), "{output}");
    }
    assert!(output.contains("Integer(600)]"), "the last INCR: {output}");
    let (_, summary) = output.rsplit_once("600 leases of ").expect("a line about the pool");
    let created: u32 = summary.split_once(' ').unwrap().0.parse().unwrap();
    assert!((1..=4).contains(&created), "{output}");
    assert!(
        output.contains("leased 0, connecting 0, checking 0, closing 0), waiting 0"),
        "{output}"
    );
}

#[test]
fn k12_a_pool_recovers_when_the_server_was_killed_and_started_again() {
    let server = free_address();
    let Some(redis) = TcpRedis::start(server) else { return };
    let mut client = Client::start(server, 6, 1_000_000_000);
    let mut output = BufReader::new(client.0.stdout.take().unwrap());
    let connection = wait_for_rounds(server, 200);
    drop(redis);
    drop(connection);
    let mut has_failed = [false; 6];
    while !has_failed.iter().all(|has| *has) {
        let mut line = String::new();
        assert!(output.read_line(&mut line).unwrap() > 0, "the client has ended");
        let (task, rest) = line["task ".len()..].split_once(' ').unwrap();
        assert!(rest.starts_with("tries again: "), "{line}");
        has_failed[task.parse::<usize>().unwrap()] = true;
    }
    let _redis = TcpRedis::start(server).unwrap();
    let mut redis = wait_for_rounds(server, 200);
    for task in 0..6 {
        // The new server is empty: the task has set its key since.
        for _ in 0..10_000_000 {
            if ask(&mut redis, &format!("GET task:{task}")) == format!("hello from {task}") {
                break;
            }
        }
        assert_eq!(ask(&mut redis, &format!("GET task:{task}")), format!("hello from {task}"));
    }
    let clients = ask(&mut redis, "CLIENT LIST");
    let pooled = clients.lines().filter(|line| line.contains("name=waterwheel")).count();
    assert!((1..=4).contains(&pooled), "{clients}");
    assert!(client.0.try_wait().unwrap().is_none(), "the client goes on");
}

#[test]
fn k12_redis_client_gives_up_rounds_that_are_not_answered_and_connections_refused_by_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = Client::start(listener.local_addr().unwrap(), 1, 1);
    let mut output = BufReader::new(client.0.stdout.take().unwrap());
    let mut tries_again = |why: &str| {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(line.starts_with("task 0 tries again: ") && line.contains(why), "{line}");
    };
    let accept = |answer: &[u8]| {
        let (mut connection, _) = listener.accept().unwrap();
        assert!(connection.read(&mut [0; 1000]).unwrap() > 0);
        connection.write_all(answer).unwrap();
        connection
    };
    let _refused = accept(b"-LOADING Redis is loading the dataset in memory\r\n");
    tries_again("LOADING");
    // Prepared, and then silent.
    let mut silent = accept(b"+OK\r\n");
    tries_again("the server does not answer");
    let mut rest = Vec::new();
    silent.read_to_end(&mut rest).unwrap();
    assert!(rest.starts_with(b"*3\r\n$3\r\nSET"), "closed after its request");
}
