//! Channels within the process: a server and a client, each with a pipeline of its own.

use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use waterwheel::channel::driver::TaskOnly;
use waterwheel::channel::local::{self, Connection};
use waterwheel::channel::{
    Address, Completion, Ctx, EventLoopGroup, HandlerResult, In, InboundHandler, NewChannel, Out,
    OutboundHandler, Pipeline, PipelineError, Types,
};
use waterwheel::executor::Error;

use crate::Outcome;
use crate::show::{LIMIT, chapter, thread_name};

pub(crate) fn visit() -> Outcome {
    let group = EventLoopGroup::builder(TaskOnly).threads(2).name("channels").build()?;

    chapter("Channels: a server, a client, and a pipeline each");
    let server = local::listen("counter")?.initialiser(|edit| {
        edit.add_last("accept", In(Accept))?;
        Ok(())
    });
    let server = group.register(server).join()?;

    let (heard, answers) = mpsc::channel();
    let client = NewChannel::new(Connection::new()).initialiser(|edit| {
        edit.add_last("listen", In(Listen(heard)))?;
        Ok(())
    });
    let client = group.register(client).join()?;
    client.connect(Address::local("counter")).join()?;
    for word in ["wheel", "water", "millstone"] {
        client.write_and_flush(word.to_owned()).join()?;
        println!("  {}", answers.recv_timeout(LIMIT)?);
    }

    chapter("A pipeline is changed while the channel runs");
    let add = |pipeline: Pipeline<'_>| {
        pipeline.add_last("shout", Out(Shout))?;
        Ok::<_, PipelineError>(pipeline.names())
    };
    let names = client.with_pipeline(add).join()??;
    println!("  the client's handlers: {}", names.join(", "));
    client.write_and_flush("quietly".to_owned()).join()?;
    println!("  {}", answers.recv_timeout(LIMIT)?);

    chapter("Closing one end closes the other");
    server.close().join()?;
    client.close().join()?;
    println!("  {client:?}, {server:?}");
    group.shutdown_gracefully(Duration::ZERO, LIMIT)?.join()?;
    Ok(())
}

/// The server's: gives every connection a handler, on the loop it came in on.
struct Accept;

impl InboundHandler for Accept {
    type In = NewChannel;

    fn on_read(&mut self, ctx: &Ctx<'_>, connection: NewChannel) -> HandlerResult {
        ctx.event_loop().register_with(connection, |edit| {
            edit.add_last("count", In(Count { letters: 0 }))?;
            Ok(())
        })?;
        Ok(())
    }
}

/// Counts what it reads. It lives on one loop, and needs no lock.
struct Count {
    letters: usize,
}

impl InboundHandler for Count {
    type In = String;

    fn answers(&self) -> Types {
        Types::of::<String>()
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, word: String) -> HandlerResult {
        self.letters += word.len();
        let on = thread_name();
        ctx.write_and_flush(format!("{word}: {} letters so far, counted on {on}", self.letters));
        Ok(())
    }
}

/// The client's: hands answers to whoever waits for them.
struct Listen(Sender<String>);

impl InboundHandler for Listen {
    type In = String;

    fn on_read(&mut self, _: &Ctx<'_>, answer: String) -> HandlerResult {
        self.0.send(answer).map_err(Error::new)
    }
}

/// Makes everything that goes out louder.
struct Shout;

impl OutboundHandler for Shout {
    type In = String;

    fn write(&mut self, ctx: &Ctx<'_>, msg: String, done: &mut Completion) -> HandlerResult {
        ctx.write_with(msg.to_uppercase(), done.take());
        Ok(())
    }
}
