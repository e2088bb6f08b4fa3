//! UDP channels that are deregistered from their loop and registered again (C04).

use waterwheel_channel::Datagram;

use crate::loop_rig::{get, on_every_loop};
use crate::support::{UdpProbe, peer, received};

#[test]
fn c04_a_channel_deregistered_in_a_batch_loses_no_datagram() {
    on_every_loop(|rig| {
        let probe = UdpProbe::with_reads_off(rig);
        let peer = peer();
        for word in ["1", "off", "3", "4"] {
            peer.send_to(word.as_bytes(), probe.address()).unwrap();
        }
        probe.channel.set_auto_read(true);
        assert_eq!(probe.texts(2), ["1", "off"]);
        get(probe.channel.deregister());
        for word in ["5", "6"] {
            peer.send_to(word.as_bytes(), probe.address()).unwrap();
        }
        rig.assert_not_spinning();
        get(probe.channel.register());
        rig.wait_until_asleep();
        assert_eq!(probe.rest(), [], "reads are off");
        probe.channel.set_auto_read(true);
        assert_eq!(probe.texts(4), ["3", "4", "5", "6"]);
    });
}

#[test]
fn c04_bytes_written_while_deregistered_are_sent_afterwards() {
    on_every_loop(|rig| {
        let (peer, probe) = (peer(), UdpProbe::bound(rig));
        get(probe.channel.deregister());
        let written = probe.channel.write_and_flush(Datagram::to(peer.local_addr().unwrap(), "hi"));
        rig.wait_until_asleep();
        assert!(!written.is_done());
        get(probe.channel.register());
        get(written);
        assert_eq!(received(&peer).0, "hi");
        peer.send_to(b"there", probe.address()).unwrap();
        assert_eq!(probe.texts(1), ["there"]);
    });
}
