//! Builds detectors: which protocols there are, and their limits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use waterwheel_channel::Edit;
use waterwheel_executor::Error;

use super::detector::ProtocolDetector;
use super::probe::{Detection, Probe};

/// Room for a request line, the longest that stock probes look at: the limit of most HTTP servers.
const DEFAULT_MAX_BYTES: usize = 8 * 1024;

/// Several retransmissions, and less than a slow connection attempt has to cost.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// The name of the fallback in errors.
const FALLBACK: &str = "otherwise";

/// Builds a [`ProtocolDetector`]. At least one protocol is required.
#[must_use]
pub struct ProtocolDetectorBuilder {
    plan: DetectionPlan,
}

/// The protocols and limits that the detectors of all connections share.
pub(super) struct DetectionPlan {
    pub(super) protocols: Vec<Protocol>,
    pub(super) fallback: Option<PipelineChoice>,
    pub(super) max_bytes: usize,
    pub(super) at_max_bytes: AtLimit,
    pub(super) timeout: Option<Duration>,
    pub(super) at_timeout: AtLimit,
}

/// A protocol: how it is recognised, and its pipeline.
pub(super) struct Protocol {
    probe: Box<dyn Probe>,
    pub(super) choice: PipelineChoice,
}

impl Probe for Protocol {
    fn probe(&self, bytes: &[u8], seen: usize) -> Detection {
        self.probe.probe(bytes, seen)
    }
}

type ProtocolInitialiser = Box<dyn Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync>;

/// A pipeline that may be chosen.
pub(super) struct PipelineChoice {
    pub(super) name: Arc<str>,
    initialiser: ProtocolInitialiser,
}

impl PipelineChoice {
    fn new(
        name: Arc<str>,
        initialiser: impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        Self { name, initialiser: Box::new(initialiser) }
    }

    pub(super) fn initialise(&self, edit: &mut Edit<'_>) -> Result<(), Error> {
        (self.initialiser)(edit)
    }
}

/// The behaviour of a detector at one of its limits, while the protocol is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtLimit {
    /// Decides by the bytes that have come: a probe that needs more does not match. A later probe that matches, or the
    /// fallback, gets the connection; without either it is closed with an error.
    Decide,
    /// Closes the connection with an error.
    Close,
}

impl ProtocolDetectorBuilder {
    pub(super) fn new() -> Self {
        Self {
            plan: DetectionPlan {
                protocols: Vec::new(),
                fallback: None,
                max_bytes: DEFAULT_MAX_BYTES,
                at_max_bytes: AtLimit::Decide,
                timeout: Some(DEFAULT_TIMEOUT),
                at_timeout: AtLimit::Close,
            },
        }
    }

    /// Adds a protocol after those that were added before. `initialiser` makes the pipeline of a connection that `probe`
    /// recognises; the detector removes itself afterwards. Handlers that are added at the back or after the detector
    /// get the connection's bytes.
    ///
    /// The name is for errors.
    pub fn protocol(
        mut self,
        name: &str,
        probe: impl Probe,
        initialiser: impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        let choice = PipelineChoice::new(name.into(), initialiser);
        self.plan.protocols.push(Protocol { probe: Box::new(probe), choice });
        self
    }

    /// Sets the fallback: the pipeline of a connection that no probe recognises. Without one such a connection is closed
    /// with an error.
    pub fn otherwise(
        mut self,
        initialiser: impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        self.plan.fallback = Some(PipelineChoice::new(FALLBACK.into(), initialiser));
        self
    }

    /// Sets the limit of bytes. Probes see no byte beyond it. Default: 8 KiB.
    pub fn max_bytes(mut self, limit: usize) -> Self {
        self.plan.max_bytes = limit;
        self
    }

    /// Sets what happens at the limit of bytes. Default: [`AtLimit::Decide`].
    pub fn at_max_bytes(mut self, at_limit: AtLimit) -> Self {
        self.plan.at_max_bytes = at_limit;
        self
    }

    /// Sets the limit of time, from when the channel is active or the detector is added to an active channel. Default:
    /// 10 seconds.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.plan.timeout = Some(limit);
        self
    }

    /// Waits for ever. Another handler should limit the time, or silent peers keep their connections.
    pub fn no_timeout(mut self) -> Self {
        self.plan.timeout = None;
        self
    }

    /// Sets what happens at the limit of time. Default: [`AtLimit::Close`]. [`AtLimit::Decide`] is for a fallback whose
    /// server speaks first, such as SMTP: its clients wait in silence.
    pub fn at_timeout(mut self, at_limit: AtLimit) -> Self {
        self.plan.at_timeout = at_limit;
        self
    }

    /// Builds the detector.
    ///
    /// # Errors
    /// [`InvalidDetector`] names the setting that is wrong.
    pub fn build(self) -> Result<ProtocolDetector, InvalidDetector> {
        let plan = self.plan;
        if plan.protocols.is_empty() {
            return Err(InvalidDetector::NoProtocol);
        }
        if plan.max_bytes == 0 {
            return Err(InvalidDetector::ZeroBytes);
        }
        if plan.timeout == Some(Duration::ZERO) {
            return Err(InvalidDetector::ZeroTime);
        }
        for (at, protocol) in plan.protocols.iter().enumerate() {
            let name = &protocol.choice.name;
            if plan.protocols[..at].iter().any(|earlier| earlier.choice.name == *name) {
                return Err(InvalidDetector::DuplicateName { name: name.clone() });
            }
        }
        Ok(ProtocolDetector::new(Arc::new(plan)))
    }
}

impl fmt::Debug for DetectionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.protocols.iter().map(|protocol| &protocol.choice.name).collect();
        f.debug_struct("DetectionPlan")
            .field("protocols", &names)
            .field("has_fallback", &self.fallback.is_some())
            .field("max_bytes", &self.max_bytes)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ProtocolDetectorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProtocolDetectorBuilder").field(&self.plan).finish()
    }
}

/// Why a [`ProtocolDetector`] cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidDetector {
    /// There is no protocol to detect.
    #[error("a protocol detector needs a protocol: call `protocol`")]
    NoProtocol,
    /// Two protocols have the same name.
    #[error("two protocols of a detector are called `{name}`")]
    DuplicateName {
        /// The name.
        name: Arc<str>,
    },
    /// The limit of bytes is zero.
    #[error("the limit of bytes of a protocol detector is zero")]
    ZeroBytes,
    /// The limit of time is zero.
    #[error("the limit of time of a protocol detector is zero; `no_timeout` is for no limit")]
    ZeroTime,
}

impl From<InvalidDetector> for Error {
    fn from(error: InvalidDetector) -> Self {
        Error::new(error)
    }
}
