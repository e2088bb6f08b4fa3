//! Allocation budgets: a turn of an event loop and an echo allocate nothing, a connection little (L03, C02,
//! C06, C13).

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use waterwheel_channel::driver::{Interest, OpenDriver};
use waterwheel_channel::{
    Address, Ctx, Datagram, Datagrams, EventLoopGroup, Events, Handler, HandlerResult, In,
    InboundHandler, Listener, LocalLoop, ManualEventLoop, Msg, NewChannel, Stream, on_ready, sleep,
};
use waterwheel_net::{Epoll, Poll as PollDriver, Socket, Tcp, Udp, foreign};

#[path = "../../../../support/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::{allocations_in, bytes};

/// The number of measured turns; the warm-up takes as many turns before.
const TURNS: usize = 200;

const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

fn over_both(test: impl Fn(ManualEventLoop)) {
    fn manual(driver: impl OpenDriver + 'static) -> ManualEventLoop {
        EventLoopGroup::builder(driver).build_manual().unwrap()
    }
    test(manual(Epoll));
    test(manual(PollDriver));
}

/// Returns the number of allocations in `TURNS` turns, after all buffers have grown to their size.
fn allocated(manual: &mut ManualEventLoop, mut before_each: impl FnMut()) -> u64 {
    let mut run = || {
        for _ in 0..TURNS {
            before_each();
            manual.turn(AT_ONCE);
        }
    };
    run();
    allocations_in(run).0
}

#[test]
fn l03_an_empty_turn_allocates_nothing() {
    over_both(|mut manual| assert_eq!(allocated(&mut manual, || ()), 0));
}

#[test]
fn l08_a_turn_with_a_ready_descriptor_allocates_nothing() {
    over_both(|mut manual| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let read = on_ready(|mut reader: &std::io::PipeReader, _, _| {
            reader.read_exact(&mut [0])?;
            Ok(())
        });
        let register = |here: &LocalLoop| {
            here.register_foreign(foreign(reader), Interest::READABLE, read).map(drop)
        };
        manual.on_loop(register).unwrap().unwrap();
        let spent = allocated(&mut manual, || writer.write_all(b"x").unwrap());
        assert_eq!(spent, 0);
        assert_eq!(manual.event_loop().metrics().ready_events, 2 * TURNS as u64);
    });
}

