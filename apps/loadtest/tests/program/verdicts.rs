//! The exit status, and the reasons for it.

use serde_json::Value;
use waterwheel_gateway::access::secret::Secret;

use crate::support::cheating_gateway::{Cheat, CheatingGateway};
use crate::support::load_process::{LoadOutcome, LoadProcess, TempFile, run_with_json};
use crate::support::real_gateway::RealGateway;

/// Runs a fan-out against a server that cheats. `options` are further arguments.
fn fanout(cheat: Cheat, options: &str) -> (LoadOutcome, Value) {
    let server = CheatingGateway::start(cheat);
    let args =
        "fanout --quiet --subscribers 3 --publishers 1 --rate 100 --seconds 0.5 --settle 0.3";
    run_with_json(&format!("{args} {options} --url {}", server.url()))
}

#[test]
fn g09_a_lost_publication_fails_the_run() {
    let (outcome, json) = fanout(Cheat::Lose, "");
    outcome.expect_failure("publications lost silently: 15");
    assert_eq!(json["figures"]["lost_silently"], 15.0);
    assert_eq!(json["figures"]["received"], 135.0);
    // What is lost silently is no gap that was told.
    fanout(Cheat::Lose, "--allow-gaps").0.expect_failure("publications lost silently: 15");
}

#[test]
fn g09_a_publication_that_comes_twice_fails_the_run() {
    let (outcome, json) = fanout(Cheat::Repeat, "");
    outcome.expect_failure("publications received twice: 15");
    assert_eq!(json["figures"]["lost_silently"], 0.0);
}

#[test]
fn g09_a_publication_out_of_order_fails_the_run() {
    let (outcome, json) = fanout(Cheat::Swap, "");
    outcome.expect_failure("publications received out of order: 15");
    assert_eq!(json["figures"]["lost_silently"], 0.0);
}

#[test]
fn g09_a_refused_publication_fails_the_run_and_is_not_lost() {
    let (outcome, json) = fanout(Cheat::Refuse, "");
    outcome.expect_failure("publications refused: 5, the last because of rate_exceeded: too many");
    assert_eq!(json["figures"]["lost_silently"], 0.0);
}

#[test]
fn g09_gateways_that_do_not_share_their_topics_lose_what_the_other_gets() {
    let (one, other) = (RealGateway::start(|_| {}), RealGateway::start(|_| {}));
    let args =
        "latency --quiet --subscribers 4 --publishers 1 --rate 50 --seconds 0.5 --settle 0.3";
    let args = format!("{args} --url {} --url {}", one.url(), other.url());
    // Two subscribers are at the gateway of the publisher, two are not.
    LoadProcess::start(&args).wait().expect_failure("publications lost silently: 50");
    one.end();
    other.end();
}

#[test]
fn g09_a_history_that_is_too_short_for_a_storm_is_told_and_fails_unless_allowed() {
    // One client after the other comes back: the last ones have missed publications, and there is no history.
    let storm = |options: &str| {
        let gateway = RealGateway::start(|settings| settings.history.topic_publications = 0);
        let args = "storm --quiet --clients 60 --rate 200 --seconds 0.2 --settle 30 --in-flight 1";
        let args = format!("{args} {options} --url {}", gateway.url());
        let outcome = LoadProcess::start(&args).wait();
        gateway.end();
        outcome
    };
    storm("").expect_failure("publications lost, of which the clients were told");
    storm("--allow-gaps").expect_success();
}

#[test]
fn g09_a_run_without_a_gateway_says_what_it_could_not_reach() {
    let gateway = RealGateway::start(|_| {});
    let url = gateway.url();
    gateway.end();
    let outcome = LoadProcess::start(&format!("fanout --quiet --subscribers 2 --url {url}")).wait();
    assert_eq!(outcome.status, 1);
    assert!(outcome.table.contains("cannot connect to ws://127.0.0.1:"), "{}", outcome.table);
}

#[test]
fn g09_an_interrupt_ends_the_run_with_the_figures_so_far() {
    let gateway = RealGateway::start(|_| {});
    let args = "fanout --subscribers 10 --rate 100 --seconds 60 --in-flight 10";
    let mut load = LoadProcess::start(&format!("{args} --url {}", gateway.url()));
    load.wait_for("publishing");
    load.interrupt();
    let outcome = load.wait();
    assert_eq!(outcome.status, 130, "{}", outcome.table);
    assert!(outcome.table.contains("interrupted: the figures are of a part"), "{}", outcome.table);
    assert!(!outcome.table.contains("FAILED"), "{}", outcome.table);
    gateway.end();
}

#[test]
fn g09_clients_show_the_token_of_the_file() {
    let key = "an-admin-key-of-a-test";
    let gateway = RealGateway::start(|settings| settings.access.admin_key = Some(Secret::new(key)));
    let args = "fanout --quiet --subscribers 5 --rate 50 --seconds 0.2";
    let args = format!("{args} --url {}", gateway.url());
    let outcome = LoadProcess::start(&args).wait();
    assert_eq!(outcome.status, 1, "{}", outcome.table);
    assert!(outcome.table.contains("token"), "{}", outcome.table);
    let file = TempFile::new("token");
    std::fs::write(&file.0, format!("{key}\n")).unwrap();
    LoadProcess::start(&format!("{args} --token-file {}", file.0)).wait().expect_success();
    gateway.end();
}

#[test]
fn g09_wrong_arguments_end_the_program_with_status_2() {
    assert_eq!(LoadProcess::start("flood").wait().status, 2);
    let outcome = LoadProcess::start("fanout --url http://a/").wait();
    assert_eq!(outcome.status, 1);
    assert!(outcome.table.contains("its scheme is not ws"), "{}", outcome.table);
}
