//! Channel groups (C14) on manually driven loops.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use waterwheel_channel::local::{self as transport, Local};
use waterwheel_channel::{
    Address, Channel, ChannelGroup, ChannelOptions, Completion, ServerBootstrap, WaterMarks,
    matchers,
};
use waterwheel_testkit::loop_suite::panic_quietly;

use crate::support::{LocalFixture, Log, RecordingHandler, fresh_name, shut_down, threaded_group};

/// Names of the members of a group.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Returns a group of `members` channels on the fixture's loops in turn; their peers log what they read.
fn group_with_members(
    fixture: &mut LocalFixture,
    log: &Log,
    members: usize,
) -> (ChannelGroup, Vec<Channel>) {
    let group = ChannelGroup::new("room");
    let members = NAMES[..members].iter().enumerate().map(|(at, name)| {
        let (ours, theirs) = transport::pair();
        let member = fixture.register(at, ours, RecordingHandler::new("member", &Log::default()));
        fixture.register(at, theirs, RecordingHandler::new(name, log));
        assert!(group.add(&member));
        member
    });
    let members = members.collect();
    (group, members)
}

/// Returns what the peer of a member has read.
fn received_by(log: &Log, name: &str) -> Vec<String> {
    let all = log.of(name);
    let read = all.iter().filter_map(|entry| entry.strip_prefix("read "));
    read.filter(|text| *text != "complete").map(str::to_owned).collect()
}

fn text(text: &str) -> String {
    text.to_owned()
}

#[test]
fn c14_a_group_holds_a_channel_once_and_finds_it() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let (group, members) = group_with_members(fixture, &Log::default(), 3);
        assert_eq!((group.name(), group.len(), group.is_empty()), ("room", 3, false));
        assert!(!group.add(&members[0]), "it is in");
        assert_eq!(group.channels(), members, "in the order in which they were made");
        assert_eq!(group.find(members[1].id()).as_ref(), Some(&members[1]));
        assert!(group.remove(&members[1]) && !group.remove(&members[1]));
        assert!(group.find(members[1].id()).is_none() && !group.contains(&members[1]));
        assert!(members[1].is_open(), "it left, and that is all");
        assert!(group.add(&members[1]), "and may come again");
        let same = group.clone();
        assert!(same == group && same.len() == 3 && same != ChannelGroup::new("room"));
    });
}

#[test]
fn c14_a_channel_that_is_closed_leaves_all_its_groups() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let (group, members) = group_with_members(fixture, &Log::default(), 2);
        let other = ChannelGroup::new("other");
        assert!(other.add(&members[0]));
        fixture.on(0, |_| drop(members[0].close()));
        assert_eq!(group.channels(), members[1..]);
        assert!(other.is_empty());
        assert!(!group.add(&members[0]), "a closed channel is never a member");
        assert_eq!(group.len(), 1);
        fixture.on(1, |_| drop(members[1].close()));
        assert!(group.is_empty());
    });
}

#[test]
fn c14_a_channel_has_left_its_groups_when_its_close_is_reported() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let (ours, _theirs) = transport::pair();
        let member = fixture.register(0, ours, RecordingHandler::new("member", &Log::default()));
        let group = ChannelGroup::new("room");
        let found = Log::default();
        // These listeners were added before the channel joined any group.
        let (group_with_members, channel, log) = (group.clone(), member.clone(), found.clone());
        member.closed().add_listener(move |_| {
            log.add(format!("closed: {}", group_with_members.contains(&channel)));
        });
        assert!(group.add(&member));
        let (group_with_members, log) = (group.clone(), found.clone());
        let closing = member.clone();
        let asked = member.with_pipeline(move |pipeline| {
            pipeline.close_with(Completion::local(move |_| {
                log.add(format!("close: {}", group_with_members.contains(&closing)));
            }));
        });
        fixture.outcome(asked).unwrap();
        fixture.run();
        assert_eq!(found.take(), ["closed: false", "close: false"]);
        assert!(group.is_empty() && !group.add(&member));
    });
}

