//! A channel that leaves its loop, and comes back to it (C04).

use waterwheel_channel::Datagram;

use crate::loop_rig::{get, on_every_loop};
use crate::support::{Post, peer, received};

#[test]
fn c04_a_channel_that_leaves_in_the_middle_of_a_batch_loses_nothing() {
    on_every_loop(|rig| {
        let post = Post::silent(rig);
        let peer = peer();
        for word in ["1", "off", "3", "4"] {
            peer.send_to(word.as_bytes(), post.address()).unwrap();
        }
        post.channel.set_auto_read(true);
        assert_eq!(post.texts(2), ["1", "off"]);
        get(post.channel.deregister());
        for word in ["5", "6"] {
            peer.send_to(word.as_bytes(), post.address()).unwrap();
        }
        rig.assert_calm();
        get(post.channel.register());
        rig.until_asleep();
        assert_eq!(post.rest(), [], "reads are off");
        post.channel.set_auto_read(true);
        assert_eq!(post.texts(4), ["3", "4", "5", "6"]);
    });
}

#[test]
fn c04_bytes_written_while_deregistered_are_sent_afterwards() {
    on_every_loop(|rig| {
        let (peer, post) = (peer(), Post::bound(rig));
        get(post.channel.deregister());
        let written = post.channel.write_and_flush(Datagram::to(peer.local_addr().unwrap(), "hi"));
        rig.until_asleep();
        assert!(!written.is_done());
        get(post.channel.register());
        get(written);
        assert_eq!(received(&peer).0, "hi");
        peer.send_to(b"there", post.address()).unwrap();
        assert_eq!(post.texts(1), ["there"]);
    });
}
