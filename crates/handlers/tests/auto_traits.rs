//! `Send` and `Sync` of every public type.

use waterwheel_handlers::{
    AcceptRate, AcceptRateBuilder, AddressLimit, AddressLimitBuilder, AtLimit, ChannelTraffic,
    ChunkSource, ChunkedMessage, ChunkedWriteError, ChunkedWriter, ChunkedWriterBuilder,
    DetectError, Detection, FileChunks, FirstMessageDeadline, FlowControl, FlushConsolidation,
    IdleEvent, IdleHandler, IdleHandlerBuilder, IdleKind, InvalidChunkOption, InvalidDetector,
    InvalidGuard, InvalidIdle, InvalidShaping, InvalidTimeout, NetworkAction, NetworkFilter,
    NetworkRules, PrefixLengths, Probe, ProbeSearch, ProtocolDetector, ProtocolDetectorBuilder,
    ReadTimeout, ReaderChunks, SearchOutcome, StockProbe, TimeoutError, TrafficLimiter,
    TrafficRate, TrafficShaping, TrafficShapingBuilder, TrafficShapingHandler, TrafficStats,
    TransferProgress, WireLog, WireLogBuilder, WriteTimeout,
};
use waterwheel_handlers::{
    Capture, CaptureError, CaptureFile, CaptureFileBuilder, CapturePhase, CaptureStats,
};

#[path = "../../../support/auto_traits.rs"]
mod auto_traits;

use auto_traits::{AutoTraits, NotImplemented, is};

#[test]
fn public_types_cross_threads_as_listed() {
    let listed = [
        is!(AcceptRate: true true true),
        is!(AcceptRateBuilder: true true true),
        is!(AddressLimit: true true true),
        is!(AddressLimitBuilder: true true true),
        is!(AtLimit: true true true),
        is!(ChannelTraffic: true true true),
        is!(dyn ChunkSource: true false false),
        is!(ChunkedMessage: true false true),
        is!(ChunkedWriteError: true true true),
        // Shares its queue with a future on the loop, and is built in the initialiser.
        is!(ChunkedWriter: false false true),
        is!(ChunkedWriterBuilder: true true true),
        is!(DetectError: true true true),
        is!(Detection: true true true),
        is!(FileChunks: true true true),
        is!(FirstMessageDeadline: true true true),
        is!(Capture: true true true),
        is!(CaptureError: true true true),
        is!(CaptureFile: true true true),
        is!(CaptureFileBuilder: true true true),
        is!(CapturePhase: true true true),
        is!(CaptureStats: true true true),
        is!(IdleEvent: true true true),
        is!(IdleHandler: true true true),
        is!(IdleHandlerBuilder: true true true),
        is!(IdleKind: true true true),
        is!(InvalidChunkOption: true true true),
        is!(InvalidDetector: true true true),
        is!(InvalidGuard: true true true),
        is!(InvalidIdle: true true true),
        is!(InvalidShaping: true true true),
        is!(InvalidTimeout: true true true),
        is!(NetworkAction: true true true),
        is!(NetworkFilter: true true true),
        is!(NetworkRules: true true true),
        is!(PrefixLengths: true true true),
        is!(dyn Probe: true true false),
        is!(ProbeSearch: true true true),
        is!(ProtocolDetector: true true true),
        is!(ProtocolDetectorBuilder: true true true),
        is!(ReadTimeout: true true true),
        is!(ReaderChunks: true true true),
        is!(SearchOutcome: true true true),
        is!(StockProbe: true true true),
        is!(TimeoutError: true true true),
        is!(TrafficLimiter: true true true),
        is!(TrafficRate: true true true),
        is!(TrafficShaping: true true true),
        is!(TrafficShapingBuilder: true true true),
        is!(TrafficShapingHandler: false false true),
        is!(TrafficStats: true true true),
        is!(TransferProgress: true true true),
        is!(WireLog: true true true),
        is!(WireLogBuilder: true true true),
        // Holds messages, which need not be `Sync`.
        is!(FlowControl: true false true),
        // Shares a mark with the handler that it adds.
        is!(FlushConsolidation: false false true),
        // Shares completions with its channel, and is built in the initialiser.
        is!(WriteTimeout: false false true),
    ];
    auto_traits::check(&listed, &[include_str!("../src/lib.rs")], &[]);
}