#[test]
fn c14_a_channel_that_was_closed_before_its_first_group_does_not_stay_in_it() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let (ours, _theirs) = transport::pair();
        let channel = fixture.register(0, ours, RecordingHandler::new("a", &Log::default()));
        fixture.on(0, |_| drop(channel.close()));
        let group = ChannelGroup::new("late");
        assert!(!group.add(&channel) && group.is_empty());
    });
}

#[test]
fn c08_a_broadcast_queues_one_command_for_each_loop_and_none_for_the_calling_one() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (group, _members) = group_with_members(fixture, &log, 4);
        let loops = if fixture.has_two_loops() { 2 } else { 1 };
        let depths = |fixture: &mut LocalFixture| -> Vec<_> {
            (0..loops).map(|at| fixture.bench(at).metrics().queue_depth).collect()
        };
        let asks: [fn(&ChannelGroup); 5] = [
            |group| drop(group.write(text("1"))),
            |group| group.flush(),
            |group| group.send(text("2")),
            |group| drop(group.write_and_flush(text("3"))),
            |group| drop(group.write_and_flush_each(|_| text("4"))),
        ];
        for (at, ask) in asks.into_iter().enumerate() {
            let before = depths(fixture);
            ask(&group);
            let after: Vec<_> = before.iter().map(|depth| depth + 1).collect();
            assert_eq!(depths(fixture), after, "ask {at} from elsewhere");
            fixture.run();
            let before = depths(fixture);
            fixture.bench(0).here(|_| ask(&group));
            let mut after = before.clone();
            after[1..].iter_mut().for_each(|depth| *depth += 1);
            assert_eq!(depths(fixture), after, "ask {at} on the first loop");
            fixture.run();
        }
        for name in NAMES {
            assert_eq!(received_by(&log, name), ["1", "1", "2", "2", "3", "3", "4", "4"], "{name}");
        }
    });
}

#[test]
fn c14_broadcasts_of_one_thread_reach_each_channel_in_order() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (group, members) = group_with_members(fixture, &log, 3);
        let say = |from: u32| {
            for n in from..from + 10 {
                group.send(format!("{n}"));
                members[1].send(format!("{n} for you"));
            }
        };
        say(0);
        fixture.on(0, |_| ());
        fixture.on(0, |_| say(10));
        let all: Vec<_> = (0..20).map(|n| format!("{n}")).collect();
        assert_eq!(received_by(&log, "a"), all);
        assert_eq!(received_by(&log, "c"), all);
        let both = all.iter().flat_map(|n| [n.clone(), format!("{n} for you")]);
        assert_eq!(received_by(&log, "b"), both.collect::<Vec<_>>());
    });
}

#[test]
fn c14_only_channels_that_match_receive_a_broadcast() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (group, members) = group_with_members(fixture, &log, 3);
        group.matching(matchers::all_but(&members[0])).send(text("not a"));
        let asked = Cell::new(0);
        let last = |channel: &Channel| {
            asked.set(asked.get() + 1);
            *channel == members[2]
        };
        let told = group.matching(last).write_and_flush(text("only c"));
        assert_eq!(asked.get(), 3, "each is asked about once");
        let told = fixture.outcome(told).unwrap();
        assert_eq!((told.len(), told.is_success()), (1, true));
        assert!(told.find(&members[2]).is_some_and(|result| result.is_ok()));
        assert!(told.find(&members[0]).is_none());
        assert_eq!(received_by(&log, "a"), [""; 0]);
        assert_eq!(received_by(&log, "b"), ["not a"]);
        assert_eq!(received_by(&log, "c"), ["not a", "only c"]);
        let told = fixture.outcome(group.matching(|_| false).write(text("nobody"))).unwrap();
        assert!(told.is_empty() && told.is_success() && !told.is_partial_success());
    });
}

#[test]
fn c14_unwritable_channels_can_be_left_out() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let group = ChannelGroup::new("room");
        let (ours, theirs) = transport::pair();
        let marks = WaterMarks::new(1, 2).unwrap();
        let ours = ours.options(ChannelOptions { water_marks: marks, ..Default::default() });
        let slow = fixture.register(0, ours, RecordingHandler::new("slow", &Log::default()));
        fixture.register(1, theirs, RecordingHandler::new("a", &log));
        group.add(&slow);
        // These writes are made off the loop: their bytes are pending as soon as they are submitted.
        for n in 0..5 {
            group.matching(matchers::writable()).send(format!("line {n}"));
        }
        fixture.run();
        group.matching(matchers::writable()).send(text("again"));
        fixture.run();
        assert_eq!(received_by(&log, "a"), ["line 0", "again"]);
    });
}

