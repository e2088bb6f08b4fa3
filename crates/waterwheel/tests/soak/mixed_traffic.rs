//! Scenarios beside echo: broadcasts to channel groups, files, datagrams, tasks, timers and futures.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use waterwheel::channel::{
    Bootstrap, ChannelGroup, ChannelOptions, Ctx, Datagram, HandlerResult, In, InboundHandler,
    sleep,
};
use waterwheel::executor::Error;
use waterwheel::net::Udp;

use crate::client_connection::{ConnectionEnd, get};
use crate::handlers::CHECKED;
use crate::random::SeededRng;
use crate::soak_setup::{Service, SoakSetup};

/// Broadcasts messages to a channel group: each member receives each message once.
pub(crate) fn broadcast(setup: &SoakSetup, rng: &mut SeededRng) {
    let group = ChannelGroup::new("broadcast");
    let connections = (0..2 + rng.below(8)).filter_map(|at| {
        let services = [Service::Boss, Service::Unix, Service::Local, Service::Faulted];
        setup.connect(services[at % services.len()], rng, ChannelOptions::default())
    });
    let connections: Vec<_> = connections.collect();
    assert!(connections.iter().all(|connection| group.add(&connection.channel)));
    let (mut sent, messages) = (Vec::new(), 1 + rng.below(5));
    for _ in 0..messages {
        let mut message = vec![CHECKED];
        let len = rng.below(3_000);
        message.extend_from_slice(&rng.bytes(len));
        sent.extend_from_slice(&message);
        let outcome = get(group.write_and_flush(Bytes::from(message)))
            .expect("the group operation completes");
        assert!(outcome.is_success() && outcome.len() == connections.len(), "{outcome:?}");
    }
    for connection in &connections {
        let (read, end) = connection.receive(sent.len());
        assert!(
            read == sent && end == ConnectionEnd::Open,
            "{} of {} bytes",
            read.len(),
            sent.len()
        );
        setup.common.byte_counts.add_client(sent.len(), read.len());
    }
    let outcome = get(group.close()).expect("the group operation completes");
    assert!(outcome.is_success() && outcome.len() == connections.len(), "{outcome:?}");
    assert!(group.is_empty());
}

/// Downloads the served file.
pub(crate) fn get_a_file(setup: &SoakSetup, rng: &mut SeededRng) {
    let clients = setup.bootstrap(Service::Boss, rng);
    let to = setup.services.files.clone();
    let Some(connection) = setup.connect_by(clients, to, ChannelOptions::default()) else { return };
    let (read, end) = connection.receive(usize::MAX);
    assert!(
        end == ConnectionEnd::Finished && setup.content == read,
        "{} bytes, {end:?}",
        read.len()
    );
    connection.close();
}

/// Sends received datagrams to the scenario.
struct DatagramTap(Sender<Bytes>);

impl InboundHandler for DatagramTap {
    type In = Datagram;

    fn on_read(&mut self, _: &Ctx<'_>, datagram: Datagram) -> HandlerResult {
        let _ = self.0.send(datagram.into_bytes()); // The scenario may have ended with another answer.
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, _: Error) -> HandlerResult {
        Ok(())
    }
}

/// Sends datagrams until ten are answered. No answer arrives twice or without a question.
pub(crate) fn ask_by_datagrams(setup: &SoakSetup, rng: &mut SeededRng) {
    /// Time to wait for an answer before the next question.
    const ANSWER_WAIT: Duration = Duration::from_millis(200);
    const TRIES: usize = 100;
    let (sender, answered) = channel();
    let client = Bootstrap::new(&setup.clients[rng.below(setup.clients.len())], Udp)
        .initialiser(move |edit| {
            Ok(edit.add_last("tap", In(DatagramTap(sender.clone()))).map(drop)?)
        })
        .connect(setup.services.datagrams.clone());
    let client = match get(client) {
        Ok(client) => client,
        Err(error) => {
            assert!(error.to_string().contains("Too many open files"), "{error}");
            return;
        }
    };
    let (mut waiting, mut answers) = (BTreeSet::new(), 0);
    for _ in 0..TRIES {
        let len = 16 + rng.below(1_000);
        let question = rng.bytes(len);
        let mut answer = question.to_vec();
        answer.reverse();
        waiting.insert(answer);
        client.send(Datagram::new(question));
        if let Ok(answer) = answered.recv_timeout(ANSWER_WAIT) {
            assert!(waiting.remove(&answer[..]), "an answer without a question");
            answers += 1;
        }
        if answers == 10 {
            break;
        }
    }
    assert_eq!(answers, 10, "{} questions have no answer", waiting.len());
    get(client.close()).expect("the channel closes");
}

/// Tasks run once each and in order, timers fire unless they are cancelled, futures complete.
pub(crate) fn run_tasks(setup: &SoakSetup, rng: &mut SeededRng) {
    let loops: Vec<_> = setup.clients.iter().flat_map(|group| group.children()).collect();
    let at = &loops[rng.below(loops.len())];
    let ran = Arc::new(AtomicUsize::new(0));
    let tasks = 50 + rng.below(200);
    for nth in 0..tasks {
        let ran = ran.clone();
        at.execute(move || assert_eq!(ran.fetch_add(1, Ordering::Relaxed), nth))
            .expect("the loop accepts tasks");
    }
    let fired = Arc::new(AtomicUsize::new(0));
    let timers = (0..20).map(|_| {
        let fired = fired.clone();
        let delay = Duration::from_micros(rng.below(20_000) as u64);
        at.schedule(delay, move || fired.fetch_add(1, Ordering::Relaxed))
            .expect("the loop accepts tasks")
    });
    let timers: Vec<_> = timers.collect();
    let futures = (0..20).map(|nth| {
        let delay = Duration::from_micros(rng.below(20_000) as u64);
        let future = async move {
            sleep(delay).await;
            nth
        };
        at.spawn(future).expect("the loop accepts tasks")
    });
    let futures: Vec<_> = futures.collect();
    let cancelled = timers.iter().filter(|_| rng.below(2) == 0).filter(|timer| timer.cancel());
    let cancelled = cancelled.count();
    let done = timers.into_iter().filter(|timer| !timer.is_cancelled());
    let done: Vec<_> = done.collect::<Vec<_>>().into_iter().map(get).collect();
    assert!(done.iter().all(Result::is_ok));
    assert_eq!(fired.load(Ordering::Relaxed) + cancelled, 20);
    for (nth, future) in futures.into_iter().enumerate() {
        assert_eq!(get(future).expect("the future completes"), nth);
    }
    get(at.submit(|| ()).expect("the loop accepts tasks")).expect("the task ran");
    assert_eq!(ran.load(Ordering::Relaxed), tasks);
}
