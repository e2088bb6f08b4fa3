//! The gateway, put together: loops, business threads, a pipeline for each client; and how it ends.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thiserror::Error;
use waterwheel::channel::{
    Address, Channel, ChannelOptions, DrainOptions, Drained, Edit, EventLoopGroup, LoopBuildError,
    Offloaded, ReceiveSizes, ServerBootstrap,
};
use waterwheel::codec::{LineDecoder, LineEncoder};
use waterwheel::executor::{
    BuildError, Error, EventExecutorGroup, InvalidWatchdog, Reporter, Watchdog,
};
use waterwheel::handlers::IdleHandler;
use waterwheel::net::{Auto, Tcp};

use crate::gate::Gate;
use crate::outbox::{Outbox, Overflow};
use crate::outlet::Outlet;
use crate::registry::{Census, Registry};
use crate::session::{Desk, Session};
use crate::traffic::{Lines, Traffic};

/// What a client may send before it is heard: a round of reads, 4 × 4 KiB, and no more is read until it was.
/// That is a dozen of the longest lines, and hundreds of the usual ones.
const READS_PER_ROUND: u32 = 4;
const LARGEST_READ: usize = 4096;

/// How long the threads may take to end when everything is delivered.
const SHUTDOWN: Duration = Duration::from_secs(5);

/// How a gateway is to be.
#[derive(Clone, Debug)]
pub struct Config {
    /// The address or host name to listen at.
    pub bind: String,
    /// The port to listen at; none, and the system chooses.
    pub port: u16,
    /// How many loops.
    pub threads: usize,
    /// How many business threads.
    pub business: usize,
    /// How many lines may wait for one client.
    pub queue: usize,
    /// What becomes of more.
    pub overflow: Overflow,
    /// How long a line may be, in bytes.
    pub max_line: usize,
    /// How long a client may take to send a line; `None`: for ever. After half of it, it is asked.
    pub idle: Option<Duration>,
    /// How long the end may take.
    pub drain: Duration,
    /// How many clients there may be.
    pub clients: usize,
    /// What holds a thread for longer is reported; `None`: nothing is.
    pub slow: Option<Duration>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bind: String::from("127.0.0.1"),
            port: 7000,
            threads: 2,
            business: 2,
            queue: 1024,
            overflow: Overflow::default(),
            max_line: 1024,
            idle: Some(Duration::from_secs(300)),
            drain: Duration::from_secs(10),
            clients: 10_000,
            slow: None,
        }
    }
}

/// A gateway that is open.
#[derive(Debug)]
pub struct Gateway {
    loops: EventLoopGroup,
    business: EventExecutorGroup,
    server: Channel,
    desk: Arc<Desk>,
    drain: Duration,
}

