//! What is done to many at once, and what has nothing to do with streams: broadcasts, files, datagrams,
//! tasks, timers, futures.

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

use crate::handlers::CAREFUL;
use crate::line::{End, get};
use crate::random::SeededRng;
use crate::world::{Service, World};

/// A message to a room full of connections goes to each of them once.
pub(crate) fn broadcast(world: &World, dice: &mut SeededRng) {
    let room = ChannelGroup::new("room");
    let lines = (0..2 + dice.below(8)).filter_map(|at| {
        let stays = [Service::Boss, Service::Unix, Service::Local, Service::Faulted];
        world.connect(stays[at % stays.len()], dice, ChannelOptions::default())
    });
    let lines: Vec<_> = lines.collect();
    assert!(lines.iter().all(|line| room.add(&line.channel)));
    let (mut sent, messages) = (Vec::new(), 1 + dice.below(5));
    for _ in 0..messages {
        let mut message = vec![CAREFUL];
        let len = dice.below(3_000);
        message.extend_from_slice(&dice.bytes(len));
        sent.extend_from_slice(&message);
        let outcome = get(room.write_and_flush(Bytes::from(message))).expect("an outcome");
        assert!(outcome.is_success() && outcome.len() == lines.len(), "{outcome:?}");
    }
    for line in &lines {
        let (read, end) = line.hear(sent.len());
        assert!(read == sent && end == End::Open, "{} of {} bytes", read.len(), sent.len());
        world.common.ledger.client(sent.len(), read.len());
    }
    let outcome = get(room.close()).expect("an outcome");
    assert!(outcome.is_success() && outcome.len() == lines.len(), "{outcome:?}");
    assert!(room.is_empty());
}

/// Gets a file.
pub(crate) fn get_a_file(world: &World, dice: &mut SeededRng) {
    let clients = world.bootstrap(Service::Boss, dice);
    let to = world.services.files.clone();
    let Some(line) = world.connect_by(clients, to, ChannelOptions::default()) else { return };
    let (read, end) = line.hear(usize::MAX);
    assert!(end == End::Finished && world.content == read, "{} bytes, {end:?}", read.len());
    line.close();
}

/// Tells of the datagrams it gets.
struct Hear(Sender<Bytes>);

impl InboundHandler for Hear {
    type In = Datagram;

    fn on_read(&mut self, _: &Ctx<'_>, datagram: Datagram) -> HandlerResult {
        let _ = self.0.send(datagram.into_bytes()); // Whoever asked may have got another answer.
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, _: Error) -> HandlerResult {
        Ok(())
    }
}

/// Asks by datagrams, again and again if need be. No answer comes twice, or to what was not asked.
pub(crate) fn ask_by_datagrams(world: &World, dice: &mut SeededRng) {
    /// So long an answer may take before the next question.
    const SOON: Duration = Duration::from_millis(200);
    const TRIES: usize = 100;
    let (tell, heard) = channel();
    let asking = Bootstrap::new(&world.clients[dice.below(world.clients.len())], Udp)
        .initialiser(move |edit| Ok(edit.add_last("hear", In(Hear(tell.clone()))).map(drop)?))
        .connect(world.services.datagrams.clone());
    let asking = match get(asking) {
        Ok(asking) => asking,
        Err(error) => {
            assert!(error.to_string().contains("Too many open files"), "{error}");
            return;
        }
    };
    let (mut waiting, mut answers) = (BTreeSet::new(), 0);
    for _ in 0..TRIES {
        let len = 16 + dice.below(1_000);
        let question = dice.bytes(len);
        let mut answer = question.to_vec();
        answer.reverse();
        waiting.insert(answer);
        asking.send(Datagram::new(question));
        if let Ok(answer) = heard.recv_timeout(SOON) {
            assert!(waiting.remove(&answer[..]), "an answer to no question");
            answers += 1;
        }
        if answers == 10 {
            break;
        }
    }
    assert_eq!(answers, 10, "{} questions have no answer", waiting.len());
    get(asking.close()).expect("it closes");
}

/// Tasks run once each and in order, timers fire unless they are cancelled, futures end.
pub(crate) fn run_tasks(world: &World, dice: &mut SeededRng) {
    let loops: Vec<_> = world.clients.iter().flat_map(|group| group.children()).collect();
    let at = &loops[dice.below(loops.len())];
    let ran = Arc::new(AtomicUsize::new(0));
    let tasks = 50 + dice.below(200);
    for nth in 0..tasks {
        let ran = ran.clone();
        at.execute(move || assert_eq!(ran.fetch_add(1, Ordering::Relaxed), nth)).expect("it runs");
    }
    let fired = Arc::new(AtomicUsize::new(0));
    let timers = (0..20).map(|_| {
        let fired = fired.clone();
        let delay = Duration::from_micros(dice.below(20_000) as u64);
        at.schedule(delay, move || fired.fetch_add(1, Ordering::Relaxed)).expect("it runs")
    });
    let timers: Vec<_> = timers.collect();
    let futures = (0..20).map(|nth| {
        let delay = Duration::from_micros(dice.below(20_000) as u64);
        let future = async move {
            sleep(delay).await;
            nth
        };
        at.spawn(future).expect("it runs")
    });
    let futures: Vec<_> = futures.collect();
    let cancelled = timers.iter().filter(|_| dice.below(2) == 0).filter(|timer| timer.cancel());
    let cancelled = cancelled.count();
    let done = timers.into_iter().filter(|timer| !timer.is_cancelled());
    let done: Vec<_> = done.collect::<Vec<_>>().into_iter().map(get).collect();
    assert!(done.iter().all(Result::is_ok));
    assert_eq!(fired.load(Ordering::Relaxed) + cancelled, 20);
    for (nth, future) in futures.into_iter().enumerate() {
        assert_eq!(get(future).expect("it ends"), nth);
    }
    get(at.submit(|| ()).expect("it runs")).expect("it was run");
    assert_eq!(ran.load(Ordering::Relaxed), tasks);
}