#[test]
fn c14_nothing_is_written_to_servers_and_they_are_closed_with_the_others() {
    let loops = threaded_group(2);
    let name = fresh_name("served");
    let group = ChannelGroup::new("all");
    let server = ServerBootstrap::new(&loops, Local).bind(Address::local(name)).join().unwrap();
    let (ours, _theirs) = transport::pair();
    let connection = loops.register(ours).join().unwrap();
    group.add(&server);
    group.add(&connection);
    assert!(server.is_server() && !connection.is_server());
    assert_eq!(group.write_and_flush(text("all")).join().unwrap().len(), 1);
    let closed = group.matching(matchers::servers()).closed();
    assert!(group.matching(matchers::servers()).close().join().unwrap().is_success());
    assert_eq!(closed.join().unwrap().len(), 1);
    assert!(!server.is_open() && connection.is_open());
    assert_eq!(group.matching(matchers::connections()).close().join().unwrap().len(), 1);
    assert!(group.is_empty());
    shut_down(&loops);
}

#[test]
fn c14_a_matcher_that_panics_writes_to_no_channel() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (group, members) = group_with_members(fixture, &log, 3);
        let bad =
            |channel: &Channel| if *channel == members[2] { panic_quietly("no") } else { true };
        let on_one_and_two_loops =
            |channel: &Channel| if bad(channel) { text("x") } else { text("y") };
        let caught = catch_unwind(AssertUnwindSafe(|| group.matching(bad).send(text("x"))));
        assert!(caught.is_err());
        let caught =
            catch_unwind(AssertUnwindSafe(|| group.write_and_flush_each(on_one_and_two_loops)));
        assert!(caught.is_err());
        fixture.run();
        assert_eq!(log.count("a: read x") + log.count("b: read x"), 0);
        assert!(members.iter().all(|member| member.pending_bytes() == 0), "no write was submitted");
        group.send(text("fine"));
        fixture.run();
        assert_eq!(received_by(&log, "c"), ["fine"]);
    });
}

#[test]
fn c14_a_broadcast_reaches_the_members_at_its_start_and_no_later_ones() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (group, members) = group_with_members(fixture, &log, 3);
        group.remove(&members[2]);
        let turbulent = |_: &Channel| {
            group.remove(&members[0]);
            group.remove(&members[1]);
            group.add(&members[2]);
            true
        };
        let told = group.matching(turbulent).write_and_flush(text("here"));
        assert_eq!(fixture.outcome(told).unwrap().len(), 2);
        assert_eq!(group.channels(), members[2..]);
        let of = |name| received_by(&log, name).len();
        assert_eq!((of("a"), of("b"), of("c")), (1, 1, 0));
    });
}

#[test]
fn c14_the_outcome_names_the_channels_that_failed_and_why() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let (group, members) = group_with_members(fixture, &Log::default(), 3);
        drop(members[1].close());
        let told = group.write_and_flush(text("too late for one"));
        let told = fixture.outcome(told).unwrap();
        assert!(!told.is_success() && told.is_partial_success());
        let failed: Vec<_> = told.failures().map(|(channel, _)| channel).collect();
        assert_eq!(failed, [&members[1]]);
        assert_eq!(told.iter().filter(|(_, result)| result.is_ok()).count(), 2);
        assert!(told.find(&members[1]).is_some_and(|result| result.is_err()));
        let error = told.into_result().unwrap_err();
        let words = error.to_string();
        assert!(words.starts_with("1 of 3 channels of the group `room` failed: "), "{words}");
        assert!(words.contains(&format!("{}", members[1].id())), "{words}");
        assert!(words.ends_with("the channel is closed"), "{words}");
        assert_eq!(error.outcome().len(), 3);
    });
}

