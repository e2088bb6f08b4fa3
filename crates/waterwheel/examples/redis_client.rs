//! A Redis client: tasks on several loops share a pool of connections, and each sends its commands as one pipeline.
//!
//! ```sh
//! cargo run --release -p waterwheel --example redis_client -- localhost:6379
//! cargo run --release -p waterwheel --example redis_client -- localhost:6379 16 10000   # tasks, rounds of each
//! ```
//!
//! Shows a `ChannelPool` with a login and a health check, a handler that matches replies to requests, and
//! `Lease::set_reusable`: a connection whose exchange was not finished is not used again. The program survives a restart
//! of the server, and one that falls silent: rounds that fail or take too long are repeated.

use std::collections::VecDeque;
use std::error::Error as StdError;
use std::time::Duration;

use waterwheel::channel::{
    Bootstrap, Channel, Completion, Ctx, Decode, EventLoopGroup, Handler, HandlerResult, Message,
    Msg, sleep, timeout,
};
use waterwheel::codec::{RespCommand, RespDecoder, RespEncoder, RespValue};
use waterwheel::executor::{Error, Promise, PromiseFuture};
use waterwheel::net::{Auto, Tcp};
use waterwheel::pool::ChannelPool;

const SECOND: Duration = Duration::from_secs(1);

/// Commands to be sent together, and the promise of their replies.
struct Request {
    commands: Vec<RespCommand>,
    replies: Promise<Vec<RespValue>>,
}

impl Message for Request {
    fn size_hint(&self) -> usize {
        self.commands.iter().map(Message::size_hint).sum()
    }
}

/// Writes the commands of requests, and collects their replies: Redis answers in order.
#[derive(Default)]
struct MatchReplies {
    /// Replies that are missing, replies that have come, and the promise.
    requests: VecDeque<(usize, Vec<RespValue>, Promise<Vec<RespValue>>)>,
}

impl Handler for MatchReplies {
    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, _: &mut Completion) -> HandlerResult {
        let request = msg.take::<Request>().map_err(|_| Error::new("only requests are written"))?;
        self.requests.push_back((request.commands.len(), Vec::new(), request.replies));
        request.commands.into_iter().for_each(|command| ctx.write(command));
        Ok(())
    }

    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let reply = msg.take::<RespValue>().map_err(|_| Error::new("only replies are read"))?;
        let Some((missing, replies, _)) = self.requests.front_mut() else {
            return Err(Error::new("a reply without a request"));
        };
        replies.push(reply);
        *missing -= 1;
        if *missing == 0
            && let Some((_, replies, promise)) = self.requests.pop_front()
        {
            promise.set_success(replies);
        }
        Ok(())
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        for (_, _, promise) in self.requests.drain(..) {
            promise.set_failure(error.clone());
        }
        ctx.close();
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.on_error(ctx, Error::closed("the server has closed the connection"))
    }
}

/// Sends commands together, and returns the future of their replies.
fn send(channel: &Channel, commands: &[&[&str]]) -> PromiseFuture<Vec<RespValue>> {
    let (replies, future) = channel.event_loop().new_promise();
    let commands = commands.iter().map(|words| RespCommand::new(words)).collect();
    channel.send(Msg::new(Request { commands, replies }));
    future
}

/// Sends commands together, and waits for their replies; an error among them is an error.
async fn exchange(channel: &Channel, commands: &[&[&str]]) -> Result<Vec<RespValue>, Error> {
    let replies = timeout(2 * SECOND, send(channel, commands)).await;
    let replies = replies.map_err(|_| Error::new("the server does not answer"))??;
    match replies.iter().find(|reply| matches!(reply, RespValue::Error(_))) {
        Some(error) => Err(Error::new(format!("the server answers {error:?}"))),
        None => Ok(replies),
    }
}

/// One round of a task.
async fn round(pool: &ChannelPool, server: &str, task: usize) -> Result<Vec<RespValue>, Error> {
    let mut lease = pool.acquire(server).await?;
    lease.set_reusable(false); // If this future is dropped here, the next user must not get our replies.
    let (key, value) = (format!("task:{task}"), format!("hello from {task}"));
    let commands: [&[&str]; 3] = [&["SET", &key, &value], &["GET", &key], &["INCR", "rounds"]];
    let replies = exchange(&lease, &commands).await?;
    lease.set_reusable(true);
    Ok(replies)
}

fn main() -> Result<(), Box<dyn StdError>> {
    let mut args = std::env::args().skip(1);
    let server = args.next().ok_or("usage: redis_client HOST:PORT [TASKS [ROUNDS]]")?;
    let tasks: usize = args.next().map_or(Ok(4), |number| number.parse())?;
    let rounds: usize = args.next().map_or(Ok(100), |number| number.parse())?;
    let group = EventLoopGroup::builder(Auto).threads(2).build()?;
    let bootstrap = Bootstrap::new(&group, Tcp).initialiser(|edit| {
        edit.add_codec("resp", Decode::new(RespDecoder::default()), RespEncoder::default())?;
        edit.add_last("match-replies", MatchReplies::default())?;
        Ok(())
    });
    let pool = ChannelPool::builder(bootstrap)
        .max_open(4)
        .on_created(5 * SECOND, |channel| async move {
            exchange(&channel, &[&["CLIENT", "SETNAME", "waterwheel"]]).await.map(drop)
        })
        .health_check(|channel| async move { exchange(&channel, &[&["PING"]]).await.map(drop) })
        .check_if_idle_for(5 * SECOND)
        .build()?;
    let start = |task| {
        let (pool, server) = (pool.clone(), server.clone());
        let task = group.spawn(async move {
            let (mut done, mut last, mut failed) = (0, Vec::new(), 0);
            while done < rounds {
                match round(&pool, &server, task).await {
                    Ok(replies) => (done, last) = (done + 1, replies),
                    Err(error) => {
                        println!("task {task} tries again: {error}");
                        failed += 1;
                        sleep(SECOND / 10).await;
                    }
                }
            }
            println!("task {task}: {done} rounds, {failed} repeated, last replies {last:?}");
        });
        task.map_err(Error::from)
    };
    let running: Vec<_> = (0..tasks).map(start).collect::<Result<_, _>>()?;
    running.into_iter().try_for_each(|task| task.join())?;
    let metrics = pool.metrics();
    println!("{} leases of {} connections; {}", metrics.acquired, metrics.created, metrics.now);
    pool.close().join()?;
    group.shutdown_gracefully(Duration::ZERO, SECOND)?.join()?;
    Ok(())
}
