//! Limits of open connections and of waiting acquires.

use waterwheel_pool::{ChannelPool, InvalidPool, PoolCloseReason, PoolError};

use super::support::{ADDRESS, Fixture, OTHER, SECOND, pool_error};

const THIRD: &str = "192.0.2.3:80";

#[test]
fn k12_no_more_connections_are_opened_than_allowed_for_an_address() {
    let fixture = Fixture::new(|pool| pool.max_open(2));
    let acquires: Vec<_> = (0..5).map(|_| fixture.pool.acquire(ADDRESS)).collect();
    let (_one, _two) = (fixture.accept(), fixture.accept());
    assert!(fixture.next_connect().is_none());
    let counts = fixture.counts();
    assert_eq!((counts.open, counts.leased, counts.waiting), (2, 2, 3));
    let (_other, _peer) = fixture.open(OTHER);
    drop(acquires);
    assert_eq!(fixture.counts().waiting, 0);
}

#[test]
fn k12_an_unbounded_pool_opens_a_connection_for_each_acquire() {
    let fixture = Fixture::new(|pool| pool.unbounded());
    let (leases, _peers): (Vec<_>, Vec<_>) = (0..100).map(|_| fixture.open(ADDRESS)).unzip();
    fixture.assert_at_rest(0, 100);
    drop(leases);
    fixture.assert_at_rest(100, 0);
}

#[test]
fn k12_an_acquire_beyond_the_waiting_limit_is_refused_with_the_limit() {
    let fixture = Fixture::new(|pool| pool.max_open(1).max_waiting(2));
    let (lease, _peer) = fixture.open(ADDRESS);
    let waiting = [fixture.pool.acquire(ADDRESS), fixture.pool.acquire(ADDRESS)];
    let refused = fixture.pool.acquire(ADDRESS);
    assert!(refused.is_done());
    let text = "2 acquires wait for a connection to 192.0.2.1:80 already (max_waiting 2): open 1 \
                (idle 0, leased 1, connecting 0, checking 0, closing 0), waiting 2";
    assert_eq!(refused.join().unwrap_err().to_string(), text);
    assert_eq!(fixture.pool.metrics().acquires_refused, 1);
    drop(lease);
    drop(waiting);
    fixture.assert_at_rest(1, 0);
}

#[test]
fn k12_acquires_for_which_a_connection_is_opened_do_not_count_as_waiting_too_long() {
    let fixture = Fixture::new(|pool| pool.max_open(2).max_waiting(0));
    let (one, other) = (fixture.pool.acquire(ADDRESS), fixture.pool.acquire(ADDRESS));
    let refused = fixture.pool.acquire(ADDRESS).join().unwrap_err();
    assert!(matches!(pool_error(&refused), PoolError::TooManyWaiting { max: 0, .. }));
    let _peers = (fixture.accept(), fixture.accept());
    drop((one.join().unwrap(), other.join().unwrap()));
    fixture.assert_at_rest(2, 0);
}

#[test]
fn k12_waiting_acquires_are_limited_over_all_addresses() {
    let fixture = Fixture::new(|pool| pool.max_open(1).max_waiting(2).max_waiting_total(3));
    let ((one, _one_peer), (other, _other_peer)) = (fixture.open(ADDRESS), fixture.open(OTHER));
    let mut waiting = vec![fixture.pool.acquire(ADDRESS), fixture.pool.acquire(OTHER)];
    waiting.push(fixture.pool.acquire(OTHER));
    let refused = fixture.pool.acquire(ADDRESS).join().unwrap_err();
    let error = pool_error(&refused);
    assert!(matches!(error, PoolError::TooManyWaitingInTotal { waiting: 3, max: 3, .. }));
    waiting.pop();
    waiting.push(fixture.pool.acquire(ADDRESS));
    assert!(!waiting[2].is_done());
    drop(waiting);
    drop((one, other));
    fixture.assert_at_rest(2, 0);
}

#[test]
fn k12_the_total_limit_holds_over_addresses_and_evicts_what_is_idle_longest() {
    let fixture = Fixture::new(|pool| pool.max_open_total(2));
    let (one, one_peer) = fixture.open(ADDRESS);
    let (other, other_peer) = fixture.open(OTHER);
    drop(other);
    drop(one);
    let third = fixture.pool.acquire(THIRD);
    fixture.settle();
    assert!(other_peer.is_closed() && !one_peer.is_closed(), "the one used longer ago is closed");
    let _peer = fixture.accept();
    let third = third.join().unwrap();
    assert_eq!(fixture.closed(PoolCloseReason::Evicted), 1);
    assert_eq!(fixture.counts().open, 2);
    drop(third);
    fixture.assert_at_rest(2, 0);
}

