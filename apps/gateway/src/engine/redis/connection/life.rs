//! The life of the engine: connects, keeps the connection alive, and connects again.
//!
//! ```text
//!            connect, open                     lost, silent, redirected
//!   Away ───────────────────► Live: a beat now and then ───────────────► Away, after a pause that grows
//!    ▲   failed: the next address                                         │
//!    └────────────────────────────────────────────────────────────────────┘
//! ```

use std::sync::Arc;

use waterwheel::channel::{Bootstrap, Channel, ChannelOptions, Decode, In, sleep, timeout};
use waterwheel::codec::{RespCommand, RespDecoder, RespLimits};
use waterwheel::net::Tcp;
use waterwheel::tls::{ClientTls, TlsHandler};

use super::address::{AddressBook, RedisAddress};
use super::call_queue::{ExpectedAnswer, RedisCall};
use super::handshake::{self, OpenedConnection};
use super::incoming::RedisHandler;
use crate::engine::redis::limits::{
    CHANNELS_PER_CALL, FIRST_BACK_OFF, MAX_BACK_OFF, MAX_BEAT, MAX_REDIRECTS, MIN_BEAT,
};
use crate::engine::redis::options::server_name;
use crate::engine::redis::scripts::error_reply::NAME;
use crate::engine::redis::scripts::{RedisScript, ScriptContext};
use crate::engine::redis::shared::{EnginePhase, RedisConnection, RedisShared, RedisState};
use crate::engine::remote::back_off::{BackOff, random};

/// Runs until the engine is closed.
pub(in crate::engine::redis) async fn run(shared: Arc<RedisShared>, tls: Option<ClientTls>) {
    let mut life = EngineLife {
        book: AddressBook::new(&shared.options.url),
        tls,
        last_number: 0,
        shared,
        back_off: BackOff::new(FIRST_BACK_OFF, MAX_BACK_OFF),
        redirects: 0,
    };
    while !life.is_closed() {
        let end = life.connect_once().await;
        if life.is_closed() {
            return;
        }
        life.pause_after(&end).await;
    }
}

struct EngineLife {
    shared: Arc<RedisShared>,
    tls: Option<ClientTls>,
    book: AddressBook,
    last_number: u64,
    /// Begins again when the engine is live.
    back_off: BackOff,
    /// Redirections since the engine was live or has paused.
    redirects: u32,
}

/// The end of a connection, or of an attempt.
struct AttemptEnd {
    reason: String,
    /// True if the server has named the one that has the data.
    is_redirected: bool,
}

impl EngineLife {
    fn is_closed(&self) -> bool {
        self.shared.lock().phase == EnginePhase::Closed
    }

