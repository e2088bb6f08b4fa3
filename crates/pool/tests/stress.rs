//! A pool under many threads and loops, with connections and servers that fail at random: never two leases of one
//! connection, exact counts at rest, and nothing that hangs.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use waterwheel_channel::driver::TaskOnly;
use waterwheel_channel::{
    Address, Bootstrap, Channel, ChannelId, Ctx, EventLoopGroup, Handler, HandlerResult, Msg,
    ServerBootstrap, local,
};
use waterwheel_executor::{Error, Report};
use waterwheel_pool::{ChannelPool, ChannelPoolBuilder, Lease, PoolError};

/// A small random generator (xorshift64).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 16
    }
}

/// Longer than anything takes here, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that answers, and now and then closes, says too much, or falls silent.
struct MoodyServer(Random);

impl Handler for MoodyServer {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if self.0.next().is_multiple_of(16) {
            ctx.close();
        }
        ctx.fire_active();
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        match self.0.next() % 16 {
            0 => ctx.close(),
            1 => {
                ctx.write_and_flush(msg);
                ctx.write_and_flush(String::from("and another thing"));
            }
            2 => {
                ctx.write_and_flush(msg);
                ctx.close();
            }
            _ => ctx.write_and_flush(msg),
        }
        Ok(())
    }
}

/// The connections in use, to find one that is leased twice.
#[derive(Clone, Default)]
struct InUse(Arc<Mutex<HashSet<ChannelId>>>);

struct Used {
    lease: Option<Lease>,
    in_use: InUse,
}

impl InUse {
    fn enter(&self, lease: Lease) -> Used {
        assert!(self.0.lock().unwrap().insert(lease.id()), "two leases of {:?}", lease.id());
        Used { lease: Some(lease), in_use: self.clone() }
    }
}

impl Used {
    fn leave(mut self) -> Lease {
        let lease = self.lease.take().unwrap();
        assert!(self.in_use.0.lock().unwrap().remove(&lease.id()));
        lease
    }
}

struct Stress {
    servers: EventLoopGroup,
    clients: EventLoopGroup,
    doors: Vec<Address>,
    in_use: InUse,
}

