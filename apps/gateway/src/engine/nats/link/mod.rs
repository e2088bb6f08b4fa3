//! A link: the connection to a server, and its pipeline; `states` makes it, keeps it alive and ends it.
//!
//! A server speaks first, in the clear. If TLS is wanted, it begins behind that greeting: TLS takes the place of the decoder and
//! is given the bytes that it has not read, so that nothing that was sent in the clear is taken for what came over TLS.

pub(super) mod server_info;
pub(super) mod server_list;
pub(super) mod states;

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use waterwheel::channel::{
    Bootstrap, Ctx, Decode, EventLoop, HandlerResult, In, InboundHandler, Msg, SlotId,
};
use waterwheel::codec::{NatsDecoder, NatsEncoder, NatsLimits, NatsOperation};
use waterwheel::executor::Error;
use waterwheel::net::Tcp;
use waterwheel::tls::rustls::pki_types::ServerName;
use waterwheel::tls::{ClientTls, TlsHandler, TlsHandshake};

use self::server_info::ServerInfo;
use super::events::{EngineEvent, EventQueue};
use super::url::NatsServer;

/// The largest payload that a server of NATS can be configured for. A smaller limit here would make a message that another
/// program has published unreadable, and the stream with it.
const MAX_PAYLOAD: usize = 64 << 20;

/// The parts of TLS that a link needs.
#[derive(Clone)]
pub(super) struct LinkTls {
    pub(super) config: ClientTls,
    pub(super) name: ServerName<'static>,
}

/// Connects to a server. The queue gets the outcome, and what follows, under this number.
pub(super) fn connect(
    event_loop: &EventLoop,
    server: &NatsServer,
    tls: Option<LinkTls>,
    timeout: Duration,
    (number, queue): (u64, &Arc<EventQueue>),
) {
    let to = queue.clone();
    let connected = Bootstrap::new(event_loop, Tcp)
        .connect_timeout(timeout)
        .initialiser(move |edit| {
            let decoder = edit.add_last("nats/decoder", decoder())?;
            edit.add_last("nats/encoder", NatsEncoder)?;
            edit.add_last(
                "link",
                In(LinkReader {
                    number,
                    queue: to.clone(),
                    decoder,
                    tls: tls.clone(),
                    greeting: Greeting::Awaited,
                    operations: Vec::new(),
                    cause: None,
                }),
            )?;
            Ok(())
        })
        .connect((server.host.as_str(), server.port));
    let to = queue.clone();
    connected.on_complete(move |outcome| to.push(EngineEvent::Connected(number, outcome)));
}

fn decoder() -> Decode<NatsDecoder> {
    let limits = NatsLimits { payload: MAX_PAYLOAD, headers: MAX_PAYLOAD, ..NatsLimits::default() };
    Decode::new(NatsDecoder::client(limits))
}

/// Hands the operations of a link to the engine, those of one read together.
struct LinkReader {
    number: u64,
    queue: Arc<EventQueue>,
    decoder: SlotId,
    tls: Option<LinkTls>,
    greeting: Greeting,
    operations: Vec<NatsOperation>,
    /// Why the link ends, if it is known.
    cause: Option<String>,
}

enum Greeting {
    Awaited,
    /// The server has greeted, and TLS is being established.
    Securing(Box<ServerInfo>),
    Done,
}

impl LinkReader {
    fn greeted(&mut self, ctx: &Ctx<'_>, json: &[u8]) -> HandlerResult {
        let info = Box::new(ServerInfo::parse(json).map_err(Error::new)?);
        match self.tls.take() {
            None if info.tls_required => {
                Err(Error::new("it requires TLS: engine.url has to begin with tls://"))
            }
            None => {
                self.finish_greeting(info);
                Ok(())
            }
            Some(_) if !info.tls_required && !info.tls_available => {
                Err(Error::new("it does not offer TLS, and engine.url begins with tls://"))
            }
            Some(LinkTls { config, name }) => {
                let tls = TlsHandler::client(config, name);
                self.decoder = ctx.pipeline().edit(|edit| {
                    edit.replace(self.decoder, "tls", tls)?;
                    edit.add_after("tls", "nats/secured-decoder", decoder())
                })?;
                self.greeting = Greeting::Securing(info);
                Ok(())
            }
        }
    }

    fn finish_greeting(&mut self, info: Box<ServerInfo>) {
        self.greeting = Greeting::Done;
        self.queue.push(EngineEvent::Greeted(self.number, info));
    }

    fn hand_on(&mut self) {
        if !self.operations.is_empty() {
            let operations = mem::take(&mut self.operations);
            self.queue.push(EngineEvent::Operations(self.number, operations));
        }
    }
}

impl InboundHandler for LinkReader {
    type In = NatsOperation;

    fn on_read(&mut self, ctx: &Ctx<'_>, operation: NatsOperation) -> HandlerResult {
        match (&self.greeting, operation) {
            (Greeting::Done, operation) => {
                self.operations.push(operation);
                Ok(())
            }
            (Greeting::Awaited, NatsOperation::Info(json)) => self.greeted(ctx, &json),
            (_, NatsOperation::Error(text)) => Err(Error::new(text.escape_ascii().to_string())),
            _ => {
                Err(Error::new("it sends something else than INFO first; is it a server of NATS?"))
            }
        }
    }

    fn on_read_complete(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.hand_on();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.is::<TlsHandshake>()
            && let Greeting::Securing(info) = mem::replace(&mut self.greeting, Greeting::Done)
        {
            self.finish_greeting(info);
        }
        ctx.fire_user_event(event);
        Ok(())
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        self.cause.get_or_insert_with(|| error.to_string());
        ctx.close();
        Ok(())
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.hand_on();
        let cause = self.cause.take().unwrap_or_else(|| "the connection was closed".to_owned());
        self.queue.push(EngineEvent::Lost(self.number, cause));
        Ok(())
    }
}