#[test]
fn l15_a_wake_and_a_poll_allocate_nothing() {
    over_both(|mut manual| {
        let polls = Rc::new(Cell::new(0));
        let counted = polls.clone();
        let yields = poll_fn(move |context| {
            counted.set(counted.get() + 1);
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        manual.on_loop(|here| drop(here.spawn_local(yields))).unwrap();
        assert_eq!(allocated(&mut manual, || ()), 0);
        assert_eq!(polls.get(), 2 * TURNS, "one poll per turn");
    });
}

#[test]
fn l15_a_wake_off_the_loop_allocates_nothing() {
    over_both(|mut manual| {
        let (gave, waker) = std::sync::mpsc::channel::<Waker>();
        let polls = Rc::new(Cell::new(0));
        let counted = polls.clone();
        let waits = poll_fn(move |context| {
            if counted.replace(counted.get() + 1) == 0 {
                gave.send(context.waker().clone()).unwrap();
            }
            Poll::<()>::Pending
        });
        manual.on_loop(|here| drop(here.spawn_local(waits))).unwrap();
        manual.turn(AT_ONCE);
        let waker = waker.recv().unwrap();
        // Between turns this thread is not the loop's thread: a wake goes through its queue.
        assert_eq!(allocated(&mut manual, || waker.wake_by_ref()), 0);
        assert_eq!(polls.get(), 1 + 2 * TURNS);
    });
}

#[test]
fn l15_a_sleep_that_is_dropped_and_created_again_allocates_nothing() {
    over_both(|mut manual| {
        let naps = async {
            loop {
                let mut nap = std::pin::pin!(sleep(Duration::from_secs(3600)));
                let mut polled = false;
                poll_fn(|context| {
                    let _pending = nap.as_mut().poll(context);
                    context.waker().wake_by_ref();
                    if std::mem::replace(&mut polled, true) {
                        Poll::Ready(())
                    } else {
                        Poll::Pending
                    }
                })
                .await;
            }
        };
        manual.on_loop(|here| drop(here.spawn_local(naps))).unwrap();
        assert_eq!(allocated(&mut manual, || ()), 0);
    });
}

/// The number of measured connections: exactly fills the tables of a loop,
/// so that each connection is charged its share of the tables.
const CONNECTIONS: usize = 256;

/// The memory budget of an idle connection: channel, pipeline with one handler, registration, and the entry in the
/// driver. Measured: 886 bytes, in five allocations and a share of the loop's tables; each allocation also costs
/// the allocator some bytes, eight in most cases. Formerly 1,022 bytes.
const MOST_PER_CONNECTION: usize = 888;

/// The entries of a connection in the tables of the poll(2) selector: 71 bytes.
const MOST_FOR_POLL: usize = 72;

struct Echo;

impl Handler for Echo {
    fn interest(&self) -> Events {
        Events::READ
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write_and_flush(msg);
        Ok(())
    }
}

fn connect(manual: &mut ManualEventLoop) -> UnixStream {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let new = NewChannel::new(Stream::connected(Socket::new(theirs).unwrap().into(), None));
    let add = |here: &LocalLoop| {
        here.register_with(new, |edit| {
            edit.add_last("echo", Echo)?;
            Ok(())
        })
    };
    manual.on_loop(add).unwrap().unwrap();
    ours
}

#[test]
fn c13_an_idle_connection_takes_little_memory() {
    over_both(|mut manual| {
        // Shared tables are allocated with the first connection.
        let mut peers = vec![connect(&mut manual)];
        peers.reserve_exact(CONNECTIONS);
        echo(&mut manual, &mut peers);
        let before = bytes();
        for _ in 1..CONNECTIONS {
            peers.push(connect(&mut manual));
        }
        let new = (bytes() - before) / (CONNECTIONS - 1);
        echo(&mut manual, &mut peers);
        let used = (bytes() - before) / (CONNECTIONS - 1);
        assert!(new <= MOST_PER_CONNECTION, "{new} bytes each");
        assert!(used <= MOST_PER_CONNECTION + MOST_FOR_POLL, "{used} bytes each after an echo");
    });
}

fn echo(manual: &mut ManualEventLoop, peers: &mut [UnixStream]) {
    for peer in peers {
        peer.write_all(b"hello").unwrap();
        manual.turn(AT_ONCE);
        peer.read_exact(&mut [0; 5]).unwrap();
    }
}

/// The allocation budget of a connection's life: the accepted socket, the message that carries it, its transport,
/// the part of the channel that other threads share, the channel, its slots, and its handler's entry. The close
/// allocates nothing. Formerly sixteen.
const MOST_PER_LIFE: u64 = 7;

/// Registers accepted connections with the same loop.
struct Accepts;

impl InboundHandler for Accepts {
    type In = NewChannel;

    fn on_read(&mut self, ctx: &Ctx<'_>, accepted: NewChannel) -> HandlerResult {
        ctx.event_loop().register_with(accepted, |edit| {
            edit.add_last("echo", Echo)?;
            Ok(())
        })?;
        Ok(())
    }
}

#[test]
fn c02_the_life_of_a_connection_stays_within_its_allocation_budget() {
    over_both(|mut manual| {
        let add = |here: &LocalLoop| {
            here.register_with(NewChannel::new(Listener::new(Tcp)), |edit| {
                edit.add_last("accepts", In(Accepts))?;
                Ok(())
            })
        };
        let server = manual.on_loop(add).unwrap().unwrap();
        drop(server.bind(SocketAddr::from(([127, 0, 0, 1], 0))));
        manual.turn(AT_ONCE);
        let Some(Address::Ip(at)) = server.local_address() else { panic!("a bound channel") };
        let mut live = || {
            let mut peer = TcpStream::connect(at).unwrap();
            peer.write_all(b"hello").unwrap();
            manual.turn(AT_ONCE); // Accepts.
            manual.turn(AT_ONCE); // Answers.
            peer.read_exact(&mut [0; 5]).unwrap();
            drop(peer);
            manual.turn(AT_ONCE); // Closes.
            assert_eq!(manual.event_loop().metrics().channels, 1, "only the server is left");
        };
        (0..TURNS).for_each(|_| live());
        let (count, ()) = allocations_in(|| (0..TURNS).for_each(|_| live()));
        // The extra two are new read blocks.
        assert!(count <= MOST_PER_LIFE * TURNS as u64 + 2, "{count} in {TURNS} lives");
    });
}

#[test]
fn c06_an_echo_allocates_nothing() {
    over_both(|mut manual| {
        let mut peers = [connect(&mut manual)];
        (0..TURNS).for_each(|_| echo(&mut manual, &mut peers));
        let (count, ()) = allocations_in(|| (0..TURNS).for_each(|_| echo(&mut manual, &mut peers)));
        // Reads are carved from a block of the loop, which is replaced by a new allocation when used up.
        assert!(count <= 2, "{count} in {TURNS} echoes");
    });
}

/// The allocation budget of an echo of a datagram: the datagram that was read, its bytes, the reference count
/// once the bytes are shared, and the datagram that is written. An echo that moves the bytes saves the third.
const MOST_PER_DATAGRAM: u64 = 4;

struct DatagramEcho;

impl InboundHandler for DatagramEcho {
    type In = Datagram;

    fn on_read(&mut self, ctx: &Ctx<'_>, datagram: Datagram) -> HandlerResult {
        ctx.write_and_flush(datagram.answer(datagram.bytes().clone()));
        Ok(())
    }
}

#[test]
fn c13_an_echo_of_a_datagram_stays_within_its_allocation_budget() {
    over_both(|mut manual| {
        let add = |here: &LocalLoop| {
            here.register_with(NewChannel::new(Datagrams::new(Udp)), |edit| {
                edit.add_last("echo", In(DatagramEcho))?;
                Ok(())
            })
        };
        let channel = manual.on_loop(add).unwrap().unwrap();
        drop(channel.bind(SocketAddr::from(([127, 0, 0, 1], 0))));
        manual.turn(AT_ONCE);
        let Some(Address::Ip(at)) = channel.local_address() else { panic!("a bound channel") };
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.connect(at).unwrap();
        let mut echo = || {
            for _ in 0..TURNS {
                peer.send(b"hello").unwrap();
                manual.turn(AT_ONCE);
                assert_eq!(peer.recv(&mut [0; 10]).unwrap(), 5);
            }
        };
        echo();
        let (count, ()) = allocations_in(echo);
        assert!(count <= MOST_PER_DATAGRAM * TURNS as u64, "{count} in {TURNS} echoes");
    });
}
