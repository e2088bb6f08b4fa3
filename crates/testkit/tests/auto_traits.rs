//! `Send` and `Sync` of the public types.

use waterwheel_testkit::driver_wrapper::{WrappedDriver, WrappingFactory};
use waterwheel_testkit::embedded::{EmbeddedNetwork, EmbeddedPeer};
use waterwheel_testkit::faulty::{
    DriverCall, EarlyReturns, FailTimes, Faults, Faulty, FaultyDriver, InjectedError,
    LostRegistrations,
};
use waterwheel_testkit::manual::{
    ClockMode, DatagramNetwork, DatagramPeer, DriverCounts, ListenerControl, Manual, ManualDriver,
    ManualForeignSource, Peer, PendingConnect, StreamNetwork,
};
use waterwheel_testkit::message_collector::MessageCollector;
use waterwheel_testkit::recorder::{Log, RecordedMethod};
use waterwheel_testkit::shuffled::Shuffled;
use waterwheel_testkit::temp_file::TempFile;

fn is_send<T: Send>() {}
fn is_send_and_sync<T: Send + Sync>() {}
fn is_clone<T: Clone>() {}

#[test]
fn the_tests_side_is_send_and_sync() {
    is_send_and_sync::<(EmbeddedPeer, EmbeddedNetwork)>();
    is_send_and_sync::<Manual>();
    is_send_and_sync::<Peer>();
    is_send_and_sync::<ListenerControl>();
    is_send_and_sync::<PendingConnect>();
    is_send_and_sync::<StreamNetwork>();
    is_send_and_sync::<(DatagramNetwork, DatagramPeer)>();
    is_send_and_sync::<ManualForeignSource>();
    is_send_and_sync::<(DriverCounts, ClockMode)>();
    is_send_and_sync::<Faulty<Manual>>();
    is_send_and_sync::<Faults>();
    is_send_and_sync::<WrappingFactory<Manual, ()>>();
    is_send_and_sync::<MessageCollector<u8>>();
    is_send_and_sync::<Shuffled>();
    is_send_and_sync::<(DriverCall, InjectedError, LostRegistrations, EarlyReturns, FailTimes)>();
    is_send_and_sync::<(Log, RecordedMethod, TempFile)>();
    is_clone::<(
        EmbeddedNetwork,
        Manual,
        StreamNetwork,
        DatagramNetwork,
        ListenerControl,
        ManualForeignSource,
        Faults,
        Log,
    )>();
}

#[test]
fn drivers_are_send() {
    is_send::<ManualDriver>();
    is_send::<FaultyDriver>();
    is_send::<WrappedDriver<FaultyDriver>>();
}