#[test]
fn c07_a_broadcast_beyond_the_hard_cap_of_a_channel_fails_for_that_channel_alone() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let group = ChannelGroup::new("room");
        let mut members = Vec::new();
        for (at, cap) in [(0, 4), (1, 100)] {
            let (ours, theirs) = transport::pair();
            let marks = WaterMarks::new(1, 2).unwrap().with_hard_cap(cap).unwrap();
            let ours = ours.options(ChannelOptions { water_marks: marks, ..Default::default() });
            members.push(fixture.register(
                at,
                ours,
                RecordingHandler::new("member", &Log::default()),
            ));
            fixture.register(at, theirs, RecordingHandler::new(NAMES[at], &log));
            group.add(&members[at]);
        }
        let told = group.write_and_flush(text("12345"));
        let told = fixture.outcome(told).unwrap();
        let failed: Vec<_> = told.failures().map(|(channel, _)| channel).collect();
        assert_eq!(failed, [&members[0]]);
        group.send(text("67890"));
        fixture.run();
        assert_eq!(received_by(&log, "b"), ["12345", "67890"]);
        assert!(received_by(&log, "a").is_empty());
        assert!(members.iter().all(|member| member.pending_bytes() == 0));
    });
}

#[test]
fn c14_closing_a_group_completes_when_its_last_channel_is_closed() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let (group, members) = group_with_members(fixture, &Log::default(), 3);
        let (mut all, none) = (group.closed(), ChannelGroup::new("none").closed());
        assert!(none.is_done() && !all.is_done());
        fixture.on(0, |_| drop(members[0].close()));
        assert!(!all.is_done(), "two channels are open");
        let closed = group.close();
        assert!(fixture.outcome(closed).unwrap().is_success());
        assert_eq!(all.try_take().unwrap().unwrap().len(), 3);
        assert!(group.is_empty());
        // After `close` the group accepts new members.
        let (ours, _theirs) = transport::pair();
        let next = fixture.register(0, ours, RecordingHandler::new("next", &Log::default()));
        assert!(group.add(&next));
        fixture.run();
        assert!(next.is_open() && group.len() == 1);
    });
}

#[test]
fn c14_a_group_that_stays_closed_closes_channels_that_are_added() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let group = ChannelGroup::new("ending").stay_closed();
        let join = |fixture: &mut LocalFixture| {
            let (ours, theirs) = transport::pair();
            let member = fixture.register(0, ours, RecordingHandler::new("a", &Log::default()));
            fixture.register(1, theirs, RecordingHandler::new("b", &Log::default()));
            group.add(&member);
            fixture.run();
            member
        };
        let first = join(fixture);
        assert!(first.is_open(), "it has not been closed yet");
        // Closing the matching members does not close the group.
        let some = group.matching(|_| false).close();
        fixture.outcome(some).unwrap();
        assert!(join(fixture).is_open());
        let closed = group.close();
        assert_eq!(fixture.outcome(closed).unwrap().len(), 2);
        assert!(!join(fixture).is_open());
        assert!(group.is_empty());
    });
}

#[test]
fn c14_all_channels_of_a_group_can_be_deregistered_together() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let (group, members) = group_with_members(fixture, &Log::default(), 3);
        let left = group.deregister();
        assert!(fixture.outcome(left).unwrap().is_success());
        assert!(members.iter().all(|member| member.is_open() && !member.is_registered()));
        let again = group.deregister();
        let again = fixture.outcome(again).unwrap();
        assert_eq!(again.failures().len(), 3, "the channels are not registered");
        assert!(!again.is_success() && !again.is_partial_success());
        let ended = group.disconnect();
        assert!(fixture.outcome(ended).unwrap().is_success());
        assert!(group.is_empty());
    });
}

#[test]
fn c14_a_group_outlives_the_loops_of_its_members() {
    let loops = threaded_group(2);
    let group = ChannelGroup::new("survivor");
    let (one, other) = transport::pair();
    let channels = [one, other].map(|new| loops.register(new).join().unwrap());
    channels.iter().for_each(|channel| assert!(group.add(channel)));
    let closed = group.closed();
    shut_down(&loops);
    assert_eq!(closed.join().unwrap().len(), 2);
    assert!(group.is_empty(), "a loop that ends closes its channels");
    assert!(group.write_and_flush(text("anybody?")).join().unwrap().is_empty());
}