#[test]
fn k12_at_the_total_limit_a_connection_given_back_makes_room_for_another_address() {
    let fixture = Fixture::new(|pool| pool.max_open_total(1));
    let (lease, peer) = fixture.open(ADDRESS);
    let (other, third) = (fixture.pool.acquire(OTHER), fixture.pool.acquire(THIRD));
    assert!(fixture.next_connect().is_none());
    drop(lease);
    fixture.settle();
    assert!(peer.is_closed());
    let connect = fixture.next_connect().unwrap();
    assert_eq!(connect.target().unwrap().to_string(), OTHER, "it waited longest");
    let _peer = connect.accept();
    fixture.settle();
    drop(other.join().unwrap());
    let connect = fixture.next_connect().unwrap();
    assert_eq!(connect.target().unwrap().to_string(), THIRD);
    let _peer = connect.accept();
    fixture.settle();
    drop(third.join().unwrap());
    fixture.assert_at_rest(1, 0);
}

#[test]
fn k12_at_the_total_limit_a_failed_connect_gives_its_room_to_the_next() {
    let fixture = Fixture::new(|pool| pool.max_open_total(1));
    let (one, other) = (fixture.pool.acquire(ADDRESS), fixture.pool.acquire(OTHER));
    fixture.next_connect().unwrap().refuse(std::io::ErrorKind::ConnectionRefused);
    let _peer = fixture.accept();
    one.join().unwrap_err();
    drop(other.join().unwrap());
    fixture.assert_at_rest(1, 0);
}

#[test]
fn k12_the_builder_names_what_is_wrong() {
    let fixture = Fixture::new(|pool| pool);
    let bootstrap = waterwheel_channel::Bootstrap::new(&fixture.group, fixture.sockets.clone());
    let builder = || ChannelPool::builder(bootstrap.clone());
    let zero = std::time::Duration::ZERO;
    for (builder, error) in [
        (builder().max_open(0), InvalidPool::NoConnections { setting: "max_open" }),
        (builder().max_open_total(0), InvalidPool::NoConnections { setting: "max_open_total" }),
        (builder().max_open(2).min_idle(3), InvalidPool::MinIdle { min_idle: 3, max_open: 2 }),
        (builder().acquire_timeout(zero), InvalidPool::ZeroTime { setting: "acquire_timeout" }),
        (builder().idle_limit(zero), InvalidPool::ZeroTime { setting: "idle_limit" }),
        (builder().max_age(zero), InvalidPool::ZeroTime { setting: "max_age" }),
        (builder().age_jitter(100), InvalidPool::Jitter { percent: 100 }),
        (
            builder().on_created(zero, |_| async { Ok(()) }),
            InvalidPool::ZeroTime { setting: "on_created's limit" },
        ),
        (
            builder().check_while_idle(SECOND),
            InvalidPool::NoHealthCheck { setting: "check_while_idle" },
        ),
    ] {
        assert_eq!(builder.build().unwrap_err(), error);
    }
    let error = InvalidPool::NoConnections { setting: "max_open" };
    assert_eq!(error.to_string(), "max_open is 0: no connection could be opened");
}

#[test]
fn k12_no_more_is_evicted_than_acquires_wait() {
    let fixture = Fixture::new(|pool| pool.max_open_total(2));
    let ((one, _one_peer), (other, _other_peer)) = (fixture.open(ADDRESS), fixture.open(OTHER));
    drop((one, other));
    // The loop is busy: what is evicted stays open meanwhile.
    let (go, wait) = std::sync::mpsc::channel::<()>();
    fixture.event_loop(0).execute(move || wait.recv().unwrap()).unwrap();
    drop(fixture.pool.acquire(THIRD));
    let third = fixture.pool.acquire(THIRD);
    go.send(()).unwrap();
    let _peer = fixture.accept();
    drop(third.join().unwrap());
    assert_eq!(fixture.closed(PoolCloseReason::Evicted), 1);
    fixture.assert_at_rest(2, 0);
}
