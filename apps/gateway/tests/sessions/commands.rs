//! How a session carries out commands: one after the other, while the client takes the answers.

use std::time::Duration;

use waterwheel_gateway::access::config::AccessConfig;
use waterwheel_gateway::access::rate::RateLimit;
use waterwheel_gateway::access::secret::Secret;
use waterwheel_gateway::session::command::GatewayCommand;
use waterwheel_gateway::session::limits::GatewayLimits;

use crate::support::{Bench, filter_of, publish, subscribe};

#[test]
fn g01_commands_are_answered_in_their_order_and_immediate_ones_at_once() {
    let mut bench = Bench::start();
    let client = bench.client();
    bench.event_loop.on_loop(|_| client.session().execute(Some(1), Ok(GatewayCommand::Ping)));
    assert_eq!(client.told(), ["1 ok"], "inside of the call");
    bench.engine.hold(true);
    bench.execute(&client, 2, publish("a"));
    bench.execute(&client, 3, GatewayCommand::Ping);
    assert!(client.told().is_empty(), "an answer waits for the one before it");
    bench.engine.hold(false);
    bench.event_loop.run();
    assert_eq!(client.told(), ["2 published at 1 for 0", "3 ok"]);
}

#[test]
fn g01_commands_of_a_client_that_does_not_take_answers_wait_and_go_on_when_it_does() {
    let mut bench = Bench::with(|limits| (limits.waiting_commands, limits.batch) = (4, 4));
    let client = bench.client();
    client.set_ready(false);
    for id in 0..8 {
        bench.execute(&client, id, publish("a"));
    }
    assert_eq!(client.told(), ["pause"], "nothing is carried out");
    bench.event_loop.on_loop(|_| client.session().resume());
    bench.event_loop.run();
    assert!(client.told().is_empty(), "not yet");
    client.set_ready(true);
    bench.event_loop.on_loop(|_| client.session().resume());
    bench.event_loop.run();
    let told = client.told();
    assert_eq!(told.len(), 9, "{told:?}");
    assert_eq!(told.iter().filter(|note| *note == "go on").count(), 1);
    let answers: Vec<_> = told.iter().filter(|note| *note != "go on").collect();
    assert!(answers.iter().enumerate().all(|(at, note)| note.starts_with(&format!("{at} publ"))));
}

#[test]
fn r04_a_connection_that_does_not_pause_is_closed() {
    let mut bench = Bench::with(|limits| (limits.waiting_commands, limits.batch) = (4, 4));
    let client = bench.client();
    bench.engine.hold(true);
    for id in 0..20 {
        bench.execute(&client, id, publish("a"));
    }
    assert_eq!(client.told(), ["pause", "close rate_exceeded"]);
    bench.engine.hold(false);
    bench.event_loop.run();
    assert!(client.told().is_empty(), "the session has ended");
}

#[test]
fn g01_an_engine_that_does_not_answer_in_time_is_told_and_the_next_command_goes_on() {
    let mut bench = Bench::with(|limits| limits.engine_timeout = Duration::from_secs(3));
    let client = bench.client();
    bench.engine.hold(true);
    bench.execute(&client, 1, subscribe("a", None));
    bench.execute(&client, 2, GatewayCommand::Ping);
    bench.advance(Duration::from_millis(2_999));
    assert!(client.told().is_empty());
    bench.advance(Duration::from_millis(1));
    assert_eq!(client.told(), ["1 engine_unavailable", "2 ok"]);
    assert_eq!(bench.engine.take_calls(), ["subscribe a", "unsubscribe a"]);
    bench.engine.hold(false);
    bench.publish("a", 1);
    assert!(client.told().is_empty(), "there is no subscription");
    assert_eq!(bench.subscribe(&client, "a"), ["0 subscribed at 1 with 0"]);
}

#[test]
fn g01_a_session_that_ends_leaves_nothing_behind() {
    let mut bench = Bench::start();
    let client = bench.named_client(Some("ann")).unwrap();
    bench.subscribe(&client, "a");
    bench.engine.hold(true);
    bench.execute(&client, 1, publish("a"));
    client.leave(&mut bench);
    bench.engine.hold(false);
    bench.event_loop.run();
    assert_eq!(bench.core.clients(), 0);
    assert_eq!(bench.core.counters().counts().subscriptions, 0);
    assert_eq!(bench.engine.take_calls(), ["subscribe a", "unsubscribe a"]);
    assert!(bench.named_client(Some("ann")).is_ok(), "the name is free");
}

#[test]
fn g01_a_text_reaches_the_client_with_the_name_and_names_belong_to_one() {
    let mut bench = Bench::start();
    let (ann, bob) = (bench.named_client(Some("ann")).unwrap(), bench.named_client(Some("bob")));
    let bob = bob.unwrap();
    let error = bench.named_client(Some("bob")).err().unwrap();
    assert_eq!(error.code.name(), "name_taken");
    assert_eq!(bench.core.clients(), 2, "the refused one is not counted");
    let push = |user: &str| GatewayCommand::PushToUser { user: user.into(), text: "hi".into() };
    bench.execute(&ann, 1, push("bob"));
    assert_eq!((ann.told(), bob.told()), (vec!["1 ok".into()], vec!["\"hi\" from ann".into()]));
    bench.execute(&ann, 2, push("eve"));
    assert_eq!(ann.told(), ["2 no_such_user"]);
}

