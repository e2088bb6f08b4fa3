//! Registrations that misbehave: sources that refuse a second `as_fd`, handlers that never stop registering,
//! read plans larger than memory.

use std::cell::Cell;
use std::io::{PipeReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use waterwheel_channel::driver::{Interest, IoEvent, ReadPlan, Readiness, Role};
use waterwheel_channel::{
    EventLoop, EventLoopGroup, ForeignContext, ForeignHandler, LocalLoop, Registrant, on_ready,
};
use waterwheel_executor::Error;
use waterwheel_net::{Auto, Socket, foreign};

const TIME_LIMIT: Duration = Duration::from_secs(20);

fn event_loop() -> EventLoop {
    EventLoopGroup::builder(Auto).threads(1).build().unwrap().next()
}

/// Panics at the second `as_fd`.
struct FdOnce(PipeReader, AtomicUsize);

impl AsFd for FdOnce {
    fn as_fd(&self) -> BorrowedFd<'_> {
        assert_eq!(self.1.fetch_add(1, Ordering::Relaxed), 0, "as_fd called again");
        self.0.as_fd()
    }
}

#[test]
fn l08_a_source_is_asked_for_its_descriptor_once() {
    let event_loop = event_loop();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let (events, ready) = mpsc::channel();
    let sender = on_ready(move |_: &FdOnce, _, context| {
        context.unregister();
        events.send(()).map_err(Error::new)
    });
    let source = foreign(FdOnce(reader, AtomicUsize::new(0)));
    let handle = event_loop.register_foreign(source, Interest::READABLE, sender).join().unwrap();
    event_loop.rebuild().unwrap();
    handle.set_interest(Interest::READABLE | Interest::PRIORITY).join().unwrap();
    writer.write_all(b"x").unwrap();
    ready.recv_timeout(TIME_LIMIT).unwrap();
    event_loop.submit(|| ()).unwrap().join().unwrap();
}

/// When unregistered, registers a copy of its source and unregisters the copy.
struct Reregisters(Rc<Cell<u64>>);

impl ForeignHandler<PipeReader> for Reregisters {
    fn on_ready(&mut self, _: &PipeReader, _: Readiness, _: &ForeignContext) -> Result<(), Error> {
        Ok(())
    }

    fn on_unregistered(&mut self, source: &PipeReader, _: Option<Error>) {
        self.0.set(self.0.get() + 1);
        let (Some(here), Ok(copy)) = (LocalLoop::current(), source.try_clone()) else { return };
        let again = Reregisters(self.0.clone());
        if let Ok(handle) = here.register_foreign(foreign(copy), Interest::READABLE, again) {
            drop(handle.unregister());
        }
    }
}

#[test]
fn l08_endings_that_register_anew_do_not_starve_the_loop() {
    let event_loop = event_loop();
    let (reader, _writer) = std::io::pipe().unwrap();
    let begun = event_loop.submit(move || {
        let here = LocalLoop::current().unwrap();
        let again = Reregisters(Rc::new(Cell::new(0)));
        let handle = here.register_foreign(foreign(reader), Interest::READABLE, again).unwrap();
        drop(handle.unregister());
    });
    begun.unwrap().join().unwrap();
    for n in 0..100 {
        let task = event_loop.submit(move || n).unwrap();
        task.wait_timeout(TIME_LIMIT).expect("the loop runs tasks");
    }
    let ended = event_loop.shutdown_gracefully(Duration::ZERO, TIME_LIMIT).unwrap();
    ended.wait_timeout(TIME_LIMIT).expect("the loop terminates");
}

#[test]
fn l08_a_loop_that_shuts_down_registers_nothing() {
    let event_loop = event_loop();
    let (reader, _writer) = std::io::pipe().unwrap();
    let own = event_loop.clone();
    let refused = event_loop.submit(move || {
        let _ended = own.shutdown_gracefully(Duration::ZERO, TIME_LIMIT).unwrap();
        let here = LocalLoop::current().unwrap();
        let never = on_ready(|_: &PipeReader, _, _| Ok(()));
        here.register_foreign(foreign(reader), Interest::READABLE, never).map(drop)
    });
    let refused = refused.unwrap().join().unwrap().unwrap_err();
    assert!(refused.to_string().contains("shutting down"), "{refused}");
}

/// Sends the bytes of its reads to the test.
struct SendsReads(mpsc::Sender<Vec<u8>>);

impl Registrant for SendsReads {
    fn on_event(&mut self, _: &LocalLoop, event: IoEvent) -> Result<(), Error> {
        match event {
            IoEvent::Read(_, bytes) => self.0.send(bytes.to_vec()).map_err(Error::new),
            _ => Ok(()),
        }
    }

    fn on_detached(&mut self, _: &LocalLoop, _: Option<Error>) {}
}

#[test]
fn l05_a_plan_with_an_absurd_size_reads_the_available_bytes() {
    let event_loop = event_loop();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut theirs, _) = listener.accept().unwrap();
    let (events, read) = mpsc::channel();
    let attached = event_loop.submit(move || {
        let here = LocalLoop::current().unwrap();
        let socket = Socket::new(ours).unwrap();
        let token = here.attach(socket.into(), Role::Stream, SendsReads(events)).unwrap();
        here.set_read(token, Some(ReadPlan { max_reads: u32::MAX, size: usize::MAX }));
    });
    attached.unwrap().join().unwrap();
    theirs.write_all(b"hello").unwrap();
    assert_eq!(read.recv_timeout(TIME_LIMIT).unwrap(), b"hello");
}
