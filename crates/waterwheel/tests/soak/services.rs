//! The servers, and the groups of loops they run on.

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

use crate::byte_counts::ByteCounts;
use crate::client_connection::get;
use crate::handlers::{
    Echo, FileSender, FloodWriter, LoopBlocker, OffloadedEcho, PanickingHandler,
    ReversingResponder, SlowSink,
};
use crate::reports::ReportCounts;
use crate::tls_traffic::{TlsConfigs, serve_tls};

/// Hard cap on the pending bytes of an echo server's channel. The channel stops reading at the high-water mark of
/// 32 KiB; a round of four reads of 4 KiB adds at most 16 KiB.
pub(crate) const CAP: usize = 64 * 1024;

/// The watchdog's limit: longer than the pauses of a busy machine.
pub(crate) const WATCHDOG_LIMIT: Duration = Duration::from_secs(1);

/// Time after which a channel whose peer never reads is closed.
const WRITER_IDLE: Duration = Duration::from_millis(200);

/// Maximum number of channels, and so of threads, of the group with a loop for each channel.
const MAX_BLOCKING_CHANNELS: usize = 64;

/// The reporter, watchdog and counts that all groups share.
pub(crate) struct GroupSetup {
    pub(crate) reports: Arc<ReportCounts>,
    pub(crate) watchdog: Watchdog,
    pub(crate) byte_counts: Arc<ByteCounts>,
    pub(crate) tls: Arc<TlsConfigs>,
}

impl GroupSetup {
    pub(crate) fn new() -> Self {
        let watchdog = Watchdog::builder().limit(WATCHDOG_LIMIT).build().expect("a valid limit");
        let tls = Arc::new(TlsConfigs::new());
        Self { reports: Arc::default(), watchdog, byte_counts: Arc::default(), tls }
    }

    /// Builds a group, and waits until its loops run.
    pub(crate) fn group(&self, name: &str, builder: EventLoopGroupBuilder) -> EventLoopGroup {
        let group = builder.name(name).reporter(self.reports.clone()).watchdog(&self.watchdog);
        let group = group.build().expect("the group is built");
        for at in group.children() {
            get(at.submit(|| ()).expect("the loop accepts tasks")).expect("the task ran");
        }
        group
    }

    /// Builds a group of two loops, and binds an echo server on each at the same address (SO_REUSEPORT).
    pub(crate) fn serve_on_each_loop(
        &self,
        to: impl Into<AddressSpec>,
    ) -> (EventLoopGroup, Servers) {
        let group = self.group("drained", EventLoopGroup::builder(Epoll).threads(2));
        let servers = get(self.echo(ServerBootstrap::new(&group, Tcp)).bind_on_each_loop(to));
        (group, servers.expect("the servers are bound"))
    }

    /// Sets an echo server's options and handler: at most [`CAP`] bytes are pending for a client.
    pub(crate) fn echo(&self, server: ServerBootstrap) -> ServerBootstrap {
        let byte_counts = self.byte_counts.clone();
        server.child_options(echo_options()).child_initialiser(move |edit| {
            Ok(edit.add_last("echo", Echo::new(&byte_counts)).map(drop)?)
        })
    }
}

pub(crate) fn echo_options() -> ChannelOptions {
    let marks = WaterMarks::new(CAP / 4, CAP / 2).and_then(|marks| marks.with_hard_cap(CAP));
    ChannelOptions {
        water_marks: marks.expect("valid water marks"),
        receive_sizes: ReceiveSizes::new(64, 2048, 4096).expect("valid sizes"),
        reads_per_round: 4,
        allow_half_closure: true,
        ..ChannelOptions::default()
    }
}

/// The servers that run until the end, with their groups.
pub(crate) struct Services {
    pub(crate) epoll: EventLoopGroup,
    pub(crate) poll: EventLoopGroup,
    pub(crate) blocking: EventLoopGroup,
    pub(crate) faulty: EventLoopGroup,
    pub(crate) slow: EventLoopGroup,
    pub(crate) faults: Faults,
    /// Executors of offloaded handlers.
    pub(crate) offload_group: EventExecutorGroup,
    pub(crate) boss: Address,
    pub(crate) unix: Address,
    pub(crate) local: Address,
    pub(crate) per_channel: Address,
    pub(crate) faulted: Address,
    pub(crate) offloaded: Address,
    pub(crate) tls: Address,
    pub(crate) files: Address,
    pub(crate) sink: Address,
    pub(crate) flood: Address,
    pub(crate) fragile: Address,
    pub(crate) held: Address,
    pub(crate) datagrams: Address,
    /// Receives a message for each closed connection of the flood server.
    pub(crate) flood_closed: Mutex<Receiver<()>>,
    /// Number of channels of these servers without any client.
    pub(crate) channels: usize,
}