#[test]
fn g02_presence_is_told_to_those_who_asked() {
    let mut bench = Bench::start();
    let (watcher, other) = (bench.client(), bench.client());
    let watch = GatewayCommand::Subscribe { filter: filter_of("a.*"), since: None, presence: true };
    bench.execute(&watcher, 1, watch);
    bench.subscribe(&other, "a.*");
    watcher.told();
    let own = watcher.session().client_id().clone();
    for (topic, client, is_present) in
        [("a.b", "c9", true), ("b", "c9", true), ("a.b", &own, true), ("a.b", "c9", false)]
    {
        bench.engine.tell_presence(topic, client, is_present);
    }
    bench.event_loop.run();
    assert_eq!(watcher.told(), ["c9 a.b joins", "c9 a.b leaves"]);
    assert!(other.told().is_empty());
}

#[test]
fn g01_the_engine_unavailable_for_a_subscription_leaves_no_subscription() {
    let mut bench = Bench::start();
    let client = bench.client();
    bench.engine.fail(1);
    assert_eq!(bench.subscribe(&client, "a"), ["0 engine_unavailable"]);
    // The history fails after the filter was accepted.
    bench.execute(&client, 1, subscribe("a", None));
    bench.execute(&client, 2, GatewayCommand::Unsubscribe { filter: filter_of("a") });
    client.told();
    bench.engine.take_calls();
    bench.execute(&client, 3, subscribe("b", None));
    bench.engine.fail(1);
    bench.execute(&client, 4, subscribe("b.c", Some(0)));
    assert_eq!(client.told(), ["3 subscribed at 0 with 0", "4 engine_unavailable"]);
    bench.publish("b.c", 1);
    assert!(client.told().is_empty());
    assert_eq!(bench.core.counters().counts().subscriptions, 1);
}

#[test]
fn g03_the_clients_of_an_address_are_limited_until_one_leaves_and_those_of_this_machine_are_not() {
    let mut bench = Bench::with(|limits| limits.clients_per_address = 2);
    let first = bench.client_of("192.0.2.1").unwrap();
    let _second = bench.client_of("::ffff:192.0.2.1").unwrap();
    let error = bench.client_of("192.0.2.1").err().unwrap();
    assert_eq!(error.code.name(), "too_many_clients");
    assert_eq!(error.message, "the limit of connections of this address is reached");
    let _other = bench.client_of("192.0.2.2").unwrap();
    let _local: Vec<_> = (0..5).map(|_| bench.client_of("127.0.0.1").unwrap()).collect();
    first.leave(&mut bench);
    assert!(bench.client_of("192.0.2.1").is_ok());
}

#[test]
fn g03_the_publications_of_an_address_are_limited_over_all_of_its_clients() {
    let limits = GatewayLimits {
        publish_rate_per_address: RateLimit { per_second: 1, burst: 3 },
        ..GatewayLimits::default()
    };
    // With an admin key, clients without one are no admins.
    let access = AccessConfig {
        admin_key: Some(Secret::new("an-admin-key-of-a-test")),
        allow_anonymous: true,
        ..AccessConfig::default()
    };
    let mut bench = Bench::with_access(limits, access);
    let clients = [bench.client_of("192.0.2.1").unwrap(), bench.client_of("192.0.2.1").unwrap()];
    for round in 0..4 {
        for client in &clients {
            bench.execute(client, round, publish("a"));
        }
    }
    let told: Vec<_> = clients.iter().flat_map(|client| client.told()).collect();
    assert!(told.iter().filter(|note| note.contains("published")).count() < told.len(), "{told:?}");
    assert!(told.iter().any(|note| note.ends_with("rate_exceeded")), "{told:?}");
    for id in 10..15 {
        let text = GatewayCommand::PushToUser { user: "nobody".into(), text: "hello".into() };
        bench.execute(&clients[0], id, text);
    }
    assert!(clients[0].told().contains(&"14 rate_exceeded".into()), "texts for users count too");
    let other = bench.client_of("192.0.2.2").unwrap();
    bench.execute(&other, 9, publish("a"));
    assert!(other.told()[0].starts_with("9 published"));
}

#[test]
fn r04_a_client_with_many_commands_lets_others_have_their_turn() {
    let mut bench = Bench::start();
    let (ann, bob) = (bench.client(), bench.client());
    bench.engine.hold(true);
    for id in 1..=200 {
        bench.execute(&ann, id, publish("a"));
    }
    bench.execute(&bob, 1, publish("a"));
    bench.engine.hold(false);
    bench.event_loop.run();
    assert_eq!(bob.told(), ["1 published at 65 for 0"], "after the first 64 of the other client");
    assert!(ann.told().contains(&"200 published at 201 for 0".into()), "all are carried out");
}
