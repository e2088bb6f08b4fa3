//! Foreign file descriptors on an event loop: a pipe, a timerfd, the output of a child process, and a UDP socket
//! created by other code.
//!
//! ```text
//! cargo run -p waterwheel --example foreign_fd
//! ```

use std::error::Error as StdError;
use std::io::{self, PipeWriter, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use waterwheel::channel::driver::{Interest, Readiness};
use waterwheel::channel::{
    EventLoop, EventLoopGroup, ForeignContext, ForeignHandle, ForeignHandler, on_ready,
};
use waterwheel::executor::Error;
use waterwheel::net::{Auto, foreign};

fn main() -> Result<(), Box<dyn StdError>> {
    let group = EventLoopGroup::builder(Auto).threads(1).name("foreign").build()?;
    let event_loop = group.next();
    println!("one loop, driver: {}", event_loop.driver_name());

    let (ended, endings) = mpsc::channel();
    let mut writer = pipe(&event_loop, ended.clone())?;
    child(&event_loop, ended.clone())?;
    timer(&event_loop, ended.clone())?;
    let (address, udp) = datagrams(&event_loop, ended)?;

    writer.write_all(b"through a pipe")?;
    drop(writer); // The reader sees EOF and unregisters itself.
    UdpSocket::bind("127.0.0.1:0")?.send_to(b"by datagram", address)?;
    for _ in 0..4 {
        println!("{}", endings.recv()?);
    }
    println!("udp: unregistered from outside: {}", udp.unregister().join()?);

    group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
    Ok(())
}

/// Prints its input until EOF, then unregisters itself.
struct Printer {
    name: &'static str,
    ended: Sender<String>,
}

impl<T: AsFd + 'static> ForeignHandler<T> for Printer {
    fn on_ready(
        &mut self,
        source: &T,
        _: Readiness,
        context: &ForeignContext,
    ) -> Result<(), Error> {
        let mut bytes = [0; 256];
        match rustix::io::read(source, &mut bytes).map_err(io::Error::from)? {
            0 => _ = context.unregister(),
            n => println!("{}: {:?}", self.name, String::from_utf8_lossy(&bytes[..n])),
        }
        Ok(())
    }

    fn on_unregistered(&mut self, _: &T, cause: Option<Error>) {
        let _ = self.ended.send(format!("{}: unregistered, cause: {cause:?}", self.name));
    }
}

fn pipe(event_loop: &EventLoop, ended: Sender<String>) -> Result<PipeWriter, Box<dyn StdError>> {
    let (reader, writer) = io::pipe()?;
    let printer = Printer { name: "pipe", ended };
    event_loop.register_foreign(foreign(reader), Interest::READABLE, printer).join()?;
    Ok(writer)
}

fn child(event_loop: &EventLoop, ended: Sender<String>) -> Result<(), Box<dyn StdError>> {
    let mut child = Command::new("echo").arg("from a child").stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().ok_or("the child has no stdout pipe")?;
    let printer = Printer { name: "child", ended };
    event_loop.register_foreign(foreign(output), Interest::READABLE, printer).join()?;
    child.wait()?;
    Ok(())
}

fn timer(event_loop: &EventLoop, ended: Sender<String>) -> Result<(), Box<dyn StdError>> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
    let every = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
    let ticks = Itimerspec { it_interval: every, it_value: every };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &ticks)?;
    let mut left = 3;
    let tick = on_ready(move |timer: &OwnedFd, _, context| {
        let mut count = [0; 8];
        rustix::io::read(timer, &mut count).map_err(io::Error::from)?;
        println!("timer: {} expired", u64::from_ne_bytes(count));
        left -= 1;
        if left == 0 {
            context.unregister();
            let _ = ended.send("timer: unregistered after three ticks".to_owned());
        }
        Ok(())
    });
    event_loop.register_foreign(foreign(timer), Interest::READABLE, tick).join()?;
    Ok(())
}

fn datagrams(
    event_loop: &EventLoop,
    ended: Sender<String>,
) -> Result<(SocketAddr, ForeignHandle), Box<dyn StdError>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_nonblocking(true)?;
    let address = socket.local_addr()?;
    let receive = on_ready(move |socket: &UdpSocket, _, _| {
        let mut bytes = [0; 256];
        let (n, _) = socket.recv_from(&mut bytes)?;
        println!("udp: {:?}", String::from_utf8_lossy(&bytes[..n]));
        let _ = ended.send("udp: one datagram was received".to_owned());
        Ok(())
    });
    let handle =
        event_loop.register_foreign(foreign(socket), Interest::READABLE, receive).join()?;
    Ok((address, handle))
}
