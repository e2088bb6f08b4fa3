//! Conversations: a client sends, and gets back what it has sent.

use bytes::{Bytes, BytesMut};
use waterwheel::channel::ChannelOptions;

use crate::handlers::{CAREFUL, Pass};
use crate::line::{End, Line, get};
use crate::random::SeededRng;
use crate::world::{Service, World};

/// As much as a read of an echo gets at the most: within the process what is written at once is read at once.
const PIECE: usize = 4096;

/// Random bytes, the first of which says that they are listened for.
fn data(dice: &mut SeededRng, len: usize) -> Bytes {
    let mut data = BytesMut::from(&[CAREFUL][..]);
    data.extend_from_slice(&dice.bytes(len));
    data.freeze()
}

fn any_service(dice: &mut SeededRng) -> Service {
    Service::ALL[dice.below(Service::ALL.len())]
}

/// A conversation, as the client knows it.
struct Talk<'w> {
    world: &'w World,
    service: Service,
    line: Line,
    /// What has to come back.
    sent: BytesMut,
    received: Vec<u8>,
    end: End,
}

impl<'w> Talk<'w> {
    /// None if there is no connection to be had.
    fn begin(world: &'w World, dice: &mut SeededRng, options: ChannelOptions) -> Option<Self> {
        let service = any_service(dice);
        let line = world.connect(service, dice, options)?;
        let (sent, received) = (BytesMut::new(), Vec::new());
        Some(Self { world, service, line, sent, received, end: End::Open })
    }

    fn send(&mut self, piece: Bytes) {
        self.sent.extend_from_slice(&piece);
        self.line.channel.send(piece);
    }

    /// Waits for everything that was sent, or the end.
    #[track_caller]
    fn listen(&mut self) {
        if self.end == End::Open {
            let (read, end) = self.line.hear(self.sent.len() - self.received.len());
            self.received.extend(read);
            self.end = end;
        }
    }

    /// Says that this was all, waits until the server says so too, and compares.
    #[track_caller]
    fn finish(mut self) {
        drop(self.line.channel.shutdown_output());
        self.listen();
        if self.end == End::Open {
            let (more, end) = self.line.hear(usize::MAX);
            self.received.extend(more);
            self.end = end;
        }
        self.compare();
        self.line.close();
    }

    #[track_caller]
    fn compare(&self) {
        let Self { world, service, sent, received, end, .. } = self;
        let (all, got) = (sent.len(), received.len());
        assert!(got <= all, "{service:?}: {got} bytes for {all}");
        assert!(sent[..got] == received[..], "{service:?}: what came back is not what was sent");
        // An end in the middle is one that the server has said, or comes before anything was read.
        let told = *end == End::Finished || got == 0;
        let fine = if got == all { *end == End::Finished } else { service.may_leave() && told };
        assert!(fine, "{service:?}: {end:?} after {got} of {all} bytes; {:?}", self.line.channel);
        world.common.ledger.client(all, got);
    }
}

/// Sends everything at once.
pub(crate) fn burst(world: &World, dice: &mut SeededRng) {
    let Some(mut talk) = Talk::begin(world, dice, ChannelOptions::default()) else { return };
    let len = dice.below(200_000);
    let data = data(dice, len);
    for piece in dice.cut(data, PIECE) {
        talk.send(piece);
    }
    talk.finish();
}

/// Waits for each answer.
pub(crate) fn ask_and_answer(world: &World, dice: &mut SeededRng) {
    let Some(mut talk) = Talk::begin(world, dice, ChannelOptions::default()) else { return };
    let data = data(dice, 20_000);
    for piece in dice.cut(data, 2_000) {
        talk.send(piece);
        talk.listen();
    }
    talk.finish();
}

/// A write and a flush for each byte.
pub(crate) fn byte_by_byte(world: &World, dice: &mut SeededRng) {
    let Some(mut talk) = Talk::begin(world, dice, ChannelOptions::default()) else { return };
    let data = data(dice, 300);
    for piece in dice.cut(data, 1) {
        talk.send(piece);
    }
    talk.finish();
}

/// Reads a little at a time, when it likes to: the server has to wait.
pub(crate) fn read_slowly(world: &World, dice: &mut SeededRng) {
    let options =
        ChannelOptions { auto_read: false, reads_per_round: 1, ..ChannelOptions::default() };
    let Some(mut talk) = Talk::begin(world, dice, options) else { return };
    let data = data(dice, 1 << 20);
    for piece in dice.cut(data, PIECE) {
        talk.send(piece);
    }
    talk.finish();
}

/// Handlers come and go in its pipeline meanwhile.
pub(crate) fn edit(world: &World, dice: &mut SeededRng) {
    let Some(mut talk) = Talk::begin(world, dice, ChannelOptions::default()) else { return };
    let data = data(dice, 50_000);
    for piece in dice.cut(data, 2_000) {
        talk.send(piece);
        let edited = talk.line.channel.with_pipeline(|pipeline| {
            if pipeline.slot("pass").is_some() {
                pipeline.remove("pass").expect("it is there");
            } else {
                pipeline.add_before("tap", "pass", Pass).expect("the last one stays");
            }
        });
        // It may be closed by now, and then it has no pipeline.
        if get(edited).is_err() {
            assert!(talk.service.may_leave(), "{:?}", talk.line.channel);
        }
    }
    talk.finish();
}

/// Leaves its loop and comes back meanwhile.
pub(crate) fn leave_and_return(world: &World, dice: &mut SeededRng) {
    let Some(mut talk) = Talk::begin(world, dice, ChannelOptions::default()) else { return };
    let data = data(dice, 100_000);
    for piece in dice.cut(data, PIECE) {
        talk.send(piece);
        // With a write under way it cannot leave, and stays.
        if get(talk.line.channel.deregister()).is_ok() {
            get(talk.line.channel.register()).expect("it comes back");
        }
    }
    talk.finish();
}

/// Takes some of its writes back.
pub(crate) fn cancel_writes(world: &World, dice: &mut SeededRng) {
    let Some(mut talk) = Talk::begin(world, dice, ChannelOptions::default()) else { return };
    talk.send(data(dice, 0));
    let data = dice.bytes(50_000);
    for piece in dice.cut(data, 2_000) {
        let write = talk.line.channel.write(piece.clone());
        if dice.below(2) == 0 || !write.cancel() {
            talk.sent.extend_from_slice(&piece);
        }
        if dice.below(4) == 0 {
            talk.line.channel.flush();
        }
    }
    talk.line.channel.flush();
    talk.finish();
}
