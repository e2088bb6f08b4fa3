//! The filters that the engine has: exactly those that clients use, each once.

use waterwheel_gateway::session::command::GatewayCommand;

use crate::support::{Bench, filter_of, subscribe};

#[test]
fn g02_the_engine_has_a_filter_while_somebody_uses_it() {
    let mut bench = Bench::start();
    let (first, second) = (bench.client(), bench.client());
    bench.subscribe(&first, "a.*");
    bench.subscribe(&second, "a.*");
    assert_eq!(bench.engine.take_calls(), ["subscribe a.*"]);
    bench.execute(&first, 1, GatewayCommand::Unsubscribe { filter: filter_of("a.*") });
    assert!(bench.engine.take_calls().is_empty(), "the other one uses it");
    bench.publish("a.b", 1);
    assert_eq!((first.told().last().unwrap().as_str(), second.told()), ("1 ok", vec!["1".into()]));
    second.leave(&mut bench);
    assert_eq!(bench.engine.take_calls(), ["unsubscribe a.*"]);
}

#[test]
fn g02_those_who_subscribe_while_the_engine_is_asked_wait_for_the_same_answer() {
    let mut bench = Bench::start();
    let clients = [bench.client(), bench.client(), bench.client()];
    bench.engine.hold(true);
    for client in &clients {
        bench.execute(client, 1, subscribe("a", None));
    }
    assert_eq!(bench.engine.take_calls(), ["subscribe a"]);
    bench.engine.hold(false);
    bench.event_loop.run();
    for client in &clients {
        assert_eq!(client.told(), ["1 subscribed at 0 with 0"]);
    }
    assert!(bench.engine.take_calls().is_empty());
}

#[test]
fn g02_if_the_first_fails_or_leaves_the_next_one_asks_the_engine_again() {
    let mut bench = Bench::start();
    let (first, second, third) = (bench.client(), bench.client(), bench.client());
    bench.engine.hold(true);
    for client in [&first, &second, &third] {
        bench.execute(client, 1, subscribe("a", None));
    }
    first.leave(&mut bench);
    assert_eq!(bench.engine.take_calls(), ["subscribe a", "unsubscribe a", "subscribe a"]);
    bench.engine.fail(1);
    bench.engine.hold(false);
    bench.event_loop.run();
    let mut answers = [second.told(), third.told()].concat();
    answers.sort();
    assert_eq!(answers, ["1 engine_unavailable", "1 subscribed at 0 with 0"]);
    assert_eq!(bench.engine.take_calls(), ["unsubscribe a", "subscribe a"]);
    bench.publish("a", 1);
    assert_eq!([second.told(), third.told()].concat(), ["1"]);
}
