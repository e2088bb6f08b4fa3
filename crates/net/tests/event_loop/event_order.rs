//! The order of events under a loop, and no events for detached registrations (L05, L07).

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};

use bytes::Bytes;
use rustix::event::PollFlags;
use rustix::io::fcntl_dupfd_cloexec;
use waterwheel_channel::driver::{IoEvent, OutQueue, ReadPlan, Role, Submit};
use waterwheel_channel::{LocalLoop, Registrant, Token};
use waterwheel_executor::Error;
use waterwheel_net::Socket;

use crate::driver_rig::{dup, pair, until};
use crate::loop_rig::{LogSender, TIME_LIMIT, on_every_loop};

/// Writes until there is no room; returns the number of bytes.
fn fill(here: &LocalLoop, token: Token) -> usize {
    let mut queue = OutQueue::new();
    queue.push(Bytes::from_static(&[7; 64 * 1024]));
    let mut written = 0;
    while let Submit::Done(n) = here.write(token, &queue).unwrap() {
        written += n;
    }
    written
}

#[test]
fn l05_simultaneous_events_come_as_wrote_then_read_then_eof() {
    on_every_loop(|rig| {
        let (ours, mut peer) = pair();
        let duplicate = dup(&ours);
        let (sender, reports) = channel();
        // All in one task, so that the loop sees the events in one round.
        let _peer = rig.run_on_loop(move |here| {
            let io = Socket::new(ours).unwrap().into();
            let token = here.attach(io, Role::Stream, LogSender(sender)).unwrap();
            here.set_read(token, Some(ReadPlan::default()));
            let mut written = fill(here, token);
            peer.write_all(b"last").unwrap();
            peer.shutdown(std::net::Shutdown::Write).unwrap();
            let mut buffer = vec![0; 64 * 1024];
            while written > 0 {
                written -= peer.read(&mut buffer).unwrap();
            }
            until(&duplicate, PollFlags::OUT | PollFlags::IN | PollFlags::RDHUP);
            peer
        });
        let order: Vec<_> = (0..4).map(|_| reports.recv_timeout(TIME_LIMIT).unwrap()).collect();
        assert_eq!(order, ["wrote 0", "read last", "complete", "eof"]);
        rig.assert_not_spinning();
    });
}

/// On `Connected`, writes until there is no room. Logs its events.
struct WritesOnConnect(Sender<String>);

impl Registrant for WritesOnConnect {
    fn on_event(&mut self, here: &LocalLoop, event: IoEvent) -> Result<(), Error> {
        if let IoEvent::Connected(token) = event {
            fill(here, token);
        }
        let _ = self.0.send(crate::loop_rig::describe(&event));
        Ok(())
    }

    fn on_detached(&mut self, _: &LocalLoop, _: Option<Error>) {}
}

#[test]
fn l05_connected_comes_before_any_other_event_of_a_stream() {
    on_every_loop(|rig| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, reports) = channel();
        let peer = rig.run_on_loop(move |here| {
            let socket = Socket::unconnected(address).unwrap();
            let duplicate = dup(&socket);
            let role = Role::Connecting(address.into());
            let token = here.attach(socket.into(), role, WritesOnConnect(sender)).unwrap();
            here.set_read(token, Some(ReadPlan::default()));
            let (mut peer, _) = listener.accept().unwrap();
            peer.write_all(b"early").unwrap();
            until(&duplicate, PollFlags::IN | PollFlags::OUT);
            peer
        });
        let order: Vec<_> = (0..3).map(|_| reports.recv_timeout(TIME_LIMIT).unwrap()).collect();
        assert_eq!(order, ["connected", "read early", "complete"]);
        rig.assert_not_spinning();
        assert!(reports.try_recv().is_err(), "the write is pending");
        drop(peer);
    });
}

/// The tokens of a test, and the events of each.
#[derive(Default)]
struct SharedLog {
    tokens: Vec<Token>,
    events: Vec<(usize, String)>,
}

/// Logs its events. The first event of any registration runs the action of the test.
struct Member {
    index: usize,
    log: Rc<RefCell<SharedLog>>,
    act: Rc<RefCell<Option<Act>>>,
}

type Act = Box<dyn FnOnce(&LocalLoop, usize)>;

impl Registrant for Member {
    fn on_event(&mut self, here: &LocalLoop, event: IoEvent) -> Result<(), Error> {
        self.log.borrow_mut().events.push((self.index, crate::loop_rig::describe(&event)));
        let act = self.act.borrow_mut().take();
        if let Some(act) = act {
            act(here, self.index);
        }
        Ok(())
    }

    fn on_detached(&mut self, _: &LocalLoop, cause: Option<Error>) {
        self.log.borrow_mut().events.push((self.index, crate::loop_rig::describe_end(cause)));
    }
}

