//! Delivery of lines between clients over TCP.

mod support;

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread;

use support::{Client, InProcess};

#[test]
fn lines_go_from_every_loop_to_every_loop() {
    let gateway = InProcess::start(|config| (config.threads, config.business) = (3, 2));
    // Connected one after the other, so that every loop has clients (round robin).
    let mut clients: Vec<_> = (0..6).map(|n| gateway.client(&format!("c{n}"))).collect();
    for client in &mut clients {
        client.ask("SUB all", "OK");
    }
    for from in 0..6 {
        clients[from].say(&format!("PUB all from {from}"));
        let line = format!("MSG all c{from} from {from}");
        for (at, client) in clients.iter_mut().enumerate() {
            let mut heard = vec![client.hear().unwrap()];
            if at == from {
                heard.push(client.hear().unwrap());
                heard.sort();
                assert_eq!(heard.pop().as_deref(), Some("OK 6"));
            }
            assert_eq!(heard, std::slice::from_ref(&line));
        }
        for to in (0..6).filter(|to| *to != from) {
            clients[from].ask(&format!("PUSH c{to} psst"), "OK");
            clients[to].expect(&format!("PUSH c{from} psst"));
        }
    }
    let channels: Vec<_> =
        gateway.gateway.loops().children().map(|each| each.metrics().channels).collect();
    assert_eq!(channels.iter().sum::<usize>(), 7, "with the one that listens: {channels:?}");
    assert!(channels.iter().all(|on_loop| *on_loop >= 2), "all loops have clients: {channels:?}");
    drop(clients);
    gateway.end();
}

#[test]
fn lines_of_one_client_stay_in_order() {
    const LINES: usize = 2000;
    let gateway = InProcess::start(|config| config.queue = 2 * LINES);
    let mut listener = gateway.client("listener");
    listener.ask("SUB numbers", "OK");
    let mut speaker = gateway.client("speaker");
    thread::scope(|scope| {
        scope.spawn(|| {
            let all: String = (0..LINES).map(|n| format!("PUB numbers {n}\n")).collect();
            speaker.send(all);
            for _ in 0..LINES {
                speaker.expect("OK 1");
            }
        });
        for n in 0..LINES {
            listener.expect(&format!("MSG numbers speaker {n}"));
        }
    });
    let lines = gateway.gateway.lines();
    assert_eq!((lines.delivered, lines.missed), (LINES as u64, 0));
    drop((listener, speaker));
    gateway.end();
}

/// A client that closes without QUIT is unregistered too: its name and its subscriptions are free.
#[test]
fn a_disconnected_client_is_unregistered() {
    let gateway = InProcess::start(|_| {});
    let mut ann = gateway.client("ann");
    ann.ask("SUB news", "OK");
    drop(ann);
    let mut bob = Client::connect(gateway.address);
    // The name becomes free when the gateway has read EOF; no reply reports that.
    loop {
        bob.say("USER ann");
        if bob.hear().as_deref() == Some("OK hello ann") {
            break;
        }
    }
    bob.ask("PUB news hello", "OK 0");
    drop(bob);
    gateway.end();
}

#[test]
fn killed_clients_are_unregistered_and_others_are_not_disturbed() {
    let gateway = InProcess::start(|_| {});
    let mut survivor = gateway.client("survivor");
    survivor.ask("SUB news", "OK");
    let mut victims: Vec<_> = (0..3).map(|n| Victim::start(gateway.address, n)).collect();
    loop {
        survivor.say("PUB news all");
        let answer = std::iter::from_fn(|| survivor.hear()).find(|line| line.starts_with("OK"));
        if answer.as_deref() == Some("OK 4") {
            break; // All of them are subscribed.
        }
    }
    victims.iter_mut().for_each(Victim::kill);
    while gateway.gateway.client_counts().clients > 1 {
        survivor.say("PING");
        while survivor.hear().unwrap() != "PONG" {}
    }
    survivor.ask("PUSH victim0 hello", "ERR no user is called victim0");
    drop(survivor);
    gateway.end();
}

/// A client in a process of its own.
struct Victim(Child);

impl Victim {
    fn start(gateway: SocketAddr, n: usize) -> Self {
        let (host, port) = (gateway.ip(), gateway.port());
        let script = format!(
            "exec 3<>/dev/tcp/{host}/{port}; printf 'USER victim{n}\\nSUB news\\n' >&3; exec cat <&3"
        );
        let mut command = Command::new("bash");
        command.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }

    /// Kills the client process (SIGKILL), as `kill -9` does.
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}