/// Why there is no gateway.
#[derive(Debug, Error)]
pub enum NotStarted {
    /// A loop could not be had.
    #[error(transparent)]
    Loops(#[from] LoopBuildError),
    /// A business thread could not be had.
    #[error(transparent)]
    Business(#[from] BuildError),
    /// Nothing can be watched that closely.
    #[error(transparent)]
    Slow(#[from] InvalidWatchdog),
    /// Something about the configuration, or about the sockets.
    #[error("{0}")]
    Server(Error),
}

impl Gateway {
    /// Opens it. The reporter is told of what goes wrong and nobody else learns.
    ///
    /// # Errors
    /// It cannot listen there, or a thread cannot be had.
    pub fn start(config: &Config, reporter: &Arc<dyn Reporter>) -> Result<Self, NotStarted> {
        let desk = Arc::new(Desk {
            registry: Arc::new(Registry::new(config.clients)),
            gate: Gate::default(),
            traffic: Arc::new(Traffic::default()),
        });
        let mut loops = EventLoopGroup::builder(Auto)
            .threads(config.threads)
            .name("loop")
            .reporter(reporter.clone());
        let mut business = EventExecutorGroup::builder()
            .threads(config.business)
            .name("business")
            .reporter(reporter.clone());
        if let Some(limit) = config.slow {
            let watchdog = Watchdog::builder().limit(limit).build()?;
            (loops, business) = (loops.watchdog(&watchdog), business.watchdog(&watchdog));
        }
        let (loops, business) = (loops.build()?, business.build()?);
        let pipeline = Pipeline::new(config, &business, &desk).map_err(NotStarted::Server)?;
        let server = ServerBootstrap::new(&loops, Tcp)
            .child_options(client_options().map_err(NotStarted::Server)?)
            .child_initialiser(move |edit| pipeline.make(edit))
            .bind((config.bind.as_str(), config.port))
            .join()
            .map_err(NotStarted::Server)?;
        Ok(Self { loops, business, server, desk, drain: config.drain })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self.server.local_address() {
            Some(Address::Ip(address)) => Some(address),
            _ => None,
        }
    }

    /// Its loops.
    #[must_use]
    pub fn loops(&self) -> &EventLoopGroup {
        &self.loops
    }

    /// How many clients there are.
    #[must_use]
    pub fn census(&self) -> Census {
        self.desk.registry.census()
    }

    /// How many lines there were.
    #[must_use]
    pub fn lines(&self) -> Lines {
        self.desk.traffic.lines()
    }

    /// Ends it, and waits for that: nothing more is accepted, what was accepted is delivered, clients are told
    /// to leave, and then every thread ends.
    ///
    /// The order matters. When the last line was accepted it is in the queues it is for; only then clients
    /// are told, so that none has left before a line for it.
    ///
    /// # Errors
    /// A loop has died.
    pub fn drain(&self) -> Result<Drained, Error> {
        self.desk.gate.close();
        // Business threads wait for nobody, so this is short. If it is not, the deadline is there.
        let _ = self.desk.gate.wait_until_empty(self.drain);
        let options = DrainOptions::within(self.drain).shutdown(Duration::ZERO, SHUTDOWN);
        let drained = self.loops.drain(options.map_err(Error::new)?).join()?;
        self.loops.termination().join()?;
        let ended = self.business.shutdown_gracefully(Duration::ZERO, SHUTDOWN);
        ended.map_err(Error::new)?.join()?;
        Ok(drained)
    }
}

/// What the channel of each client is made with.
///
/// # Errors
/// None of today's: the sizes are in order.
pub fn client_options() -> Result<ChannelOptions, Error> {
    let sizes = ReceiveSizes::new(64, 512, LARGEST_READ).map_err(Error::new)?;
    Ok(ChannelOptions {
        // Who has finished still gets the answers to what it has said.
        allow_half_closure: true,
        receive_sizes: sizes,
        reads_per_round: READS_PER_ROUND,
        ..ChannelOptions::default()
    })
}

/// Makes the pipeline of each client.
pub struct Pipeline {
    business: EventExecutorGroup,
    desk: Arc<Desk>,
    idle: Option<IdleHandler>,
    max_line: usize,
    queue: usize,
    overflow: Overflow,
}

impl Pipeline {
    /// As the configuration says, with sessions on these business threads.
    ///
    /// # Errors
    /// The idle time is too short.
    pub fn new(
        config: &Config,
        business: &EventExecutorGroup,
        desk: &Arc<Desk>,
    ) -> Result<Self, Error> {
        let idle = match config.idle {
            Some(idle) => Some(IdleHandler::builder().reader(idle / 2).build()?),
            None => None,
        };
        Ok(Self {
            business: business.clone(),
            desk: desk.clone(),
            idle,
            max_line: config.max_line,
            queue: config.queue,
            overflow: config.overflow,
        })
    }

    /// Makes one, on the client's loop.
    ///
    /// # Errors
    /// There are no business threads any more.
    pub fn make(&self, edit: &mut Edit<'_>) -> Result<(), Error> {
        let outbox = Arc::new(Mutex::new(Outbox::new(self.queue, self.overflow)));
        let lines = LineDecoder::new(self.max_line).fail_fast().fail_unfinished().text();
        edit.add_codec("lines", lines, LineEncoder::new())?;
        if let Some(idle) = &self.idle {
            // Behind the lines: who sends a byte now and then, and never a line, has said nothing.
            edit.add_last("idle", idle.clone())?;
        }
        edit.add_last("outlet", Outlet::new(outbox.clone()))?;
        let desk = self.desk.clone();
        let session = Offloaded::new(&self.business, move || Session::new(desk, outbox));
        edit.add_last("session", session)?;
        Ok(())
    }
}
