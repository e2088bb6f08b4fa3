//! Who plays which scene.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::random::SeededRng;
use crate::world::World;
use crate::{breaking, crowds, faults, pressure, talking};

type Scene = (&'static str, fn(&World, &mut SeededRng));

/// So many threads play the scenes of traffic.
const ACTORS: usize = 5;

const TRAFFIC: &[Scene] = &[
    ("burst", talking::burst),
    ("ask and answer", talking::ask_and_answer),
    ("byte by byte", talking::byte_by_byte),
    ("read slowly", talking::read_slowly),
    ("edit", talking::edit),
    ("leave and return", talking::leave_and_return),
    ("cancel writes", talking::cancel_writes),
    ("write beyond the cap", pressure::write_beyond_the_cap),
    ("reset", breaking::reset),
    ("connect to nobody", breaking::connect_to_nobody),
    ("cancel a connect", breaking::cancel_a_connect),
    ("broadcast", crowds::broadcast),
    ("get a file", crowds::get_a_file),
    ("ask by datagrams", crowds::ask_by_datagrams),
    ("run tasks", crowds::run_tasks),
];

/// What one thread plays, one after the other: some of it twice at the same time would be the same.
const TROUBLE: &[Scene] = &[
    ("drain and replace", faults::drain_and_replace),
    ("spin", faults::spin),
    ("fail waits", faults::fail_waits),
    ("rebuild", faults::rebuild),
    ("panic", breaking::panic),
    ("shut down", breaking::shut_down),
];

/// What takes a second.
const PATIENT: &[Scene] = &[
    ("never read", pressure::never_read),
    ("starve", faults::starve),
    ("hold a loop", faults::hold_a_loop),
];

/// Plays all scenes, for so long, and each at least once.
pub(crate) fn play(world: &World, dice: &mut SeededRng, time: Duration) {
    let over = AtomicBool::new(false);
    let played = Mutex::new(BTreeMap::new());
    let decks = [TRAFFIC, TROUBLE, PATIENT].map(|scenes| Deck::new(scenes, dice));
    let (tell, stopped) = channel();
    thread::scope(|scope| {
        let casts = [(&decks[0], ACTORS), (&decks[1], 1), (&decks[2], 1)];
        for (deck, actors) in casts {
            for _ in 0..actors {
                let mut dice = SeededRng::from_seed(dice.next());
                let (over, played, stopped) = (&over, &played, Stopped(tell.clone()));
                scope.spawn(move || {
                    while let Some((name, scene)) = deck.next(over.load(Ordering::Relaxed)) {
                        scene(world, &mut dice);
                        *lock(played).entry(name).or_insert(0_u64) += 1;
                    }
                    drop(stopped);
                });
            }
        }
        // Whoever stops before the time is over has failed.
        let _ = stopped.recv_timeout(time);
        over.store(true, Ordering::Relaxed);
    });
    let played = lock(&played);
    let scenes = TRAFFIC.iter().chain(TROUBLE).chain(PATIENT);
    let missing: Vec<_> = scenes.filter(|scene| !played.contains_key(scene.0)).collect();
    assert!(missing.is_empty(), "never played: {missing:?}");
    println!("played: {:?}", *played);
}

/// Tells that an actor has stopped, in whatever way.
struct Stopped(Sender<()>);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.send(()); // Nobody listens when the time is over.
    }
}

/// Scenes in an order of its own, again and again.
struct Deck(Mutex<(Vec<Scene>, usize)>);

impl Deck {
    fn new(scenes: &[Scene], dice: &mut SeededRng) -> Self {
        let mut scenes = scenes.to_vec();
        for at in (1..scenes.len()).rev() {
            scenes.swap(at, dice.below(at + 1));
        }
        Self(Mutex::new((scenes, 0)))
    }

    /// The next one; none if it is over and there were all of them.
    fn next(&self, over: bool) -> Option<Scene> {
        let mut deck = lock(&self.0);
        let (scenes, taken) = &mut *deck;
        if over && *taken >= scenes.len() {
            return None;
        }
        *taken += 1;
        Some(scenes[(*taken - 1) % scenes.len()])
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
