//! The servers, and the groups of loops they live on.

use std::fs::File;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use waterwheel::channel::local::Local;
use waterwheel::channel::{
    Address, AddressSpec, Bootstrap, Channel, ChannelOptions, Edit, EventLoopGroup,
    EventLoopGroupBuilder, In, Offloaded, ReceiveSizes, ServerBootstrap, Servers, UnixAddress,
    WaterMarks,
};
use waterwheel::executor::{
    ByKey, Error, EventExecutorGroup, LeastLoaded, PromiseFuture, Watchdog,
};
use waterwheel::handlers::{IdleHandler, IdleKind};
use waterwheel::net::{Blocking, Epoll, Poll, Tcp, Udp, Unix};
use waterwheel_testkit::faulty::{Faults, Faulty};

use crate::handlers::{Backwards, Echo, Far, Fragile, ReportThrottle, SendFile, Sink, Slow};
use crate::ledger::Ledger;
use crate::line::get;
use crate::reports::Reports;

/// What waits to be written to a client of an echo may never be more. At 32 KiB it stops to read; a round is
/// four reads of 4 KiB.
pub(crate) const CAP: usize = 64 * 1024;

/// A loop may be held for so long: a busy machine's own pauses are shorter.
pub(crate) const SLOW: Duration = Duration::from_secs(1);

/// Who never reads is closed after this time.
const IDLE: Duration = Duration::from_millis(200);

/// With a thread for each of its channels it is the smallest.
const BLOCKING: usize = 64;

/// What all groups are built with.
pub(crate) struct Common {
    pub(crate) reports: Arc<Reports>,
    pub(crate) watchdog: Watchdog,
    pub(crate) ledger: Arc<Ledger>,
}

impl Common {
    pub(crate) fn new() -> Self {
        let watchdog = Watchdog::builder().limit(SLOW).build().expect("a sound limit");
        Self { reports: Arc::default(), watchdog, ledger: Arc::default() }
    }

    /// Builds a group, and starts its loops.
    pub(crate) fn group(&self, name: &str, builder: EventLoopGroupBuilder) -> EventLoopGroup {
        let group = builder.name(name).reporter(self.reports.clone()).watchdog(&self.watchdog);
        let group = group.build().expect("a group");
        for at in group.children() {
            get(at.submit(|| ()).expect("it runs")).expect("it was run");
        }
        group
    }

    /// Two loops with a server each, at the same address.
    pub(crate) fn each(&self, to: impl Into<AddressSpec>) -> (EventLoopGroup, Servers) {
        let group = self.group("each", EventLoopGroup::builder(Epoll).threads(2));
        let servers = get(self.echo(ServerBootstrap::new(&group, Tcp)).bind_on_each_loop(to));
        (group, servers.expect("servers"))
    }

    /// An echo that never has more than [`CAP`] waiting for a client.
    pub(crate) fn echo(&self, server: ServerBootstrap) -> ServerBootstrap {
        let ledger = self.ledger.clone();
        server.child_options(echo_options()).child_initialiser(move |edit| {
            Ok(edit.add_last("echo", Echo::new(&ledger)).map(drop)?)
        })
    }
}

fn echo_options() -> ChannelOptions {
    let marks = WaterMarks::new(CAP / 4, CAP / 2).and_then(|marks| marks.with_hard_cap(CAP));
    ChannelOptions {
        water_marks: marks.expect("sound marks"),
        receive_sizes: ReceiveSizes::new(64, 2048, 4096).expect("sound sizes"),
        reads_per_round: 4,
        allow_half_closure: true,
        ..ChannelOptions::default()
    }
}

/// The servers that stay all the time, with their groups.
pub(crate) struct Services {
    pub(crate) epoll: EventLoopGroup,
    pub(crate) poll: EventLoopGroup,
    pub(crate) blocking: EventLoopGroup,
    pub(crate) faulty: EventLoopGroup,
    pub(crate) slow: EventLoopGroup,
    pub(crate) faults: Faults,
    /// For offloaded handlers.
    pub(crate) far: EventExecutorGroup,
    pub(crate) boss: Address,
    pub(crate) unix: Address,
    pub(crate) local: Address,
    pub(crate) per_channel: Address,
    pub(crate) faulted: Address,
    pub(crate) offloaded: Address,
    pub(crate) files: Address,
    pub(crate) sink: Address,
    pub(crate) flood: Address,
    pub(crate) fragile: Address,
    pub(crate) held: Address,
    pub(crate) datagrams: Address,
    /// A message for each connection of the flood that was closed.
    pub(crate) flooded: Mutex<Receiver<()>>,
    /// How many channels there are when all is quiet.
    pub(crate) channels: usize,
}

