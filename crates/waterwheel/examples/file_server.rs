//! Sends a file to each client, then closes the connection.
//!
//! ```sh
//! cargo run --release -p waterwheel --example file_server -- 7000 README.md
//! nc localhost 7000 | head        # in another terminal
//! ```
//!
//! Shows a `FileRegion`: the kernel sends the file (sendfile), and its bytes never enter this process. The file is
//! opened once for all connections.

use std::error::Error;
use std::fs::File;
use std::sync::Arc;

use waterwheel::channel::{
    Ctx, EventLoopGroup, FileRegion, Handler, HandlerResult, ServerBootstrap,
};
use waterwheel::net::{Auto, Tcp};

struct SendFile(Arc<File>);

impl Handler for SendFile {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        // The current length: the file may have grown.
        let file = FileRegion::whole(self.0.clone())?;
        let (channel, bytes) = (ctx.channel(), file.len());
        ctx.write_then(file, move |sent| {
            match sent {
                Ok(()) => println!("{bytes} bytes to {channel:?}"),
                Err(error) => println!("{channel:?}: {error}"),
            }
            drop(channel.close());
        });
        ctx.flush();
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(port), Some(path)) = (args.next(), args.next()) else {
        return Err("usage: file_server PORT PATH".into());
    };
    let port: u16 = port.parse().map_err(|_| format!("{port} is not a port number"))?;
    let file = Arc::new(File::open(&path).map_err(|error| format!("{path}: {error}"))?);
    FileRegion::whole(file.clone())?; // Fails now if the file cannot be sent, and not at the first connection.
    let group = EventLoopGroup::builder(Auto).name("files").build()?;
    let server = ServerBootstrap::new(&group, Tcp)
        .child_initialiser(move |edit| {
            edit.add_last("file", SendFile(file.clone()))?;
            Ok(())
        })
        .bind(("127.0.0.1", port))
        .join()?;
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    server.closed().join()?;
    Ok(())
}
