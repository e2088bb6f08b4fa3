//! E02, E12, E19, E20, P01, P06: the forms of calls that are seldom used.

mod support;

use std::time::Duration;

use support::{Faults, Log, SOON, blow, end};
use waterwheel_executor::{
    BuildError, Clock, Error, ErrorKind, EventExecutor, ManualExecutor, RejectReason, UserCode,
    VirtualClock,
};

const HOUR: Duration = Duration::from_secs(3600);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn executor() -> EventExecutor {
    EventExecutor::builder().name("formal").build().unwrap()
}

#[test]
fn e12_labelled_periodic_timers_carry_the_label() {
    let mut manual = ManualExecutor::with_virtual_clock(VirtualClock::new());
    let executor = manual.executor().clone();
    let log = Log::new();
    let doing = || {
        let (log, executor, mut left) = (log.clone(), executor.clone(), 2);
        move || {
            log.add(executor.running().unwrap().to_string());
            left -= 1;
            if left == 0 {
                blow("no more");
            }
        }
    };
    let rate = executor.labelled("rate").schedule_at_fixed_rate(ms(1), ms(2), doing()).unwrap();
    let delay = executor.labelled("delay").schedule_with_fixed_delay(ms(2), ms(2), doing());
    let delay = delay.unwrap();
    assert_eq!(manual.run_for(ms(10)), 4);
    assert_eq!(log.take(), ["rate", "delay", "rate", "delay"]);
    for (future, label) in [(rate, "rate"), (delay, "delay")] {
        let failed = future.join().unwrap_err();
        let ErrorKind::Panicked { origin, message } = failed.kind() else { panic!("{failed}") };
        assert_eq!((origin.to_string().as_str(), message.as_str()), (label, "no more"));
    }
}

#[test]
fn e12_labelled_periodic_timers_refuse_a_period_of_zero() {
    let executor = executor();
    let labelled = executor.labelled("hasty");
    let rate = labelled.schedule_at_fixed_rate(ms(1), Duration::ZERO, || ());
    let delay = labelled.schedule_with_fixed_delay(ms(1), Duration::ZERO, || ());
    assert!(matches!(rate.unwrap_err().reason(), RejectReason::ZeroPeriod));
    assert!(matches!(delay.unwrap_err().reason(), RejectReason::ZeroPeriod));
}

#[test]
fn e02_an_executor_is_its_only_child() {
    let executor = executor();
    assert_eq!(executor.children().len(), 1);
    assert_eq!(executor.children().collect::<Vec<_>>(), [executor.next()]);
    assert_eq!(executor.next(), executor);
}

#[test]
fn p01_a_progressive_promise_hands_back_what_comes_too_late() {
    let executor = executor();
    let (mut promise, future) = executor.new_progressive_promise();
    assert_eq!(promise.try_success("first"), Ok(()));
    assert_eq!(promise.try_success("second"), Err("second"));
    let back = promise.try_failure(Error::new("third")).unwrap_err();
    assert_eq!(back.to_string(), "third");
    assert_eq!(future.into_future().join().unwrap(), "first");

    let (mut promise, future) = executor.new_progressive_promise::<&str>();
    promise.try_failure(Error::new("broken")).unwrap();
    assert_eq!(promise.try_success("late"), Err("late"));
    assert_eq!(future.into_future().join().unwrap_err().to_string(), "broken");

    let (mut promise, future) = executor.new_progressive_promise::<&str>();
    assert!(future.cancel() && promise.is_cancelled());
    assert_eq!(promise.try_success("late"), Err("late"));
    assert!(promise.try_failure(Error::new("late")).is_err());
}

#[test]
fn p06_a_progressive_future_is_awaited() {
    let mut manual = ManualExecutor::new();
    let executor = manual.executor().clone();
    let log = Log::new();
    let (mut promise, mut future) = executor.new_progressive_promise();
    let noted = log.clone();
    future.add_progress_listener(move |progress| noted.add(progress.done));
    let works = move || {
        promise.set_progress(1, Some(2)).unwrap();
        promise.set_progress(2, Some(2)).unwrap();
        promise.set_success("copied")
    };
    executor.execute(move || assert!(works())).unwrap();
    let awaited = manual.block_on(async move { future.await });
    assert_eq!(awaited.unwrap().unwrap(), "copied");
    assert_eq!(log.take(), [1, 2], "progress listeners stay");
}

#[test]
fn e02_a_rejection_becomes_an_error_with_its_reason() {
    fn submits(executor: &EventExecutor) -> Result<u8, Error> {
        executor.submit(|| 7)?.join()
    }
    let executor = executor();
    assert_eq!(submits(&executor).unwrap(), 7);
    end(&executor);
    let refused = submits(&executor).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Rejected(RejectReason::ShutDown)), "{refused:?}");
    assert_eq!(refused.to_string(), "task rejected: the executor is shut down");
}

#[test]
fn e20_a_manual_executors_thread_is_the_one_that_made_it() {
    let thread = std::thread::Builder::new().name("maker".to_owned()).spawn(|| {
        let manual = ManualExecutor::new();
        let executor = manual.executor().clone();
        let here = executor.thread_properties().expect("known from the start");
        assert_eq!(here.name.as_deref(), Some("maker"));
        assert_eq!(here.id, std::thread::current().id());
        assert!(here.is_alive);
        drop(manual);
        let gone = executor.thread_properties().expect("still known");
        assert!(!gone.is_alive && gone.id == here.id && gone.started_at == here.started_at);
    });
    thread.unwrap().join().unwrap();
}

#[test]
fn e19_a_manual_executor_is_built_with_a_reporter_and_a_virtual_clock() {
    let (faults, clock) = (Faults::new(), VirtualClock::new());
    let mut manual = EventExecutor::builder()
        .name("driven")
        .reporter(faults.clone())
        .build_manual(Clock::Virtual(clock.clone()))
        .unwrap();
    let executor = manual.executor().clone();
    assert_eq!(executor.name(), "driven");
    let labelled = executor.labelled("late");
    let timer = executor.schedule(HOUR, move || labelled.execute(|| blow("after an hour")).is_ok());
    assert_eq!(manual.run_for(HOUR), 2);
    assert_eq!(Duration::from_nanos(clock.now().0), HOUR);
    let expected = (UserCode::Task, "late".to_owned(), "after an hour".to_owned());
    assert_eq!(faults.take_panics(), [expected]);
    let timer = timer.unwrap();
    timer.wait_timeout(SOON).unwrap();
    assert!(timer.join().unwrap());
    assert_eq!(executor.submit(|| 7).map(|_| ()).map_err(|_| ()), Ok(()), "it lives on");
}

#[test]
fn e19_a_manual_executor_is_built_by_the_same_rules() {
    let built = EventExecutor::builder().queue_bound(15).build_manual(Clock::Monotonic);
    assert_eq!(built.map(|_| ()).unwrap_err(), BuildError::QueueBound { bound: 15 });
}
