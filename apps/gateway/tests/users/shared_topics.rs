//! Clients of all kinds in the same topics, which resume after they were away and after the gateway was killed.

use crate::gateway::Gateway;
use crate::tools::{Player, installed, node_script, python_with, script};

fn python(gateway: &Gateway, filter: &str) -> Player {
    let mut command = python_with("websockets");
    command.arg(script("python_client.py")).args([&gateway.websocket_url(), filter]);
    Player::start(&mut command)
}

fn node(gateway: &Gateway, filter: &str) -> Player {
    let mut command = node_script("node_client.js", &["ws"]);
    Player::start(command.args([&gateway.websocket_url(), filter]))
}

fn event_source(gateway: &Gateway, filter: &str) -> Player {
    installed("chromium");
    let mut command = node_script("browser_clients.js", &["playwright-core"]);
    Player::start(command.args(["events", &gateway.url("/"), filter]))
}

/// Starts nc, which says nothing yet.
fn nc(gateway: &Gateway) -> Player {
    let (ip, port) = (gateway.address.ip().to_string(), gateway.address.port().to_string());
    Player::start(installed("nc").args([ip, port]))
}

/// Subscribes through nc. Returns the position of the answer.
fn subscribe(nc: &mut Player, arguments: &str) -> String {
    nc.say(&format!("SUB {arguments}"));
    nc.expect("HELLO HELP lists the commands");
    let answer = nc.line();
    let position = answer.strip_prefix("OK ").and_then(|rest| rest.split(' ').next());
    position.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// The clients that speak as `python_client.py` does.
fn speakers(gateway: &Gateway) -> [Player; 3] {
    let mut speakers =
        [python(gateway, "all.>"), node(gateway, "all.>"), event_source(gateway, "all.>")];
    speakers.iter_mut().for_each(|speaker| speaker.expect("subscribed gap=false"));
    speakers
}

#[test]
fn g01_python_node_event_source_nc_and_curl_are_in_the_same_topics() {
    let gateway = Gateway::start(&[]);
    let mut speakers = speakers(&gateway);
    let mut lines = nc(&gateway);
    let begin = subscribe(&mut lines, "all.>");
    let expect = |speakers: &mut [Player], lines: &mut Player, text: &str| {
        speakers.iter_mut().for_each(|speaker| speaker.expect(&format!("message {text}")));
        lines.expect(&format!("MSG all.topic - {text}"));
    };
    for at in 0..speakers.len() {
        let text = format!("Grüße, 漢字 of {at}");
        speakers[at].say(&format!("publish all.topic {text}"));
        // The answer and the publication are not ordered.
        let heard = [speakers[at].line(), speakers[at].line()];
        assert!(heard.contains(&"published".to_owned()), "{heard:?}");
        assert!(heard.contains(&format!("message {text}")), "{heard:?}");
        let others = speakers.iter_mut().enumerate().filter(|(number, _)| *number != at);
        others.for_each(|(_, other)| other.expect(&format!("message {text}")));
        lines.expect(&format!("MSG all.topic - {text}"));
    }
    gateway.curl("/topics/all.topic", &["-H", "content-type: text/plain", "-d", "of curl"]);
    expect(&mut speakers, &mut lines, "of curl");
    let batch = r#"[{"topic":"all.topic","text":"first"},{"topic":"all.topic","text":"second"}]"#;
    gateway.curl("/api/publish", &["-H", "content-type: application/json", "-d", batch]);
    expect(&mut speakers, &mut lines, "first");
    expect(&mut speakers, &mut lines, "second");
    // Another nc, from where the first one began.
    let mut late = nc(&gateway);
    subscribe(&mut late, &format!("all.topic {begin}"));
    for at in 0..speakers.len() {
        late.expect(&format!("MSG all.topic - Grüße, 漢字 of {at}"));
    }
    for text in ["of curl", "first", "second"] {
        late.expect(&format!("MSG all.topic - {text}"));
    }
}

#[test]
fn g02_clients_of_all_kinds_resume_behind_the_last_position_they_have_seen() {
    let gateway = Gateway::start(&[]);
    let publish = |text: &str| {
        gateway.curl("/topics/all.topic", &["-H", "content-type: text/plain", "-d", text]);
    };
    let mut speakers = speakers(&gateway);
    for round in 0..3 {
        publish(&format!("seen in {round}"));
        for speaker in &mut speakers {
            speaker.expect(&format!("message seen in {round}"));
            speaker.say("leave");
            speaker.expect("left");
        }
        (0..5).for_each(|number| publish(&format!("missed {number} in {round}")));
        for speaker in &mut speakers {
            speaker.say("return");
            speaker.expect("subscribed gap=false");
            (0..5).for_each(|number| {
                speaker.expect(&format!("message missed {number} in {round}"));
            });
        }
    }
    // Nothing more has come: the last is the next.
    publish("last");
    for mut speaker in speakers {
        speaker.expect("message last");
        assert!(speaker.finish().is_empty());
    }
}

/// A gateway that is killed keeps no history: each client is told so, and goes on.
#[test]
fn g02_clients_of_all_kinds_are_told_of_the_gap_after_the_gateway_was_killed() {
    let address = ["--bind", "127.21.0.2"];
    let mut gateway = Gateway::start(&address);
    let publish = |gateway: &Gateway, text: &str| {
        gateway.curl("/topics/all.topic", &["-H", "content-type: text/plain", "-d", text]);
    };
    let mut speakers = speakers(&gateway);
    publish(&gateway, "of the first run");
    speakers.iter_mut().for_each(|speaker| speaker.expect("message of the first run"));
    gateway.kill();
    speakers.iter_mut().for_each(|speaker| speaker.expect("lost"));
    let gateway = Gateway::start_at(gateway.address.port(), &address);
    publish(&gateway, "before they are back");
    let [python, node, _] = &mut speakers;
    python.say("return");
    node.say("return");
    for speaker in &mut speakers {
        speaker.expect("subscribed gap=true");
        speaker.expect("message before they are back");
    }
    publish(&gateway, "after");
    for mut speaker in speakers {
        speaker.expect("message after");
        speaker.say("leave");
        speaker.expect("left");
        // The position is of the new run, and counts there.
        speaker.say("return");
        speaker.expect("subscribed gap=false");
        assert!(speaker.finish().iter().all(|line| line == "left"));
    }
}
