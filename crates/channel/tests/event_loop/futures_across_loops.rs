//! Futures that are moved to another loop, or observed from another thread.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use waterwheel_channel::driver::TaskOnly;
use waterwheel_channel::{EventLoop, EventLoopGroup, Sleep, sleep};

const PATIENCE: Duration = Duration::from_secs(20);

fn event_loop() -> EventLoop {
    EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap().next()
}

/// Returns a sleep that was polled on a loop and is registered there.
fn begun(event_loop: &EventLoop) -> Sleep {
    let (give, given) = mpsc::channel();
    let begin = async move {
        let mut nap = Some(sleep(Duration::from_secs(3600)));
        poll_fn(|context| {
            let nap = nap.as_mut().expect("polled once");
            assert!(Pin::new(nap).poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        give.send(nap.take()).unwrap();
    };
    event_loop.spawn(begin).unwrap().wait_timeout(PATIENCE).unwrap();
    given.recv().unwrap().unwrap()
}

#[test]
fn l15_a_sleep_dropped_on_another_loop_does_not_cancel_a_timer_there() {
    let (here, there) = (event_loop(), event_loop());
    let stray = begun(&here);
    // The first timer and the first sleeper of each loop have the same ids.
    let slept = there.spawn(sleep(Duration::from_millis(20))).unwrap();
    there.submit(move || drop(stray)).unwrap().join().unwrap();
    slept.wait_timeout(PATIENCE).expect("its timer was left alone");
}

#[test]
fn l15_a_sleep_that_is_awaited_on_another_loop_wakes_there() {
    let (here, there) = (event_loop(), event_loop());
    let mut stray = begun(&here);
    let waited = there.spawn(async move {
        let other = sleep(Duration::from_millis(5));
        let polled =
            poll_fn(|context| Poll::Ready(Pin::new(&mut stray).poll(context).is_pending()));
        assert!(polled.await, "an hour has not passed");
        other.await;
    });
    let waited = waited.unwrap();
    waited.wait_timeout(PATIENCE).unwrap();
    waited.join().unwrap();
}

#[test]
fn e20_a_loop_shows_the_future_it_polls() {
    let event_loop = event_loop();
    let seen = event_loop.spawn(async { EventLoop::current().and_then(|own| own.running()) });
    let running = seen.unwrap().join().unwrap().expect("the loop shows what it runs");
    assert_eq!(running.location().unwrap().file(), file!());
}

#[test]
fn l15_a_future_that_is_made_on_the_loop_need_not_be_send() {
    let event_loop = event_loop();
    let running = event_loop.spawn_with(|| {
        let local = std::rc::Rc::new(std::thread::current().id());
        async move {
            sleep(Duration::from_millis(1)).await;
            (*local, std::thread::current().id())
        }
    });
    let (made, ended) = running.unwrap().join().unwrap();
    assert_eq!(made, ended);
    let failed = event_loop.spawn_with(|| -> std::future::Ready<()> { panic!("a defect") });
    let error = failed.unwrap().join().unwrap_err();
    assert!(error.to_string().contains("a defect"), "{error}");
}
