//! Assembles the gateway (event loops, business threads, a pipeline per client) and drains it.

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
use waterwheel::tls::TlsConfigError;

use crate::drain_gate::DrainGate;
use crate::line_counters::{LineCounters, LineCounts};
use crate::line_session::{GatewayState, Session};
use crate::outbox::{Outbox, OverflowPolicy};
use crate::outbox_writer::OutboxWriter;
use crate::registry::{ClientCounts, Registry};
use crate::tls::port::{TlsFiles, TlsPort};

/// Upper bound of unprocessed input per client: one read round of 4 × 4 KiB. The next round begins after the session
/// has processed it. 16 KiB hold a dozen lines of maximum length and hundreds of usual ones. With TLS, the round may also
/// complete a record that began in an earlier one, of 16 KiB at most.
const READS_PER_ROUND: u32 = 4;
const LARGEST_READ: usize = 4096;

/// Time limit for the threads to end after everything is delivered.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(5);

/// The configuration of a gateway.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Address or host name to listen on.
    pub bind: String,
    /// Port to listen on; 0 lets the system choose.
    pub port: u16,
    /// Number of event loops.
    pub threads: usize,
    /// Number of business threads.
    pub business: usize,
    /// Maximum number of lines queued for one client.
    pub queue: usize,
    /// The policy for lines beyond that limit.
    pub overflow: OverflowPolicy,
    /// Maximum length of a line in bytes.
    pub max_line: usize,
    /// A client that sends no line for this long is disconnected; `None`: never. After half of the time the client is
    /// sent a `PING`.
    pub idle: Option<Duration>,
    /// Deadline of [`Gateway::drain`].
    pub drain: Duration,
    /// Maximum number of connected clients.
    pub clients: usize,
    /// The watchdog reports tasks and handlers that block a thread for longer than this; `None`: no watchdog.
    pub slow: Option<Duration>,
    /// The files of TLS; `None`: the port speaks plain text.
    pub tls: Option<TlsFiles>,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            bind: String::from("127.0.0.1"),
            port: 7000,
            threads: 2,
            business: 2,
            queue: 1024,
            overflow: OverflowPolicy::default(),
            max_line: 1024,
            idle: Some(Duration::from_secs(300)),
            drain: Duration::from_secs(10),
            clients: 10_000,
            slow: None,
            tls: None,
        }
    }
}

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    loops: EventLoopGroup,
    business: EventExecutorGroup,
    server: Channel,
    state: Arc<GatewayState>,
    tls: Option<Arc<TlsPort>>,
    drain: Duration,
}

