//! Wake word, queue and admission word together.

use std::sync::Arc;

use super::{AtomicUsize, Ordering, model, model_of_three, park, parker, thread};
use crate::clock::Nanos;
use crate::queue::admission::QueueDepth;
use crate::queue::inbox::Inbox;
use crate::wake::wake_word::Urgency;

/// Takes `n` commands, sleeping whenever there is none. Returns how often it announced a sleep.
fn take(inbox: &Inbox<u8>, parker: &mut crate::wake::park::TokenPark, n: usize) -> u64 {
    let mut consumer = inbox.consumer();
    let (mut taken, mut sleeps) = (0, 0);
    while taken < n {
        if consumer.pop().is_some() {
            inbox.release(QueueDepth::ONE_USER);
            taken += 1;
            continue;
        }
        sleeps += 1;
        let _: Option<()> = inbox.sleep(None, || false, || park(parker));
    }
    sleeps
}

fn produce(inbox: &Inbox<u8>, urgency: Urgency) {
    let permit = inbox.admit_user().unwrap();
    inbox.push(permit, 0, urgency);
}

#[test]
fn e10_no_wake_up_is_lost_and_none_is_wasted() {
    model_of_three(|| {
        let (mut parker, unpark) = parker();
        let inbox = Arc::new(Inbox::new(None, unpark));
        let producers: Vec<_> = (0..2)
            .map(|_| {
                let inbox = inbox.clone();
                thread::spawn(move || produce(&inbox, Urgency::Now))
            })
            .collect();
        let sleeps = take(&inbox, &mut parker, 2);
        for producer in producers {
            producer.join().unwrap();
        }
        assert!(inbox.wake_ups() <= sleeps, "{} wakes, {sleeps} sleeps", inbox.wake_ups());
        assert_eq!(inbox.depth(), QueueDepth::NONE);
    });
}

#[test]
fn e10_two_tasks_of_one_producer_wake_a_sleep_at_most_once() {
    model(|| {
        let (mut parker, unpark) = parker();
        let inbox = Arc::new(Inbox::new(None, unpark));
        let producer = {
            let inbox = inbox.clone();
            thread::spawn(move || {
                produce(&inbox, Urgency::Lazy);
                produce(&inbox, Urgency::Now);
            })
        };
        let sleeps = take(&inbox, &mut parker, 2);
        producer.join().unwrap();
        assert!(inbox.wake_ups() <= sleeps);
    });
}

/// The loop sleeps towards 100: an earlier timer must get through, a later one must not wake it.
#[test]
fn e10_an_earlier_timer_wakes_the_loop() {
    model(|| {
        let (mut parker, unpark) = parker();
        let inbox: Arc<Inbox<u8>> = Arc::new(Inbox::new(None, unpark));
        let producer = {
            let inbox = inbox.clone();
            thread::spawn(move || {
                produce(&inbox, Urgency::At(Nanos(200)));
                produce(&inbox, Urgency::At(Nanos(50)));
            })
        };
        let mut consumer = inbox.consumer();
        let (mut taken, mut sleeps) = (0, 0);
        while taken < 2 {
            if consumer.pop().is_some() {
                inbox.release(QueueDepth::ONE_USER);
                taken += 1;
                continue;
            }
            sleeps += 1;
            let _ = inbox.sleep(Some(Nanos(100)), || false, || park(&mut parker));
        }
        producer.join().unwrap();
        assert!(inbox.wake_ups() <= sleeps);
    });
}

/// Producers race with a thread that closes the inbox; the loop runs what was accepted.
fn shutdown_race(bound: Option<u32>) {
    model_of_three(move || {
        let (_parker, unpark) = parker();
        let inbox = Arc::new(Inbox::new(bound, unpark));
        let accepted = Arc::new(AtomicUsize::new(0));
        let producers: Vec<_> = (0..2)
            .map(|_| {
                let (inbox, accepted) = (inbox.clone(), accepted.clone());
                thread::spawn(move || {
                    if let Ok(permit) = inbox.admit_user() {
                        inbox.push(permit, 0, Urgency::Now);
                        accepted.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        inbox.close();
        let (mut run, mut consumer) = (0, inbox.consumer());
        while inbox.next_accepted(|| consumer.pop()).is_some() {
            inbox.release(QueueDepth::ONE_USER);
            run += 1;
        }
        for producer in producers {
            producer.join().unwrap();
        }
        assert_eq!(run, accepted.load(Ordering::SeqCst), "run or handed back, never both");
        assert!(inbox.is_empty(), "nothing came after the last pass");
    });
}

#[test]
fn e07_accepted_is_run_unbounded() {
    shutdown_race(None);
}

#[test]
fn e07_accepted_is_run_bounded() {
    shutdown_race(Some(1));
}
