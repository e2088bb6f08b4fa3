//! A TCP proxy: forwards connections to another server in both directions.
//!
//! ```sh
//! cargo run --release -p waterwheel --example proxy -- 127.0.0.1:7001 127.0.0.1:7000 # from, to
//! ```
//! Shows back-pressure: a side is read only while the other one is writable, so that a slow reader slows down its
//! writer and costs no memory. A half-close is forwarded, and the other direction continues. When one side is closed,
//! the other is closed after its pending bytes are written.
//!
//! ```text
//!   client ⇄ front ⇄ back ⇄ target            two channels on one loop, a `Forward` in each
//! ```

use std::error::Error;
use std::net::{SocketAddr, ToSocketAddrs};

use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Channel, ChannelOptions, Ctx, EventLoopGroup, HalfClosed, Handler, HandlerResult, Msg,
    NewChannel, PauseReads, ServerBootstrap, Stream,
};
use waterwheel::net::{Auto, Tcp};

/// Forwards everything that it reads to the other channel.
struct Forward(Channel);

impl Handler for Forward {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.0.send(msg);
        if !self.0.is_writable() {
            ctx.channel().set_auto_read(false);
        }
        Ok(())
    }

    /// Reads the other side while this one is writable.
    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.set_auto_read(ctx.is_writable());
        Ok(())
    }

    fn on_user_event(&mut self, _: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.get() == Some(&HalfClosed::Input) {
            drop(self.0.shutdown_output());
        }
        Ok(())
    }

    /// Closes the other side after its pending writes: an empty message completes when everything before it is written.
    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        let other = self.0.clone();
        self.0.write_and_flush(Bytes::new()).on_complete(move |_| drop(other.close()));
        Ok(())
    }
}

/// Connects to the target for each accepted connection, whose reads start when the connect has succeeded.
struct ConnectTarget(SocketAddr);

impl Handler for ConnectTarget {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let (front, target) = (ctx.channel(), self.0);
        let back = NewChannel::new(Stream::new(Tcp)).options(side_options());
        let back = ctx.event_loop().register_with(back, |edit| {
            edit.add_last("side", Forward(front.clone()))?;
            Ok(())
        })?;
        let side = Forward(back.clone());
        ctx.pipeline().edit(|edit| edit.add_last("side", side).map(drop))?;
        back.connect(target).on_complete(move |connected| match connected {
            Ok(()) => front.set_auto_read(true),
            Err(error) => {
                eprintln!("{error}");
                drop((front.close(), back.close()));
            }
        });
        Ok(())
    }
}

/// Returns the options of both sides. A side is read while the *other* one is writable, even if it is not writable
/// itself: the two directions are independent.
fn side_options() -> ChannelOptions {
    ChannelOptions {
        allow_half_closure: true,
        pause_reads_while_unwritable: PauseReads::Never,
        ..ChannelOptions::default()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(listen), Some(target)) = (args.next(), args.next()) else {
        return Err("usage: proxy LISTEN TARGET, two addresses".into());
    };
    let mut addresses = target.to_socket_addrs().map_err(|error| format!("{target}: {error}"))?;
    let target = addresses.next().ok_or("the target has no address")?;
    let group = EventLoopGroup::builder(Auto).name("proxy").build()?;
    let server = ServerBootstrap::new(&group, Tcp)
        .child_options(ChannelOptions { auto_read: false, ..side_options() })
        .child_initialiser(move |edit| {
            Ok(edit.add_last("connect", ConnectTarget(target)).map(drop)?)
        })
        .bind(listen)
        .join()?;
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    Ok(server.closed().join()?)
}
