//! Logs the events of a channel with their data (K06).
//!
//! ```text
//!   transport ⇄ … ⇄ wire log ⇄ …         an event passes ──► is the level enabled? ── no ──► passed on
//!                                                                  └ yes ─► formatted by the subscriber, passed on
//! ```
//!
//! 1. Every event that passes is logged, inbound and outbound, before it is passed on: what a handler further in does
//!    in response comes after it in the log. Messages, results and completions are passed on unchanged.
//! 2. While no `tracing` subscriber wants the level and target, an event costs one load and a comparison; nothing is
//!    formatted or allocated. While one does, the subscriber formats the line; this handler allocates nothing.
//! 3. Data of a peer are escaped, and limited for each event: [`DEFAULT_SHOWN_BYTES`]. The number of lines is not: there
//!    is one for each event.
//! 4. No borrow is held while a subscriber runs. A `Debug` implementation or a subscriber that panics closes the channel,
//!    as a panic of any handler does.
//!
//! The handler has no state: it may be added and removed at any time, and any number of times.

mod escaped;
mod event_line;
mod hex_dump;
mod log_site;

use std::fmt;
use std::sync::Arc;

use tracing::Level;
use tracing::field::{Value, display};
use waterwheel_channel::{
    Address, Completion, ConnectTarget, Ctx, Events, Handler, HandlerResult, Message, Msg,
    Signature,
};
use waterwheel_executor::Error;

use self::escaped::EscapedText;
use self::event_line::{DataFormat, DebugOf, EventData, EventLine, MIN_TEXT};
use self::log_site::LogSite;

/// Bytes of each message that a wire log shows by default.
pub const DEFAULT_SHOWN_BYTES: usize = 512;

/// The `tracing` target of a wire log by default.
pub const DEFAULT_WIRE_TARGET: &str = "waterwheel::wire";

/// Logs every event of a channel with its data through `tracing`: as one line, or with a hex dump.
///
/// A line has the event's name as in [`Events`], its data, and the fields `channel`, `local` and `peer`; a subscriber
/// that prints fields in their order prints, for example:
///
/// ```text
/// DEBUG waterwheel::wire: channel=7 local=127.0.0.1:7000 peer=127.0.0.1:50112 READ 7 bytes "hello\r\n"
/// ```
///
/// Bytes, texts, datagrams, ancillary messages and file regions are shown with their data. A message of another type is
/// shown by its type's name, or by its `Debug` after [`show`](WireLogBuilder::show).
///
/// The handler shows what passes its place in the pipeline: added first, the bytes of the transport; after a codec, the
/// codec's messages. A clone logs the same way: build one when the program starts, and add a clone to each channel.
///
/// ```
/// use tracing::Level;
/// use waterwheel_handlers::WireLog;
/// use waterwheel_testkit::embedded::Embedded;
///
/// let wire_log = WireLog::builder().level(Level::TRACE).target("my_server::wire").hex_dump().build();
/// let mut channel = Embedded::new(|edit| {
///     edit.add_last("wire-log", wire_log.clone())?;
///     Ok(())
/// })?;
/// channel.write_inbound(String::from("hello"));
/// assert_eq!(channel.read_inbound::<String>().unwrap(), "hello");
/// # Ok::<(), waterwheel_executor::Error>(())
/// ```
#[derive(Clone)]
pub struct WireLog {
    site: &'static LogSite,
    level: Level,
    events: Events,
    is_hex_dump: bool,
    max_bytes: usize,
    shown: Arc<[DebugOf]>,
}

impl WireLog {
    /// Returns a wire log of all events at level `DEBUG`, one line for each.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder with the defaults of [`new`](Self::new).
    pub fn builder() -> WireLogBuilder {
        WireLogBuilder {
            level: Level::DEBUG,
            target: DEFAULT_WIRE_TARGET.into(),
            events: Events::ALL,
            is_hex_dump: false,
            max_bytes: DEFAULT_SHOWN_BYTES,
            shown: Vec::new(),
        }
    }

    /// Logs an event if a subscriber wants it.
    #[inline]
    fn log(&self, ctx: &Ctx<'_>, name: &'static str, data: EventData<'_>) {
        if self.site.is_enabled() {
            self.log_enabled(ctx, name, data);
        }
    }

    #[cold]
    fn log_enabled(&self, ctx: &Ctx<'_>, name: &'static str, data: EventData<'_>) {
        let channel = ctx.channel();
        let max = self.max_bytes.max(MIN_TEXT);
        let escaped = |text| display(EscapedText { text, max });
        let id = display(channel.id());
        let local = channel.local_address().map(escaped);
        let peer = channel.peer_address().map(escaped);
        let format = DataFormat {
            is_hex_dump: self.is_hex_dump,
            max_bytes: self.max_bytes,
            shown: &self.shown,
        };
        let line = display(EventLine { name, data, format });
        let local = local.as_ref().map(|local| local as &dyn Value);
        let peer = peer.as_ref().map(|peer| peer as &dyn Value);
        self.site.log([Some(&id), local, peer, Some(&line)]);
    }
}

impl Default for WireLog {
    fn default() -> Self {
        Self::new()
    }
}

impl Handler for WireLog {
    fn interest(&self) -> Events {
        self.events
    }

    fn signature(&self) -> Signature {
        Signature::transparent()
    }