#[test]
fn l07_a_thousand_streams_detached_by_the_first_are_not_called() {
    const MANY: usize = 1000;
    on_every_loop(|rig| {
        let (sender, reports) = channel();
        rig.run_on_loop(move |here| {
            let log = Rc::new(RefCell::new(SharedLog::default()));
            let (act, all) = (Rc::new(RefCell::new(None::<Act>)), log.clone());
            for index in 0..MANY {
                let (ours, mut peer) = UnixStream::pair().unwrap();
                let member = Member { index, log: log.clone(), act: act.clone() };
                let io = Socket::new(ours).unwrap().into();
                let token = here.attach(io, Role::Stream, member).unwrap();
                here.set_read(token, Some(ReadPlan { max_reads: 1, size: 1 }));
                log.borrow_mut().tokens.push(token);
                peer.write_all(b"x").unwrap();
            }
            *act.borrow_mut() = Some(Box::new(move |here, first| {
                let tokens = all.borrow().tokens.clone();
                for (_, token) in tokens.into_iter().enumerate().filter(|(at, _)| *at != first) {
                    assert!(here.detach(token));
                }
                let seen =
                    move || sender.send((first, std::mem::take(&mut all.borrow_mut().events)));
                drop(here.spawn_local(async move {
                    waterwheel_channel::sleep(crate::loop_rig::WATCH_TIME).await;
                    let _ = seen();
                }));
            }));
        });
        let (first, reports) = reports.recv_timeout(TIME_LIMIT).unwrap();
        let (ended, events): (Vec<_>, Vec<_>) =
            reports.into_iter().partition(|(_, words)| words.starts_with("unregistered"));
        assert!(events.iter().all(|(at, _)| *at == first), "{events:?}");
        assert_eq!(events[0].1, "read x");
        assert_eq!(ended.len(), MANY - 1);
        assert!(
            ended.iter().all(|(at, words)| *at != first && words == "unregistered: on request")
        );
        assert_eq!(rig.event_loop.metrics().registrations, 1);
    });
}

#[test]
fn l07_a_descriptor_number_reused_in_the_same_batch_gets_no_old_event() {
    // High numbers that no concurrent test of this process receives.
    const NUMBER: i32 = 15_000;
    on_every_loop(|rig| {
        let (sender, reports) = channel();
        let (ready, was_ready) = channel();
        rig.run_on_loop(move |here| {
            let log = Rc::new(RefCell::new(SharedLog::default()));
            let act = Rc::new(RefCell::new(None::<Act>));
            let attach = {
                let (log, act) = (log.clone(), act.clone());
                move |here: &LocalLoop, ours: std::os::fd::OwnedFd| {
                    let index = log.borrow().tokens.len();
                    let member = Member { index, log: log.clone(), act: act.clone() };
                    let io = Socket::new(ours).unwrap().into();
                    let token = here.attach(io, Role::Stream, member).unwrap();
                    here.set_read(token, Some(ReadPlan::default()));
                    log.borrow_mut().tokens.push(token);
                }
            };
            // The peers stay open: a close would be one more event.
            let ends = [(); 2].map(|()| {
                let (ours, mut peer) = UnixStream::pair().unwrap();
                let ours = fcntl_dupfd_cloexec(ours, NUMBER).unwrap();
                let number = ours.as_raw_fd();
                attach(here, ours);
                peer.write_all(b"x").unwrap();
                (number, peer)
            });
            *act.borrow_mut() = Some(Box::new(move |here, first| {
                let victim = 1 - first;
                let token = log.borrow().tokens[victim];
                assert!(here.detach(token));
                let (ours, peer) = UnixStream::pair().unwrap();
                let again = fcntl_dupfd_cloexec(&ours, ends[victim].0).unwrap();
                assert_eq!(again.as_raw_fd(), ends[victim].0, "the same descriptor number");
                attach(here, again);
                ready.send((first, victim, peer)).unwrap();
                let watch = here.clone();
                drop(watch.spawn_local(async move {
                    let _ends = ends;
                    loop {
                        waterwheel_channel::sleep(crate::loop_rig::WATCH_TIME / 4).await;
                        for entry in std::mem::take(&mut log.borrow_mut().events) {
                            let _ = sender.send(entry);
                        }
                    }
                }));
            }));
        });
        let (first, victim, mut peer) = was_ready.recv_timeout(TIME_LIMIT).unwrap();
        let next = || reports.recv_timeout(TIME_LIMIT).unwrap();
        let mut batch = [next(), next(), next()];
        batch[1..].sort();
        let mut rest = [(first, "complete".into()), (victim, "unregistered: on request".into())];
        rest.sort();
        assert_eq!(batch[0], (first, "read x".into()));
        assert_eq!(batch[1..], rest, "no event for the detached stream or its successor");
        peer.write_all(b"y").unwrap();
        assert_eq!([next(), next()], [(2, "read y".into()), (2, "complete".into())]);
    });
}
