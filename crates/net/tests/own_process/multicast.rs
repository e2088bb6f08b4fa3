//! Multicast groups, interfaces and several addresses (C13). Each test starts itself again in a network
//! namespace of its own, where it may change interfaces and routes. Where the system does not allow that, the
//! test is skipped with a line on standard error; with `CI=true` that is a failure.
//!
//! ```text
//!   one   10.1.0.1/24 10.1.0.5/24 fd01::1  ◄── 224.0.0.0/4      two   10.2.0.1/24 fd02::1
//! ```

#[path = "../support/loop_rig.rs"]
mod loop_rig;

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

use waterwheel_channel::driver::{MulticastMembership, NetworkInterface, SocketOption};
use waterwheel_channel::{
    AddressSpec, Bootstrap, Channel, Ctx, Datagram, HandlerResult, In, InboundHandler,
};
use waterwheel_net::Udp;

use loop_rig::{LoopRig, TIME_LIMIT, get, on_every_loop};

/// The environment variable that is set inside the namespace.
const INSIDE: &str = "WATERWHEEL_TEST_NETWORK";

const NETWORK: &str = "
    ip link set lo up &&
    ip link add one type veth peer name one_end && ip link set one_end up &&
    ip link add two type veth peer name two_end && ip link set two_end up &&
    ip address add 10.1.0.1/24 dev one && ip address add 10.1.0.5/24 dev one &&
    ip address add fd01::1/64 dev one nodad &&
    ip address add 10.2.0.1/24 dev two && ip address add fd02::1/64 dev two nodad &&
    ip link set one up && ip link set two up && ip route add 224.0.0.0/4 dev one
";

const PORT: u16 = 5000;

/// Runs the test of this name in a network namespace of its own, over every driver.
fn in_network_namespace(name: &str, test: impl Fn(&LoopRig)) {
    if std::env::var_os(INSIDE).is_some() {
        return on_every_loop(test);
    }
    let unshared = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "sh", "-c", script]);
        command.arg("sh").arg(std::env::current_exe().unwrap()).arg(name).env(INSIDE, "yes");
        command.output()
    };
    let why_not = match unshared(NETWORK) {
        Ok(tried) if tried.status.success() => None,
        Ok(tried) => Some(String::from_utf8_lossy(&tried.stderr).into_owned()),
        Err(error) => Some(format!("unshare: {error}")),
    };
    if let Some(why) = why_not {
        // Not with eprintln!: the harness shows captured output only of failed tests.
        let _ = writeln!(std::io::stderr(), "SKIPPED {name}: no network namespace: {why}");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "with CI=true a skip is a failure");
        return;
    }
    let ran =
        unshared(&format!("{} && exec \"$1\" --exact \"$2\" --nocapture", NETWORK.trim())).unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains("1 passed"), "no test is called {name}: {said}");
}

/// Returns an interface by its index.
fn number(name: &str) -> NetworkInterface {
    let links = Command::new("ip").args(["-o", "link", "show", name]).output().unwrap();
    let line = String::from_utf8(links.stdout).unwrap();
    NetworkInterface::Index(line.split(':').next().unwrap().parse().unwrap())
}

/// A channel and the texts that it receives.
struct MulticastReceiver {
    channel: Channel,
    received: Receiver<String>,
}

struct SendsTexts(std::sync::mpsc::Sender<String>);

impl InboundHandler for SendsTexts {
    type In = Datagram;

    fn on_read(&mut self, _: &Ctx<'_>, datagram: Datagram) -> HandlerResult {
        let _ = self.0.send(String::from_utf8_lossy(datagram.bytes()).into_owned());
        Ok(())
    }
}

impl MulticastReceiver {
    fn new(rig: &LoopRig, at: impl Into<AddressSpec>, options: &[SocketOption]) -> Self {
        let (sender, received) = channel();
        let mut bootstrap =
            Bootstrap::new(&rig.event_loop.parent().unwrap(), Udp).initialiser(move |edit| {
                edit.add_last("listen", In(SendsTexts(sender.clone())))?;
                Ok(())
            });
        for option in options {
            bootstrap = bootstrap.socket_option(*option);
        }
        Self { channel: get(bootstrap.bind(at)), received }
    }

