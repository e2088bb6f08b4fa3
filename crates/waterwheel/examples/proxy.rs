//! Passes connections on to another server, in both directions.
//!
//! ```sh
//! cargo run --release -p waterwheel --example proxy -- 127.0.0.1:7001 127.0.0.1:7000 # from, to
//! ```
//! It shows back-pressure: a side is read only while the other takes what was read, so that a slow reader
//! slows its writer down, and costs no memory. The end of one direction is passed on, and the other goes on;
//! when one side is gone, the other is closed as soon as it has got what was on its way.
//!
//! ```text
//!   client ⇄ front ⇄ back ⇄ target            two channels on one loop, a `Side` in each
//! ```

use std::error::Error;
use std::net::{SocketAddr, ToSocketAddrs};

use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Channel, ChannelOptions, Ctx, EventLoopGroup, HalfClosed, Handler, HandlerResult, Msg,
    NewChannel, PauseReads, ServerBootstrap, Stream,
};
use waterwheel::net::{Auto, Tcp};

/// One side; what it reads goes to the other.
struct Side(Channel);

impl Handler for Side {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.0.send(msg);
        if !self.0.is_writable() {
            ctx.channel().set_auto_read(false);
        }
        Ok(())
    }

    /// There is room here again: the other side may be read.
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

    /// An empty message is written when everything before it is.
    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        let other = self.0.clone();
        self.0.write_and_flush(Bytes::new()).on_complete(move |_| drop(other.close()));
        Ok(())
    }
}

/// Makes the other side of a connection. It is not read before there is one.
struct Door(SocketAddr);

impl Handler for Door {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let (front, target) = (ctx.channel(), self.0);
        let back = NewChannel::new(Stream::new(Tcp)).options(of_a_side());
        let back = ctx.event_loop().register_with(back, |edit| {
            edit.add_last("side", Side(front.clone()))?;
            Ok(())
        })?;
        let side = Side(back.clone());
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

/// Of both sides. A side is read while the *other* takes what was read, whether it is writable itself or not: the two
/// directions are independent.
fn of_a_side() -> ChannelOptions {
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
        .child_options(ChannelOptions { auto_read: false, ..of_a_side() })
        .child_initialiser(move |edit| Ok(edit.add_last("door", Door(target)).map(drop)?))
        .bind(listen)
        .join()?;
    println!("listening on {}", server.local_address().ok_or("it is bound")?);
    Ok(server.closed().join()?)
}