    fn on_registered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.log(ctx, "REGISTERED", EventData::None);
        ctx.fire_registered();
        Ok(())
    }

    fn on_unregistered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.log(ctx, "UNREGISTERED", EventData::None);
        ctx.fire_unregistered();
        Ok(())
    }

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.log(ctx, "ACTIVE", EventData::None);
        ctx.fire_active();
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.log(ctx, "INACTIVE", EventData::None);
        ctx.fire_inactive();
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.log(ctx, "READ", EventData::Inbound(&msg));
        ctx.fire_read(msg);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.log(ctx, "READ_COMPLETE", EventData::None);
        ctx.fire_read_complete();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        self.log(ctx, "USER_EVENT", EventData::UserEvent(&event));
        ctx.fire_user_event(event);
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.log(ctx, "WRITABILITY_CHANGED", EventData::Writability(ctx.is_writable()));
        ctx.fire_writability_changed();
        Ok(())
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        self.log(ctx, "ERROR", EventData::Error(&error));
        ctx.fire_error(error);
        Ok(())
    }

    fn bind(&mut self, ctx: &Ctx<'_>, to: Address, done: &mut Completion) -> HandlerResult {
        self.log(ctx, "BIND", EventData::Address(&to));
        ctx.bind_with(to, done.take());
        Ok(())
    }

    fn connect(
        &mut self,
        ctx: &Ctx<'_>,
        to: ConnectTarget,
        done: &mut Completion,
    ) -> HandlerResult {
        self.log(ctx, "CONNECT", EventData::Target(&to));
        ctx.connect_with(to, done.take());
        Ok(())
    }

    fn disconnect(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.log(ctx, "DISCONNECT", EventData::None);
        ctx.disconnect_with(done.take());
        Ok(())
    }

    fn close(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.log(ctx, "CLOSE", EventData::None);
        ctx.close_with(done.take());
        Ok(())
    }

    fn deregister(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.log(ctx, "DEREGISTER", EventData::None);
        ctx.deregister_with(done.take());
        Ok(())
    }

    fn shutdown_output(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.log(ctx, "SHUTDOWN_OUTPUT", EventData::None);
        ctx.shutdown_output_with(done.take());
        Ok(())
    }

    fn read(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.log(ctx, "BEGIN_READ", EventData::None);
        ctx.read();
        Ok(())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        self.log(ctx, "WRITE", EventData::Outbound(&msg));
        ctx.write_with(msg, done.take());
        Ok(())
    }

    fn flush(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.log(ctx, "FLUSH", EventData::None);
        ctx.flush();
        Ok(())
    }
}

impl fmt::Debug for WireLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireLog")
            .field("level", &self.level)
            .field("events", &self.events)
            .field("is_hex_dump", &self.is_hex_dump)
            .field("max_bytes", &self.max_bytes)
            .finish_non_exhaustive()
    }
}

/// Builds a [`WireLog`].
#[must_use]
#[derive(Clone)]
pub struct WireLogBuilder {
    level: Level,
    target: Box<str>,
    events: Events,
    is_hex_dump: bool,
    max_bytes: usize,
    shown: Vec<DebugOf>,
}

impl WireLogBuilder {
    /// Sets the level of the lines. Default: `DEBUG`.
    pub fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Sets the target of the lines, by which subscribers filter. Default: [`DEFAULT_WIRE_TARGET`].
    ///
    /// `tracing` keeps each pair of level and target until the process ends: use a few fixed names, not one for each
    /// connection.
    pub fn target(mut self, target: impl Into<Box<str>>) -> Self {
        self.target = target.into();
        self
    }

    /// Shows bytes as a hex dump after the line, in the format of `hexdump -C`, instead of as a quoted text within it.
    pub fn hex_dump(mut self) -> Self {
        self.is_hex_dump = true;
        self
    }

    /// Limits the bytes that are shown of each message, and the characters of its `Debug`. Escaped, a byte takes up to
    /// four characters, and five in a hex dump; any other character up to ten. Zero shows lengths alone. Default:
    /// [`DEFAULT_SHOWN_BYTES`]. Of an error and of an address at least 256 characters are shown.
    pub fn max_bytes(mut self, max: usize) -> Self {
        self.max_bytes = max;
        self
    }

    /// Logs only these events; all others skip the handler at no cost. Default: all.
    pub fn events(mut self, events: Events) -> Self {
        self.events = events;
        self
    }

    /// Shows messages and user events of type `T` by their `Debug`, instead of by the name of their type.
    pub fn show<T: Message + fmt::Debug>(mut self) -> Self {
        self.shown.push(|msg| msg.get::<T>().map(|value| value as _));
        self
    }

    /// Builds the handler.
    #[must_use]
    pub fn build(self) -> WireLog {
        let Self { level, target, events, is_hex_dump, max_bytes, shown } = self;
        let site = LogSite::with(level, &target);
        WireLog { site, level, events, is_hex_dump, max_bytes, shown: shown.into() }
    }
}

impl fmt::Debug for WireLogBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireLogBuilder")
            .field("level", &self.level)
            .field("target", &self.target)
            .field("events", &self.events)
            .field("is_hex_dump", &self.is_hex_dump)
            .field("max_bytes", &self.max_bytes)
            .finish_non_exhaustive()
    }
}