impl Services {
    pub(crate) fn new(common: &GroupSetup, file: File) -> Self {
        let epoll = EventLoopGroup::builder(Epoll).threads(2);
        let epoll = common.group("epoll", epoll.chooser(LeastLoaded::default()));
        let poll = EventLoopGroup::builder(Poll).threads(2);
        let poll = common.group("poll", poll.chooser(ByKey::default()));
        let blocking = EventLoopGroup::per_channel(Blocking).max_channels(MAX_BLOCKING_CHANNELS);
        let blocking = common.group("blocking", blocking);
        let faulty = Faulty::new(Epoll);
        let faults = faulty.faults();
        let faulty = common.group("faulty", EventLoopGroup::builder(faulty).threads(1));
        let slow = common.group("slow", EventLoopGroup::builder(Epoll).threads(1));
        let offload_group = EventExecutorGroup::builder()
            .threads(2)
            .name("offload")
            .reporter(common.reports.clone())
            .watchdog(&common.watchdog)
            .build()
            .expect("the executors are built");
        for executor in offload_group.children() {
            get(executor.submit(|| ()).expect("the loop accepts tasks")).expect("the task ran");
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
        let remote = (offload_group.clone(), common.byte_counts.clone());
        let unbounded = ChannelOptions { water_marks: WaterMarks::default(), ..echo_options() };
        let offloaded = serve(tcp(&epoll), unbounded, move |edit| {
            let (offload_group, byte_counts) = remote.clone();
            edit.add_last(
                "offloaded",
                Offloaded::new(&offload_group, move || OffloadedEcho(byte_counts)),
            )?;
            Ok(())
        });
        let tls = address(serve_tls(common, tcp(&poll).boss(&epoll)).bind("127.0.0.1:0"));
        let file = Arc::new(file);
        let by_peer = tcp(&poll).child_key(|accepted| match accepted.peer_address() {
            Some(Address::Ip(peer)) => peer.port(),
            _ => 0,
        });
        let files = serve(by_peer, echo_options(), move |edit| {
            edit.add_last("file", FileSender(file.clone()))?;
            Ok(())
        });
        let without_auto_read = ChannelOptions { auto_read: false, ..echo_options() };
        let sink = serve(tcp(&epoll), without_auto_read, |edit| {
            edit.add_last("sink", SlowSink(0))?;
            Ok(())
        });
        let (byte_counts, (closed, flood_closed)) = (common.byte_counts.clone(), channel());
        let idle = IdleHandler::builder().writer(WRITER_IDLE).close_on(IdleKind::Writer).build();
        let idle = idle.expect("a valid limit");
        let flood = serve(tcp(&poll), echo_options(), move |edit| {
            edit.add_last("idle", idle.clone())?;
            let flood = FloodWriter { byte_counts: byte_counts.clone(), closed: closed.clone() };
            edit.add_last("flood", flood)?;
            Ok(())
        });
        let fragile = serve(tcp(&epoll), echo_options(), |edit| {
            edit.add_last("panicking", PanickingHandler)?;
            Ok(())
        });
        let reports = common.reports.clone();
        let held = serve(tcp(&slow), ChannelOptions::default(), move |edit| {
            edit.add_last("slow", LoopBlocker(reports.clone()))?;
            Ok(())
        });
        let datagrams = Bootstrap::new(&poll, Udp)
            .initialiser(|edit| Ok(edit.add_last("reverse", In(ReversingResponder)).map(drop)?));
        let datagrams = address(datagrams.bind("127.0.0.1:0"));
        Self {
            epoll,
            poll,
            blocking,
            faulty,
            slow,
            faults,
            offload_group,
            boss,
            unix,
            local,
            per_channel,
            faulted,
            offloaded,
            tls,
            files,
            sink,
            flood,
            fragile,
            held,
            datagrams,
            flood_closed: Mutex::new(flood_closed),
            channels: 13,
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
    let channel = get(bound).expect("the channel is bound");
    channel.local_address().expect("the channel is bound")
}