    /// Joins a group, beside other members at the same port.
    fn member(rig: &LoopRig, membership: MulticastMembership) -> Self {
        let any = match membership.group {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let options = [SocketOption::ReuseAddress(true), SocketOption::JoinGroup(membership)];
        Self::new(rig, (any, PORT), &options)
    }

    fn set(&self, option: SocketOption) {
        get(self.channel.set_option(option));
    }

    fn send(&self, to: SocketAddr, text: &'static str) {
        get(self.channel.write_and_flush(Datagram::to(to, text)));
    }

    #[track_caller]
    fn assert_receives(&self, text: &str) {
        assert_eq!(self.received.recv_timeout(TIME_LIMIT).as_deref(), Ok(text));
    }
}

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const TO_GROUP: SocketAddr = SocketAddr::new(IpAddr::V4(GROUP), PORT);

/// To check that a datagram does not arrive, the test receives the datagram sent after it.
#[test]
fn c13_members_of_a_group_receive_its_datagrams_until_they_leave() {
    in_network_namespace("c13_members_of_a_group_receive_its_datagrams_until_they_leave", |rig| {
        let here = MulticastMembership::new(GROUP).at(number("one"));
        let members = [MulticastReceiver::member(rig, here), MulticastReceiver::member(rig, here)];
        let other = MulticastReceiver::member(
            rig,
            MulticastMembership::new([239, 9, 9, 9]).at(number("one")),
        );
        // The routing table chooses the interface for both.
        let sender = MulticastReceiver::new(rig, "10.1.0.1:0", &[]);
        let routed = MulticastReceiver::member(rig, MulticastMembership::new(GROUP));
        sender.send(TO_GROUP, "to both");
        routed.assert_receives("to both");
        members.iter().for_each(|member| member.assert_receives("to both"));
        members[0].set(SocketOption::LeaveGroup(here));
        sender.send(TO_GROUP, "to one");
        members[1].assert_receives("to one");
        members[0].set(SocketOption::JoinGroup(here));
        sender.send(TO_GROUP, "to both again");
        members.iter().for_each(|member| member.assert_receives("to both again"));
        sender.send(([239, 9, 9, 9], PORT).into(), "to the other");
        other.assert_receives("to the other");
    });
}

#[test]
fn c13_multicast_loop_decides_whether_this_machine_receives_its_own_datagrams() {
    in_network_namespace(
        "c13_multicast_loop_decides_whether_this_machine_receives_its_own_datagrams",
        |rig| {
            let member =
                MulticastReceiver::member(rig, MulticastMembership::new(GROUP).at(number("one")));
            let options = [
                SocketOption::MulticastInterface(NetworkInterface::Address(Ipv4Addr::new(
                    10, 1, 0, 1,
                ))),
                SocketOption::MulticastLoop(false),
                SocketOption::MulticastTimeToLive(3),
            ];
            let sender = MulticastReceiver::new(rig, "10.1.0.1:0", &options);
            sender.send(TO_GROUP, "to others");
            sender.set(SocketOption::MulticastLoop(true));
            sender.send(TO_GROUP, "to all");
            member.assert_receives("to all");
        },
    );
}

#[test]
fn c13_a_group_is_received_at_the_interface_where_it_was_joined() {
    in_network_namespace("c13_a_group_is_received_at_the_interface_where_it_was_joined", |rig| {
        let by_address = NetworkInterface::Address(Ipv4Addr::new(10, 2, 0, 1));
        for interface in [number("two"), by_address] {
            let member =
                MulticastReceiver::member(rig, MulticastMembership::new(GROUP).at(interface));
            let sender = MulticastReceiver::new(rig, "0.0.0.0:0", &[]);
            sender.set(SocketOption::MulticastInterface(number("one")));
            sender.send(TO_GROUP, "by one");
            sender.set(SocketOption::MulticastInterface(interface));
            sender.send(TO_GROUP, "by two");
            member.assert_receives("by two");
            get(member.channel.close());
        }
    });
}

#[test]
fn c13_a_member_can_limit_a_group_to_one_source() {
    in_network_namespace("c13_a_member_can_limit_a_group_to_one_source", |rig| {
        let group = Ipv4Addr::new(232, 1, 2, 3);
        let options = [SocketOption::MulticastInterface(number("one"))];
        let one = MulticastReceiver::new(rig, "10.1.0.1:0", &options);
        let other = MulticastReceiver::new(rig, "10.1.0.5:0", &options);
        for interface in [number("one"), NetworkInterface::Address(Ipv4Addr::new(10, 1, 0, 1))] {
            let only = MulticastMembership::new(group).at(interface).from_source([10, 1, 0, 5]);
            let member = MulticastReceiver::member(rig, only);
            one.send((group, PORT).into(), "from the wrong one");
            other.send((group, PORT).into(), "from the right one");
            member.assert_receives("from the right one");
            member.set(SocketOption::LeaveGroup(only));
            other.send((group, PORT).into(), "from the right one, too late");
            let two = MulticastMembership { source: Some([10, 1, 0, 1].into()), ..only };
            member.set(SocketOption::JoinGroup(two));
            one.send((group, PORT).into(), "from the one that is right now");
            member.assert_receives("from the one that is right now");
            get(member.channel.close());
        }
    });
}

#[test]
fn c13_ipv6_groups_are_joined_and_left() {
    in_network_namespace("c13_ipv6_groups_are_joined_and_left", |rig| {
        let group: Ipv6Addr = "ff05::1234".parse().unwrap();
        let to_group = SocketAddr::from((group, PORT));
        let here = MulticastMembership::new(group).at(number("one"));
        let members = [MulticastReceiver::member(rig, here), MulticastReceiver::member(rig, here)];
        let options =
            [SocketOption::MulticastInterface(number("one")), SocketOption::MulticastTimeToLive(2)];
        let sender = MulticastReceiver::new(rig, "[fd01::1]:0", &options);
        sender.send(to_group, "to both");
        members.iter().for_each(|member| member.assert_receives("to both"));
        members[0].set(SocketOption::LeaveGroup(here));
        sender.set(SocketOption::MulticastLoop(false));
        sender.send(to_group, "to others");
        sender.set(SocketOption::MulticastLoop(true));
        sender.send(to_group, "to one");
        members[1].assert_receives("to one");
    });
}

#[test]
fn c13_a_member_can_limit_an_ipv6_group_to_one_source() {
    in_network_namespace("c13_a_member_can_limit_an_ipv6_group_to_one_source", |rig| {
        let group: Ipv6Addr = "ff35::1234".parse().unwrap();
        let source: Ipv6Addr = "fd01::1".parse().unwrap();
        let only = MulticastMembership::new(group).at(number("one")).from_source(source);
        let member = MulticastReceiver::member(rig, only);
        let options = [SocketOption::MulticastInterface(number("one"))];
        let wrong = MulticastReceiver::new(rig, "[fd02::1]:0", &options);
        wrong.send((group, PORT).into(), "from the wrong one");
        let right = MulticastReceiver::new(rig, "[fd01::1]:0", &options);
        right.send((group, PORT).into(), "from the right one");
        member.assert_receives("from the right one");
        member.set(SocketOption::LeaveGroup(only));
        assert!(member.channel.is_active());
    });
}

#[test]
fn c13_a_channel_bound_to_one_address_receives_datagrams_to_that_address_only() {
    in_network_namespace(
        "c13_a_channel_bound_to_one_address_receives_datagrams_to_that_address_only",
        |rig| {
            let (one, five) = (
                MulticastReceiver::new(rig, "10.1.0.1:5000", &[]),
                MulticastReceiver::new(rig, "10.1.0.5:5000", &[]),
            );
            let sender = MulticastReceiver::new(rig, "10.2.0.1:0", &[]);
            sender.send(([10, 1, 0, 1], PORT).into(), "to one");
            sender.send(([10, 1, 0, 5], PORT).into(), "to five");
            five.assert_receives("to five");
            one.assert_receives("to one");
        },
    );
}

#[test]
fn c13_broadcasts_reach_all_channels_at_the_port() {
    in_network_namespace("c13_broadcasts_reach_all_channels_at_the_port", |rig| {
        let share = [SocketOption::ReuseAddress(true)];
        let all = [
            MulticastReceiver::new(rig, "0.0.0.0:5000", &share),
            MulticastReceiver::new(rig, "0.0.0.0:5000", &share),
        ];
        let sender = MulticastReceiver::new(rig, "10.1.0.1:0", &[SocketOption::Broadcast(true)]);
        sender.send(([10, 1, 0, 255], PORT).into(), "to everybody");
        all.iter().for_each(|receiver| receiver.assert_receives("to everybody"));
    });
}
