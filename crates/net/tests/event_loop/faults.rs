//! Faults that a loop survives: closed descriptors, callbacks that fail or panic (L08, E12).

use std::io::{Read, Write};
use std::net::TcpListener;
use std::panic::resume_unwind;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use waterwheel_channel::driver::{Interest, IoEvent, ReadPlan, Role};
use waterwheel_channel::{LocalLoop, Registrant};
use waterwheel_executor::Error;
use waterwheel_net::Socket;

use crate::loop_rig::closable::Closable;
use crate::loop_rig::{EventLog, LoopRig, get, on_every_loop, read_available};

/// Registers a pipe whose bytes are read and logged, to check that the loop still serves other registrations.
fn neighbour(rig: &LoopRig) -> (std::io::PipeWriter, EventLog) {
    let (reader, writer) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&reader, true).unwrap();
    let (_, events) = rig.watch(reader, Interest::READABLE, |reader, _| {
        let _ = read_available(reader);
        Ok(())
    });
    (writer, events)
}

fn assert_served((writer, events): &mut (std::io::PipeWriter, EventLog)) {
    writer.write_all(b"x").unwrap();
    assert_eq!(events.next(), "Readiness(readable)");
}

#[test]
fn l08_a_descriptor_closed_elsewhere_is_unregistered_with_the_cause() {
    on_every_loop(|rig| {
        let mut neighbour = neighbour(rig);
        let fd = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let source = Closable::new(&fd);
        drop(fd);
        let (handle, events) = rig.watch(source.clone(), Interest::READABLE, |_, _| Ok(()));
        source.close();
        if rig.is_epoll() {
            // epoll reports nothing: the next `epoll_ctl` call fails with EBADF.
            let refused = handle.set_interest(Interest::WRITABLE);
            refused.wait_timeout(crate::loop_rig::TIME_LIMIT).unwrap();
            let refused = refused.join().unwrap_err().to_string();
            assert!(refused.contains(&Errno::BADF.to_string()), "{refused}");
        } else {
            // The next poll(2) reports POLLNVAL.
            rig.run_on_loop(|_| ());
        }
        let end = events.next();
        assert!(
            end.starts_with("unregistered:") && end.contains(&Errno::BADF.to_string()),
            "{end}"
        );
        assert_served(&mut neighbour);
        assert_eq!(events.rest(), [""; 0], "one event and no more");
        assert!(!get(handle.unregister()), "unregistered already");
        assert_eq!(rig.event_loop.metrics().registrations, 1);
        rig.assert_not_spinning();
        assert_eq!(rig.event_loop.metrics().rebuilds, 0);
    });
}

#[test]
fn l08_a_rebuild_finds_a_closed_descriptor() {
    on_every_loop(|rig| {
        let fd = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let source = Closable::new(&fd);
        drop(fd);
        let (_handle, events) = rig.watch(source.clone(), Interest::READABLE, |_, _| Ok(()));
        let mut neighbour = neighbour(rig);
        source.close();
        rig.event_loop.rebuild().unwrap();
        let end = events.next();
        assert!(
            end.starts_with("unregistered:") && end.contains(&Errno::BADF.to_string()),
            "{end}"
        );
        assert_served(&mut neighbour);
        assert_eq!(events.rest(), [""; 0]);
    });
}

#[test]
fn l08_set_interest_on_a_closed_descriptor_returns_the_error_to_the_callback() {
    on_every_loop(|rig| {
        let fd = eventfd(1, EventfdFlags::NONBLOCK).unwrap();
        let source = Closable::new(&fd);
        // The duplicate keeps the file in the epoll set, which would report it forever.
        let (_, events) = rig.watch(source, Interest::READABLE, |source, context| {
            source.close();
            let changed = context.set_interest(Interest::READABLE | Interest::WRITABLE);
            assert_eq!(changed.is_err(), context.event_loop().handle().driver_name() == "epoll");
            Ok(())
        });
        assert_eq!(events.next(), "Readiness(readable)");
        let end = events.next();
        assert!(
            end.starts_with("unregistered:") && end.contains(&Errno::BADF.to_string()),
            "{end}"
        );
        let mut neighbour = neighbour(rig);
        assert_served(&mut neighbour);
        assert_eq!(events.rest(), [""; 0]);
    });
}

#[test]
fn e12_a_panicking_callback_is_reported_and_unregistered_and_others_stay() {
    on_every_loop(|rig| {
        let mut neighbours = [(); 3].map(|()| neighbour(rig));
        let ready = eventfd(1, EventfdFlags::NONBLOCK).unwrap();
        let (handle, events) = rig
            .watch(ready, Interest::READABLE, |_, _| resume_unwind(Box::new("callback on fire")));
        assert_eq!(events.next(), "Readiness(readable)");
        let end = events.next();
        assert!(end.starts_with("unregistered:") && end.contains("callback on fire"), "{end}");
        let report = rig.wait_for_report("panicked");
        assert!(report.contains("callback") && report.contains("callback on fire"), "{report}");
        neighbours.iter_mut().for_each(assert_served);
        assert!(!get(handle.unregister()), "unregistered already");
        assert_eq!(events.rest(), [""; 0], "one event only");
        rig.assert_not_spinning();
    });
}

/// Panics at the first event.
struct PanicsOnEvent(std::sync::mpsc::Sender<String>);

impl Registrant for PanicsOnEvent {
    fn on_event(&mut self, _: &LocalLoop, _: IoEvent) -> Result<(), Error> {
        resume_unwind(Box::new("registrant on fire"))
    }

    fn on_detached(&mut self, _: &LocalLoop, cause: Option<Error>) {
        let _ = self.0.send(crate::loop_rig::describe_end(cause));
    }
}

#[test]
fn e12_a_stream_whose_registrant_panics_is_closed() {
    on_every_loop(|rig| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        peer.set_read_timeout(Some(crate::loop_rig::TIME_LIMIT)).unwrap();
        let ours = Socket::new(listener.accept().unwrap().0).unwrap();
        let (sender, events) = std::sync::mpsc::channel();
        rig.run_on_loop(move |here| {
            let token = here.attach(ours.into(), Role::Stream, PanicsOnEvent(sender)).unwrap();
            here.set_read(token, Some(ReadPlan::default()));
        });
        peer.write_all(b"x").unwrap();
        let end = events.recv_timeout(crate::loop_rig::TIME_LIMIT).unwrap();
        assert!(end.contains("registrant on fire"), "{end}");
        rig.wait_for_report("registrant on fire");
        assert_eq!(peer.read(&mut [0]).unwrap(), 0, "the stream was closed");
        assert_served(&mut neighbour(rig));
    });
}