impl Services {
    pub(crate) fn new(common: &Common, file: File) -> Self {
        let epoll = EventLoopGroup::builder(Epoll).threads(2);
        let epoll = common.group("epoll", epoll.chooser(LeastLoaded::default()));
        let poll = EventLoopGroup::builder(Poll).threads(2);
        let poll = common.group("poll", poll.chooser(ByKey::default()));
        let blocking = EventLoopGroup::per_channel(Blocking).max_channels(BLOCKING);
        let blocking = common.group("blocking", blocking);
        let faulty = Faulty::new(Epoll);
        let faults = faulty.faults();
        let faulty = common.group("faulty", EventLoopGroup::builder(faulty).threads(1));
        let slow = common.group("slow", EventLoopGroup::builder(Epoll).threads(1));
        let far = EventExecutorGroup::builder()
            .threads(2)
            .name("far")
            .reporter(common.reports.clone())
            .watchdog(&common.watchdog)
            .build()
            .expect("executors");
        for executor in far.children() {
            get(executor.submit(|| ()).expect("it runs")).expect("it was run");
        }

        let tcp = |group| ServerBootstrap::new(group, Tcp);
        let echo = |server| address(common.echo(server).bind("127.0.0.1:0"));
        let boss = echo(tcp(&epoll).boss(&poll));
        let unix = common.echo(ServerBootstrap::new(&poll, Unix));
        let unix = address(unix.bind(Address::from(UnixAddress::Unnamed)));
        let local = common.echo(ServerBootstrap::new(&epoll, Local));
        let local = address(local.bind(Address::local("soak")));
        let per_channel = echo(tcp(&blocking));
        let faulted = echo(tcp(&faulty));
        let remote = (far.clone(), common.ledger.clone());
        let unbounded = ChannelOptions { water_marks: WaterMarks::default(), ..echo_options() };
        let offloaded = serve(tcp(&epoll), unbounded, move |edit| {
            let (far, ledger) = remote.clone();
            edit.add_last("far", Offloaded::new(&far, move || Far(ledger)))?;
            Ok(())
        });
        let file = Arc::new(file);
        let by_peer = tcp(&poll).child_key(|accepted| match accepted.peer_address() {
            Some(Address::Ip(peer)) => peer.port(),
            _ => 0,
        });
        let files = serve(by_peer, echo_options(), move |edit| {
            edit.add_last("file", SendFile(file.clone()))?;
            Ok(())
        });
        let deaf = ChannelOptions { auto_read: false, ..echo_options() };
        let sink = serve(tcp(&epoll), deaf, |edit| {
            edit.add_last("sink", Sink(0))?;
            Ok(())
        });
        let (ledger, (closed, flooded)) = (common.ledger.clone(), channel());
        let idle = IdleHandler::builder().writer(IDLE).close_on(IdleKind::Writer).build();
        let idle = idle.expect("a sound limit");
        let flood = serve(tcp(&poll), echo_options(), move |edit| {
            edit.add_last("idle", idle.clone())?;
            let flood = ReportThrottle { ledger: ledger.clone(), closed: closed.clone() };
            edit.add_last("flood", flood)?;
            Ok(())
        });
        let fragile = serve(tcp(&epoll), echo_options(), |edit| {
            edit.add_last("fragile", Fragile)?;
            Ok(())
        });
        let reports = common.reports.clone();
        let held = serve(tcp(&slow), ChannelOptions::default(), move |edit| {
            edit.add_last("slow", Slow(reports.clone()))?;
            Ok(())
        });
        let datagrams = Bootstrap::new(&poll, Udp)
            .initialiser(|edit| Ok(edit.add_last("backwards", In(Backwards)).map(drop)?));
        let datagrams = address(datagrams.bind("127.0.0.1:0"));
        Self {
            epoll,
            poll,
            blocking,
            faulty,
            slow,
            faults,
            far,
            boss,
            unix,
            local,
            per_channel,
            faulted,
            offloaded,
            files,
            sink,
            flood,
            fragile,
            held,
            datagrams,
            flooded: Mutex::new(flooded),
            channels: 12,
        }
    }

    pub(crate) fn groups(&self) -> [&EventLoopGroup; 5] {
        [&self.epoll, &self.poll, &self.blocking, &self.faulty, &self.slow]
    }
}

fn serve(
    server: ServerBootstrap,
    options: ChannelOptions,
    initialiser: impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync + 'static,
) -> Address {
    let server = server.child_options(options).child_initialiser(initialiser);
    address(server.bind("127.0.0.1:0"))
}

fn address(bound: PromiseFuture<Channel>) -> Address {
    let channel = get(bound).expect("it is bound");
    channel.local_address().expect("it is bound")
}