    /// Connects, and keeps the connection until it ends.
    async fn connect_once(&mut self) -> AttemptEnd {
        let address = self.book.current();
        let limit = self.shared.options.timeout;
        self.last_number += 1;
        let number = self.last_number;
        let channel = match self.connect(&address, number).await {
            Ok(channel) => channel,
            Err(reason) => {
                self.book.advance();
                let reason = format!("{address}: {reason}");
                return AttemptEnd { reason, is_redirected: false };
            }
        };
        if !self.attach(&channel, number) {
            channel.close_without_future();
            let reason = format!("{address}: the connection was closed at once");
            return AttemptEnd { reason, is_redirected: false };
        }
        let opened = timeout(limit, handshake::open(&self.shared, number, &address)).await;
        let reason = match opened {
            Ok(Ok(opened)) => {
                self.go_live(number, &address, opened);
                self.keep(&channel, number).await
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer to the first commands within {limit:?}"),
        };
        self.shared.detach(number, &reason);
        // The detach may have found that the connection had ended before, for a better reason.
        let reason = format!("{address}: {}", self.shared.lock().trouble);
        let redirect = self.shared.lock().redirect.take();
        let next = redirect.and_then(|text| RedisAddress::of_redirect(&text, &address));
        let is_redirected = next.is_some();
        match next {
            Some(next) => self.book.prefer(next),
            None => self.book.advance(),
        }
        AttemptEnd { reason, is_redirected }
    }

    async fn connect(&self, address: &RedisAddress, number: u64) -> Result<Channel, String> {
        let shared = Arc::clone(&self.shared);
        let tls = match &self.tls {
            Some(tls) => {
                Some((tls.clone(), server_name(&address.host).map_err(|e| e.to_string())?))
            }
            None => None,
        };
        let options = ChannelOptions {
            connect_timeout: Some(self.shared.options.timeout),
            ..ChannelOptions::default()
        };
        let bootstrap = Bootstrap::new(&self.shared.event_loop, Tcp).options(options).initialiser(
            move |edit| {
                if let Some((tls, name)) = &tls {
                    edit.add_last("tls", TlsHandler::client(tls.clone(), name.clone()))?;
                }
                let decoder = RespDecoder::new(RespLimits::default());
                edit.add_last("resp", Decode::new(decoder))?;
                let shared = Arc::clone(&shared);
                edit.add_last("redis-engine", In(RedisHandler { shared, number }))?;
                Ok(())
            },
        );
        let target = address.to_string();
        bootstrap.connect(target.as_str()).await.map_err(|error| error.to_string())
    }

    /// Makes a channel the connection of the engine. Returns false if one of them was closed meanwhile.
    fn attach(&self, channel: &Channel, number: u64) -> bool {
        let context = ScriptContext { key: String::new(), run: String::new(), is_cluster: false };
        let mut state = self.shared.lock();
        if state.phase == EnginePhase::Closed || !channel.is_open() {
            return false;
        }
        state.redirect = None;
        state.has_beat = false;
        state.beat_duration = None;
        state.silent_since = self.shared.clock.now();
        state.connection = Some(RedisConnection {
            channel: channel.clone(),
            number,
            context: Arc::new(context),
            node: new_node(),
            is_node_known: false,
        });
        true
    }

    /// Subscribes again, tells the sink what it may have missed, and accepts calls.
    fn go_live(&mut self, number: u64, address: &RedisAddress, opened: OpenedConnection) {
        self.book.learn(opened.nodes);
        let (missed, waiting, must_wake) = {
            let mut state = self.shared.lock();
            let is_current = state.connection.as_ref().is_some_and(|now| now.number == number);
            if !is_current || state.phase == EnginePhase::Closed {
                return;
            }
            let must_wake = self.shared.subscribe_all(&mut state);
            state.phase = EnginePhase::Live;
            state.trouble = format!("connected to {address}, Redis {}", opened.version);
            let missed = state.progress.on_connected(opened.position);
            if missed.is_some() {
                state.reconnects += 1;
            }
            (missed, std::mem::take(&mut state.waiting_for_connection), must_wake)
        };
        self.back_off.reset();
        self.redirects = 0;
        tracing::info!(engine = NAME, "the engine is connected to {address}");
        self.shared.wake_writer(must_wake);
        // Before the first message of this connection: none is read before this returns.
        self.shared.tell_missed(missed);
        for promise in waiting {
            promise.set_success(());
        }
    }

    /// Keeps a connection until it ends. Returns the reason.
    async fn keep(&self, channel: &Channel, number: u64) -> String {
        let limit = self.shared.options.timeout;
        let pause = (limit / 4).clamp(MIN_BEAT, MAX_BEAT);
        let mut is_first = true;
        loop {
            let must_renew = {
                let mut state = self.shared.lock();
                let since = state.silent_since;
                if !state.calls.is_empty() && self.shared.clock.now().since(since) > limit {
                    return format!("no sign of life for {limit:?}");
                }
                std::mem::take(&mut state.must_renew_notes) || is_first
            };
            if must_renew {
                let renewed = self.shared.renew_notes(number, is_first);
                if let Err(error) = renewed.await {
                    return error.to_string();
                }
            }
            is_first = false;
            self.shared.beat(number);
            if timeout(pause, channel.closed()).await.is_ok() {
                return "Redis has closed the connection".to_owned();
            }
        }
    }

    /// Waits before the next attempt, longer after each one.
    async fn pause_after(&mut self, end: &AttemptEnd) {
        if self.back_off.is_first() && !end.is_redirected {
            tracing::warn!(
                engine = NAME,
                "the engine is not available, connecting again: {}",
                end.reason
            );
        }
        {
            let mut state = self.shared.lock();
            if state.phase != EnginePhase::Closed {
                end.reason.clone_into(&mut state.trouble);
            }
        }
        if end.is_redirected && self.redirects < MAX_REDIRECTS {
            self.redirects += 1;
            return;
        }
        self.redirects = 0;
        sleep(self.back_off.next_delay(random())).await;
    }
}

impl RedisShared {
    /// Adds the commands that subscribe to all channels. Returns true if the writer has to be woken.
    fn subscribe_all(&self, state: &mut RedisState) -> bool {
        let prefix = self.options.key_prefix();
        let channels: Vec<_> =
            state.subscriptions.channels().map(|channel| format!("{prefix}{channel}")).collect();
        let mut must_wake = false;
        for channels in channels.chunks(CHANNELS_PER_CALL) {
            must_wake |= self.push_subscription(state, true, channels);
        }
        must_wake
    }

    /// Adds a command that subscribes to channels or unsubscribes from them. Returns true if the writer has to be woken.
    pub(in crate::engine::redis) fn push_subscription(
        &self,
        state: &mut RedisState,
        subscribes: bool,
        channels: &[String],
    ) -> bool {
        let Some(connection) = &state.connection else { return false };
        let name = match (connection.context.is_cluster, subscribes) {
            (false, true) => "SUBSCRIBE",
            (false, false) => "UNSUBSCRIBE",
            (true, true) => "SSUBSCRIBE",
            (true, false) => "SUNSUBSCRIBE",
        };
        let words: Vec<&str> =
            std::iter::once(name).chain(channels.iter().map(String::as_str)).collect();
        let expected = ExpectedAnswer::Confirmations(channels.len());
        let command = RespCommand::new(&words);
        self.push(state, RedisCall { command, script: None, is_read: false, expected })
    }

    /// Keeps the notes of this gateway alive, and asks for the position. Without an answer to the beat before, none is sent:
    /// what Redis has not answered is enough to notice that it is silent.
    pub(in crate::engine::redis) fn beat(self: &Arc<Self>, number: u64) {
        let must_wake = {
            let mut state = self.lock();
            let Some(connection) = &state.connection else { return };
            if connection.number != number || state.has_beat {
                return;
            }
            let millis = self.options.presence.as_millis().to_string();
            let arguments = [connection.node.as_bytes(), millis.as_bytes()];
            let command =
                connection.context.command(RedisScript::Beat, self.new_epoch(), &arguments);
            let script = Some(RedisScript::Beat);
            state.has_beat = true;
            state.beat_time = self.clock.now();
            self.push(
                &mut state,
                RedisCall { command, script, is_read: false, expected: ExpectedAnswer::Beat },
            )
        };
        self.wake_writer(must_wake);
    }
}

/// Returns a name under which Redis keeps the notes of a gateway.
pub(in crate::engine::redis) fn new_node() -> String {
    format!("{:08x}{:08x}", random(), random())
}