impl Stress {
    fn new(name: &str, seed: u64) -> Self {
        let group = |loops| {
            let quiet = Arc::new(|_: &Report<'_>| ());
            EventLoopGroup::builder(TaskOnly).threads(loops).reporter(quiet).build().unwrap()
        };
        let (servers, clients) = (group(2), group(3));
        let doors: Vec<_> = (0..3).map(|door| Address::local(format!("{name} {door}"))).collect();
        let seeds = AtomicU64::new(seed);
        let server = ServerBootstrap::new(&servers, local::Local).child_initialiser(move |edit| {
            edit.add_last(
                "moody",
                MoodyServer(Random::new(seeds.fetch_add(1, Ordering::Relaxed))),
            )?;
            Ok(())
        });
        // No server listens at the last address.
        for door in &doors[..2] {
            server.bind(door.clone()).join().unwrap();
        }
        Self { servers, clients, doors, in_use: InUse::default() }
    }

    fn builder(&self) -> ChannelPoolBuilder {
        ChannelPool::builder(Bootstrap::new(&self.clients, local::Local))
    }

    fn run(&self, pool: &ChannelPool, (threads, rounds): (u64, u64), seed: u64) {
        let outcomes = Arc::new(Outcomes::default());
        thread::scope(|scope| {
            for thread in 0..threads {
                let (pool, outcomes) = (pool.clone(), outcomes.clone());
                let (doors, in_use) = (&self.doors, self.in_use.clone());
                let mut random = Random::new(seed ^ (thread << 40));
                scope.spawn(move || {
                    for _ in 0..rounds {
                        use_pool(&pool, &doors[random.next() as usize % 3], &mut random, &in_use);
                        outcomes.rounds.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for (thread, at) in self.clients.children().enumerate() {
                let (pool, outcomes) = (pool.clone(), outcomes.clone());
                let (doors, in_use) = (self.doors.clone(), self.in_use.clone());
                let mut random = Random::new(seed ^ ((thread as u64) << 50));
                let task = at.spawn(async move {
                    for _ in 0..rounds {
                        let door = doors[random.next() as usize % 3].clone();
                        match pool.acquire(door).await {
                            Ok(lease) => drop(in_use.enter(lease).leave()),
                            Err(error) => check_error(&error),
                        }
                        outcomes.rounds.fetch_add(1, Ordering::Relaxed);
                    }
                });
                let task = task.unwrap();
                scope.spawn(move || {
                    task.wait_timeout(PATIENCE).expect("a task on a loop hangs");
                    task.join().unwrap();
                });
            }
        });
        let all = (threads + self.clients.children().len() as u64) * rounds;
        assert_eq!(outcomes.rounds.load(Ordering::Relaxed) as u64, all);
        self.assert_at_rest(pool);
    }

    /// Waits until nothing is arriving or closing; then every open connection is idle.
    fn assert_at_rest(&self, pool: &ChannelPool) {
        let is_moving = |pool: &ChannelPool| {
            let now = pool.metrics().now;
            now.connecting + now.checking + now.closing + now.leased + now.waiting > 0
        };
        let mut turns = 0;
        while is_moving(pool) {
            turns += 1;
            assert!(turns < 100_000, "the pool does not come to rest: {pool:?}");
            for at in self.clients.children().chain(self.servers.children()) {
                at.submit(|| ()).unwrap().join().unwrap();
            }
        }
        let now = pool.metrics().now;
        assert_eq!((now.open, now.leased, now.waiting), (now.idle, 0, 0), "{now}");
        let metrics = pool.metrics();
        assert_eq!(metrics.created, metrics.closed_total() + metrics.now.open as u64);
    }

    fn end(self, pool: &ChannelPool) {
        pool.close().wait_timeout(PATIENCE).expect("the close of the pool hangs");
        let metrics = pool.metrics();
        assert_eq!((metrics.now.open, metrics.addresses), (0, 0));
        assert_eq!(metrics.created, metrics.closed_total());
        for group in [self.clients, self.servers] {
            let ended = group.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap();
            ended.wait_timeout(PATIENCE).expect("the shutdown hangs");
        }
    }
}

#[derive(Default)]
struct Outcomes {
    rounds: AtomicUsize,
}

/// Acquires from a thread: waits, gives up, or lets a callback have it; then uses the lease or does not.
fn use_pool(pool: &ChannelPool, door: &Address, random: &mut Random, in_use: &InUse) {
    let limit = match random.next() % 4 {
        0 => Duration::from_micros(random.next() % 300),
        _ => PATIENCE,
    };
    let acquire = pool.acquire_within(door.clone(), limit.max(Duration::from_nanos(1)));
    match random.next() % 8 {
        0 => return drop(acquire),
        1 => {
            let in_use = in_use.clone();
            return acquire.on_complete(move |lease| match lease {
                Ok(lease) => drop(in_use.enter(lease).leave()),
                Err(error) => check_error(&error),
            });
        }
        _ => {}
    }
    let used = match acquire.join() {
        Ok(lease) => in_use.enter(lease),
        Err(error) => return check_error(&error),
    };
    let channel: Channel = (**used.lease.as_ref().unwrap()).clone();
    if !random.next().is_multiple_of(3) {
        channel.send(String::from("a request"));
    }
    if random.next().is_multiple_of(16) {
        drop(channel.close());
    }
    match random.next() % 8 {
        0 => used.leave().discard(),
        1 => drop(used.leave().into_channel().close()),
        2 => {
            let lease = used.leave();
            thread::spawn(move || drop(lease)).join().unwrap();
        }
        _ => drop(used.leave()),
    }
}

fn check_error(error: &Error) {
    let Some(known) = error.find::<PoolError>() else { panic!("{error}") };
    let is_expected = matches!(
        known,
        PoolError::TimedOut { .. }
            | PoolError::Connect { .. }
            | PoolError::Prepare { .. }
            | PoolError::TooManyWaiting { .. }
    );
    assert!(is_expected, "{error}");
    if let PoolError::TimedOut { waited, .. } = known {
        assert!(*waited < PATIENCE, "an acquire hangs: {error}");
    }
}

/// Builds pools of several kinds, and lets threads and loops use them.
fn stress(name: &str, threads: u64, rounds: u64) {
    for seed in 0..4 {
        let stress = Stress::new(&format!("{name} {seed}"), seed);
        let builder = match seed {
            0 => stress.builder().max_open(2),
            1 => stress.builder().max_open(3).max_open_total(4).max_waiting(64),
            2 => {
                stress.builder().unbounded().max_open_total(3).health_check(|channel| async move {
                    if channel.id().to_string().ends_with('7') {
                        Err(Error::new("7"))
                    } else {
                        Ok(())
                    }
                })
            }
            _ => stress
                .builder()
                .max_open(2)
                .on_created(PATIENCE, |_| async {
                    waterwheel_channel::yield_now().await;
                    Ok(())
                })
                .on_acquired(|_| Ok(()))
                .on_released(|_| Ok(())),
        };
        let pool = builder.acquire_timeout(PATIENCE).idle_limit(None).build().unwrap();
        stress.run(&pool, (threads, rounds), seed);
        stress.end(&pool);
    }
}

#[test]
fn k12_threads_and_loops_use_a_pool_whose_connections_fail_at_random() {
    stress("few", 4, 200);
}

#[test]
#[ignore = "run by the stress stage"]
fn k12_many_threads_and_loops_use_a_pool_whose_connections_fail_at_random() {
    stress("many", 12, 5_000);
}
