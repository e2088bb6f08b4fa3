//! Embedded channels with an async end.

use std::cell::RefCell;
use std::rc::Rc;

use waterwheel_async::{AsyncChannel, ConnectionResult, serve_channel};
use waterwheel_channel::{ChannelOptions, LocalLoop, Message};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

/// The steps of futures, in order.
#[derive(Clone, Default)]
pub(crate) struct Record(Rc<RefCell<Vec<String>>>);

impl Record {
    pub(crate) fn add(&self, entry: impl Into<String>) {
        self.0.borrow_mut().push(entry.into());
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.borrow_mut())
    }
}

/// Returns a channel that runs an async function, with these options.
pub(crate) fn serving_with<In, Out, F>(
    options: ChannelOptions,
    connection: impl FnOnce(AsyncChannel<In, Out>) -> F + 'static,
) -> Embedded
where
    In: Message,
    Out: Message,
    F: Future<Output: ConnectionResult> + 'static,
{
    let mut channel =
        Embedded::builder().options(options).build(|edit| serve_channel(edit, connection)).unwrap();
    channel.run();
    channel
}

/// Returns a channel that runs an async function, and allows half-closure.
pub(crate) fn serving<In, Out, F>(
    connection: impl FnOnce(AsyncChannel<In, Out>) -> F + 'static,
) -> Embedded
where
    In: Message,
    Out: Message,
    F: Future<Output: ConnectionResult> + 'static,
{
    serving_with(half_closure(), connection)
}

pub(crate) fn half_closure() -> ChannelOptions {
    ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() }
}

/// Returns a channel whose async end is kept by the test.
pub(crate) fn installed<In: Message, Out: Message>() -> (Embedded, AsyncChannel<In, Out>) {
    let mut kept = None;
    let channel = Embedded::builder()
        .options(half_closure())
        .build(|edit| {
            kept = Some(AsyncChannel::install(edit)?);
            Ok(())
        })
        .unwrap();
    (channel, kept.unwrap())
}

/// Runs a future on the loop of the channel; its output is told when it is there.
pub(crate) fn spawn<T: 'static>(
    channel: &mut Embedded,
    future: impl Future<Output = T> + 'static,
) -> Rc<RefCell<Option<T>>> {
    let output = Rc::new(RefCell::new(None));
    let told = output.clone();
    channel.on_loop(|_| {
        LocalLoop::current().unwrap().spawn_local(async move {
            let value = future.await;
            told.borrow_mut().replace(value);
        });
    });
    channel.run();
    output
}

/// Echoes, and notes the end.
pub(crate) async fn echo(
    record: Record,
    mut connection: AsyncChannel<String>,
) -> Result<(), Error> {
    while let Some(line) = connection.next().await {
        let line = line?;
        record.add(line.clone());
        connection.send(line).await?;
    }
    record.add("end");
    Ok(())
}
