//! Presence: who is in a topic, and how the sink is told.

use super::bench::{Bench, EngineFixture, SinkCall, member, topic, wait};

pub(crate) fn g08_presence_is_noted_and_told<F: EngineFixture>() {
    let bench = Bench::new::<F>();
    let room = topic("room");
    bench.subscribe("room");
    let (ann, bob) = (member("c2", Some("ann")), member("c1", None));
    bench.engine.enter(&room, &ann);
    bench.engine.enter(&room, &bob);
    bench.engine.enter(&room, &ann);
    bench.engine.enter(&topic("elsewhere"), &ann);
    let told = |count: usize| {
        let calls = bench.sink.wait_until(|calls| changes(calls).len() >= count);
        changes(&calls)
    };
    assert_eq!(told(2), [("c2".to_owned(), true), ("c1".to_owned(), true)]);
    let page = wait(bench.engine.presence(&room, 10)).unwrap();
    assert_eq!(page.clients, [bob, ann.clone()], "in the order of their ids");
    assert_eq!(page.count, 2);
    bench.engine.leave(&room, "c1");
    bench.engine.leave(&room, "c1");
    bench.engine.leave(&room, "nobody");
    assert_eq!(told(3).last(), Some(&("c1".to_owned(), false)));
    assert_eq!(wait(bench.engine.presence(&room, 10)).unwrap().clients, [ann]);
    bench.engine.leave(&room, "c2");
    assert_eq!(told(4).last(), Some(&("c2".to_owned(), false)));
    assert_eq!(wait(bench.engine.presence(&room, 10)).unwrap().count, 0);
    assert_eq!(told(4).len(), 4, "a refresh and an absent client are not told");
}

pub(crate) fn g08_presence_is_limited_by_the_question<F: EngineFixture>() {
    let bench = Bench::new::<F>();
    let room = topic("room");
    for n in 0..20 {
        bench.engine.enter(&room, &member(&format!("c{n:02}"), None));
    }
    let page = wait(bench.engine.presence(&room, 5)).unwrap();
    assert_eq!(page.count, 20);
    let ids: Vec<_> = page.clients.iter().map(|member| &*member.client).collect();
    assert_eq!(ids, ["c00", "c01", "c02", "c03", "c04"]);
    assert_eq!(wait(bench.engine.presence(&topic("empty"), 5)).unwrap().count, 0);
}

fn changes(calls: &[SinkCall]) -> Vec<(String, bool)> {
    let of_room = calls.iter().filter_map(|call| match call {
        SinkCall::Presence { topic, member, is_present } if topic.as_str() == "room" => {
            Some((member.client.to_string(), *is_present))
        }
        _ => None,
    });
    of_room.collect()
}
