//! Initialisers and probes that fail.

use bytes::Bytes;
use waterwheel_channel::{Ctx, Edit, PipelineError};
use waterwheel_executor::Error;
use waterwheel_handlers::{DetectError, Detection, ProtocolDetector, ProtocolDetectorBuilder};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::{Log, RecordedMethod};

use crate::support::{Bench, begins, inbound, record, taken_over};

fn red(
    initialiser: impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync + 'static,
) -> ProtocolDetectorBuilder {
    ProtocolDetector::builder().protocol("red", begins("red"), initialiser)
}

#[test]
fn k13_an_initialiser_that_fails_closes_the_channel_with_its_error() {
    let mut bench = Bench::new(|log| {
        let log = log.clone();
        red(move |edit| {
            edit.add_last("red", log.recorder())?;
            Err(Error::new("no certificate"))
        })
    });
    bench.send("re");
    bench.send("d");
    let error = bench.channel.read_error().unwrap();
    assert_eq!(error.to_string(), "detection: the initialiser of `red` failed: no certificate");
    assert!(matches!(error.find(), Some(DetectError::NotInitialised { .. })));
    assert!(!bench.is_open());
    assert_eq!(bench.lines(), ["never-added dropped"], "the edit was undone");
}

#[test]
fn k13_a_handler_that_cannot_be_added_closes_the_channel() {
    let mut bench = Bench::new(|log| {
        let log = log.clone();
        red(move |edit| {
            let fails = |_: &Ctx<'_>| Err(Error::new("not now"));
            edit.add_last("red", log.recorder().at(RecordedMethod::Added, fails))?;
            Ok(())
        })
    });
    bench.send("red");
    let error = bench.channel.read_error().unwrap();
    assert!(matches!(error.find(), Some(PipelineError::NotAdded { .. })), "{error}");
    assert!(!bench.is_open());
}

#[test]
fn k13_an_initialiser_that_panics_closes_the_channel() {
    let mut bench = Bench::new(|_| red(|_| panic!("a defect")));
    bench.send("red");
    assert!(!bench.is_open());
    let faults = bench.faults.take();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("`detect`") && faults[0].contains("a defect"), "{faults:?}");
    assert!(bench.channel.read_inbound_any().is_none());
}

#[test]
fn k13_a_probe_that_panics_closes_the_channel() {
    fn panics(bytes: &[u8]) -> Detection {
        panic!("{} bytes", bytes.len())
    }

    let mut bench =
        Bench::new(|log| ProtocolDetector::builder().protocol("red", panics, record(log, "red")));
    bench.send("red");
    assert!(!bench.is_open());
    assert_eq!(bench.faults.take().len(), 1);
}

#[test]
fn k13_after_a_close_in_the_initialiser_its_handlers_still_get_the_bytes() {
    let mut bench = Bench::new(|log| {
        let record = record(log, "red");
        red(move |edit| {
            record(edit)?;
            drop(edit.channel().close());
            Ok(())
        })
    });
    bench.send("re");
    bench
        .channel
        .write_inbound_all([Bytes::from_static(b"d").into(), Bytes::from_static(b" 2").into()]);
    assert!(!bench.is_open());
    let lines = bench.lines();
    assert_eq!(lines[..3], taken_over("red", "red")[..3]);
    assert!(lines.contains(&String::from("red on_inactive")), "{lines:?}");
}

#[test]
fn k13_a_fallback_that_only_closes_causes_no_error() {
    let mut bench = Bench::new(|log| {
        red(record(log, "red")).otherwise(|edit| {
            drop(edit.channel().close());
            Ok(())
        })
    });
    bench.send("blue");
    assert!(!bench.is_open());
    assert!(bench.channel.read_error().is_none());
}

#[test]
fn k13_a_handler_that_removes_the_detector_at_its_error_gets_the_bytes() {
    let log = Log::new();
    let detector = red(record(&log, "red")).build().unwrap();
    let mut channel = Embedded::new(|edit| {
        edit.add_last("detect", detector)?;
        let recorder = log.recorder().interest(inbound()).holds(RecordedMethod::Error);
        edit.add_last(
            "app",
            recorder.at(RecordedMethod::Error, |ctx| Ok(ctx.pipeline().remove("detect")?)),
        )?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound(Bytes::from_static(b"re"));
    drop(log.take());
    channel.write_inbound(Bytes::from_static(b"al"));
    assert_eq!(
        log.take(),
        [
            "app on_error detection: no protocol matches a connection that begins with 'real'",
            "app on_active",
            "app on_read real",
            "app on_read_complete",
        ]
    );
    assert!(channel.channel().is_open());
}
