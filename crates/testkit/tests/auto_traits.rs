//! Who may cross threads: the test's side from anywhere, a driver on its way to its loop.

use waterwheel_testkit::collector::Collector;
use waterwheel_testkit::decorator::{Decorated, Decorating};
use waterwheel_testkit::embedded::{Plug, Wires};
use waterwheel_testkit::faulty::{Call, Fault, Faults, Faulty, FaultyDriver, Lost, Spin, Times};
use waterwheel_testkit::manual::{
    Correspondent, Counts, Dial, ForeignSource, Manual, ManualDriver, Network, Peer, Port,
    PostOffice, Time,
};
use waterwheel_testkit::paper::Paper;
use waterwheel_testkit::recorder::{Log, Moment};
use waterwheel_testkit::seeded::Seeded;

fn is_send<T: Send>() {}
fn is_send_and_sync<T: Send + Sync>() {}
fn is_clone<T: Clone>() {}

#[test]
fn the_test_may_play_its_part_from_any_thread() {
    is_send_and_sync::<(Plug, Wires)>();
    is_send_and_sync::<Manual>();
    is_send_and_sync::<Peer>();
    is_send_and_sync::<Port>();
    is_send_and_sync::<Dial>();
    is_send_and_sync::<Network>();
    is_send_and_sync::<(PostOffice, Correspondent)>();
    is_send_and_sync::<ForeignSource>();
    is_send_and_sync::<(Counts, Time)>();
    is_send_and_sync::<Faulty<Manual>>();
    is_send_and_sync::<Faults>();
    is_send_and_sync::<Decorating<Manual, ()>>();
    is_send_and_sync::<Collector<u8>>();
    is_send_and_sync::<Seeded>();
    is_send_and_sync::<(Call, Fault, Lost, Spin, Times)>();
    is_send_and_sync::<(Log, Moment, Paper)>();
    is_clone::<(Wires, Manual, Network, PostOffice, Port, ForeignSource, Faults, Log)>();
}

#[test]
fn a_driver_may_move_to_its_loop() {
    is_send::<ManualDriver>();
    is_send::<FaultyDriver>();
    is_send::<Decorated<FaultyDriver>>();
}
