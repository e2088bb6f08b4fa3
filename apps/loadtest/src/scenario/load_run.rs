//! `LoadRun`: what all scenarios share.

use std::rc::Rc;
use std::time::Duration;

use waterwheel::channel::EventLoopGroup;
use waterwheel::executor::Clock;

use crate::client::connection_counts::ConnectionCounts;
use crate::client::connector::{LoadConnector, TargetOptions};
use crate::delivery::meter::DeliveryMeter;
use crate::error::LoadError;
use crate::machine::process_usage::ProcessUsage;
use crate::progress::ProgressSender;
use crate::stop::StopFlag;

/// The options of all scenarios.
#[derive(Clone, Debug)]
pub(crate) struct RunOptions {
    pub(crate) connect: TargetOptions,
    /// The processes of the gateways; empty if their memory and CPU time are not of interest.
    pub(crate) pids: Vec<u32>,
    /// Connections that are being opened at the same time.
    pub(crate) in_flight: usize,
    /// Bytes of the data of a publication.
    pub(crate) payload_bytes: usize,
    /// Longest time to wait for deliveries at the end.
    pub(crate) settle: Duration,
    /// True if publications may be lost whose loss the gateway told.
    pub(crate) may_have_gaps: bool,
}

/// A run of one scenario, on one event loop.
pub(crate) struct LoadRun {
    pub(crate) options: RunOptions,
    pub(crate) connector: Rc<LoadConnector>,
    pub(crate) meter: Rc<DeliveryMeter>,
    pub(crate) counts: Rc<ConnectionCounts>,
    pub(crate) progress: ProgressSender,
    pub(crate) stop: StopFlag,
    /// The beginning of the names of topics: other for each run, so that no history of an earlier one is received.
    topic_prefix: String,
}

impl LoadRun {
    /// Checks the options.
    pub(crate) fn new(
        group: &EventLoopGroup,
        options: RunOptions,
        progress: ProgressSender,
        stop: StopFlag,
    ) -> Result<Self, LoadError> {
        let run_id = format!("{:x}-{:x}", std::process::id(), Clock::Monotonic.now().0);
        Ok(Self {
            connector: Rc::new(LoadConnector::new(group, options.connect.clone())?),
            options,
            meter: Rc::new(DeliveryMeter::new()),
            counts: Rc::default(),
            progress,
            stop,
            topic_prefix: format!("load.{run_id}"),
        })
    }

    /// Returns the name of a topic of this run.
    pub(crate) fn topic(&self, number: usize) -> Rc<str> {
        format!("{}.{number}", self.topic_prefix).into()
    }

    /// Returns the usage of the gateways; `None` if it is not of interest.
    pub(crate) fn gateway_usage(&self) -> Result<Option<ProcessUsage>, LoadError> {
        match self.options.pids.as_slice() {
            [] => Ok(None),
            pids => ProcessUsage::of(pids).map(Some),
        }
    }
}