/// Why a gateway could not be started.
#[derive(Debug, Error)]
pub enum GatewayStartError {
    /// An event loop could not be created.
    #[error(transparent)]
    Loops(#[from] LoopBuildError),
    /// A business thread could not be created.
    #[error(transparent)]
    Business(#[from] BuildError),
    /// The time limit of the watchdog is invalid.
    #[error(transparent)]
    Slow(#[from] InvalidWatchdog),
    /// A file of TLS is not usable.
    #[error(transparent)]
    Tls(#[from] TlsConfigError),
    /// The configuration is invalid, or the server socket failed.
    #[error("{0}")]
    Server(Error),
}

impl Gateway {
    /// Starts a gateway. Faults that no caller sees go to the reporter.
    ///
    /// # Errors
    /// The address cannot be bound, a thread cannot be started, a file of TLS is not usable, or the configuration is
    /// invalid.
    pub fn start(
        config: &GatewayConfig,
        reporter: &Arc<dyn Reporter>,
    ) -> Result<Self, GatewayStartError> {
        let tls = match &config.tls {
            Some(files) => Some(Arc::new(TlsPort::load(files.clone(), reporter)?)),
            None => None,
        };
        let state = Arc::new(GatewayState {
            registry: Arc::new(Registry::new(config.clients)),
            gate: DrainGate::default(),
            traffic: Arc::new(LineCounters::default()),
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
        let pipeline = ClientPipeline::new(config, &business, &state)
            .map_err(GatewayStartError::Server)?
            .with_tls(tls.clone());
        let server = ServerBootstrap::new(&loops, Tcp)
            .child_options(client_options().map_err(GatewayStartError::Server)?)
            .child_initialiser(move |edit| pipeline.build(edit))
            .bind((config.bind.as_str(), config.port))
            .join()
            .map_err(GatewayStartError::Server)?;
        Ok(Self { loops, business, server, state, tls, drain: config.drain })
    }

    /// Returns the address on which the gateway listens.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self.server.local_address() {
            Some(Address::Ip(address)) => Some(address),
            _ => None,
        }
    }

    /// Returns the event loops.
    #[must_use]
    pub fn loops(&self) -> &EventLoopGroup {
        &self.loops
    }

    /// Counts clients, named users and topics.
    #[must_use]
    pub fn client_counts(&self) -> ClientCounts {
        self.state.registry.client_counts()
    }

    /// Returns the numbers of lines received, delivered and missed so far.
    #[must_use]
    pub fn lines(&self) -> LineCounts {
        self.state.traffic.lines()
    }

    /// Returns TLS on the port of the gateway; `None` if the port speaks plain text.
    #[must_use]
    pub fn tls(&self) -> Option<&Arc<TlsPort>> {
        self.tls.as_ref()
    }

    /// Ends the gateway and waits for the end: refuses new commands, delivers accepted lines, disconnects the clients
    /// and shuts down every thread.
    ///
    /// The order matters: the loops begin to drain only after the last accepted line is in the outboxes of its
    /// receivers, so that no client disconnects before it has received its lines.
    ///
    /// # Errors
    /// An event loop has died.
    pub fn drain(&self) -> Result<Drained, Error> {
        self.state.gate.close();
        // A short wait, because commands never block. The deadline bounds the wait in any case.
        let _ = self.state.gate.wait_until_idle(self.drain);
        let options = DrainOptions::within(self.drain).shutdown(Duration::ZERO, SHUTDOWN_LIMIT);
        let drained = self.loops.drain(options.map_err(Error::new)?).join()?;
        self.loops.termination().join()?;
        let ended = self.business.shutdown_gracefully(Duration::ZERO, SHUTDOWN_LIMIT);
        ended.map_err(Error::new)?.join()?;
        Ok(drained)
    }
}

/// Returns the options of every client's channel.
///
/// # Errors
/// Never with the constants of this module: the receive sizes are valid.
pub fn client_options() -> Result<ChannelOptions, Error> {
    let sizes = ReceiveSizes::new(64, 512, LARGEST_READ).map_err(Error::new)?;
    Ok(ChannelOptions {
        // A client that has shut down its output still receives the replies to its commands.
        allow_half_closure: true,
        receive_sizes: sizes,
        reads_per_round: READS_PER_ROUND,
        ..ChannelOptions::default()
    })
}

/// Builds the pipeline of each client.
pub struct ClientPipeline {
    business: EventExecutorGroup,
    state: Arc<GatewayState>,
    tls: Option<Arc<TlsPort>>,
    idle: Option<IdleHandler>,
    max_line: usize,
    queue: usize,
    overflow: OverflowPolicy,
}

impl ClientPipeline {
    /// Creates a pipeline builder whose sessions run on these business threads.
    ///
    /// # Errors
    /// The idle time is too short.
    pub fn new(
        config: &GatewayConfig,
        business: &EventExecutorGroup,
        state: &Arc<GatewayState>,
    ) -> Result<Self, Error> {
        let idle = match config.idle {
            Some(idle) => Some(IdleHandler::builder().reader(idle / 2).build()?),
            None => None,
        };
        Ok(Self {
            business: business.clone(),
            state: state.clone(),
            tls: None,
            idle,
            max_line: config.max_line,
            queue: config.queue,
            overflow: config.overflow,
        })
    }

    /// Puts TLS before the other handlers.
    #[must_use]
    pub fn with_tls(mut self, tls: Option<Arc<TlsPort>>) -> Self {
        self.tls = tls;
        self
    }

    /// Adds the handlers of one client; called on the client's loop.
    ///
    /// # Errors
    /// The business threads have been shut down.
    pub fn build(&self, edit: &mut Edit<'_>) -> Result<(), Error> {
        let outbox = Arc::new(Mutex::new(Outbox::new(self.queue, self.overflow)));
        if let Some(tls) = &self.tls {
            tls.add_handlers(edit)?;
        }
        let lines = LineDecoder::new(self.max_line).fail_fast().fail_unfinished().text();
        edit.add_codec("lines", lines, LineEncoder::new())?;
        if let Some(idle) = &self.idle {
            // After the line decoder: a client that sends bytes but never a whole line counts as idle.
            edit.add_last("idle", idle.clone())?;
        }
        edit.add_last("outbox", OutboxWriter::new(outbox.clone()))?;
        let state = self.state.clone();
        let session = Offloaded::new(&self.business, move || Session::new(state, outbox));
        edit.add_last("session", session)?;
        Ok(())
    }
}
