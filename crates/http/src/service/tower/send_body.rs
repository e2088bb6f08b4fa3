//! `SendBody`: the body of a request for services that need it to be `Send`, and the pump that fills it.
//!
//! The reader asks for a frame and waits; the pump, polled on the connection's loop together with the call, takes one
//! from the connection and hands it over. At most one frame is between them, and none is taken before it is asked for.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::body::error::BodyError;
use crate::body::incoming::Incoming;

/// The body of a request to a [`TowerService`](crate::TowerService): `Send`, for services that keep it in futures that are
/// `Send`. Ends with [`BodyError::Aborted`] if it is read after the response is complete.
pub struct SendBody {
    /// The way from the pump; `None` if the body has no bytes.
    handover: Option<Arc<Handover>>,
    remaining: Option<u64>,
    /// The trailers of a body without bytes.
    trailers: Option<HeaderMap>,
}

/// Takes frames from the connection. Stays on its loop.
pub(crate) struct BodyPump {
    /// The connection's end; `None` once nothing follows.
    body: Option<Incoming>,
    handover: Arc<Handover>,
}

/// A place for one frame. The reader, on any thread, asks and takes; the pump, on the loop, puts; each with the lock, and
/// for a few instructions. Wakers are cloned, woken and dropped without it.
#[derive(Default)]
struct Handover {
    state: Mutex<HandoverState>,
}

#[derive(Default)]
struct HandoverState {
    frame: Option<Result<Frame<Bytes>, BodyError>>,
    /// True once everything was put.
    is_complete: bool,
    /// True while the reader has asked for a frame that is not there.
    is_wanted: bool,
    is_reader_gone: bool,
    is_pump_gone: bool,
    reader: Option<Waker>,
    pump: Option<Waker>,
}

/// The wish of the reader.
enum Demand {
    Frame,
    Nothing,
    ReaderGone,
}

impl SendBody {
    /// Returns the body, and its pump unless the body has no bytes.
    pub(super) fn new(mut body: Incoming) -> (Self, Option<BodyPump>) {
        let remaining = body.exact_len();
        if remaining == Some(0) {
            let trailers = body.take_trailers();
            return (Self { handover: None, remaining, trailers }, None);
        }
        let handover = Arc::<Handover>::default();
        let pump = BodyPump { body: Some(body), handover: Arc::clone(&handover) };
        (Self { handover: Some(handover), remaining, trailers: None }, Some(pump))
    }
}

impl HttpBody for SendBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(handover) = &self.handover else {
            return Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
        };
        let polled = handover.poll_take(cx);
        if let (Poll::Ready(Some(Ok(frame))), Some(remaining)) = (&polled, self.remaining)
            && let Some(data) = frame.data_ref()
        {
            self.remaining = Some(remaining.saturating_sub(data.len() as u64));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.handover {
            Some(handover) => handover.lock().is_at_end(),
            None => self.trailers.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.remaining.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for SendBody {
    fn drop(&mut self) {
        let Some(handover) = &self.handover else { return };
        let mut state = handover.lock();
        state.is_reader_gone = true;
        let (unread, reader, pump) = (state.frame.take(), state.reader.take(), state.pump.take());
        drop(state);
        drop((unread, reader));
        if let Some(pump) = pump {
            pump.wake();
        }
    }
}

impl BodyPump {
    /// Removes the waker before the reader is polled by the same task: what the reader asks for then is seen by
    /// [`poll_handover`](Self::poll_handover), which follows, and needs no wake.
    pub(super) fn clear_waker(&mut self) {
        let waker = self.handover.lock().pump.take();
        drop(waker);
    }

    /// Hands over a frame if the reader waits for one. Returns true if it did, so that the reader can be polled again at
    /// once; otherwise the waker is kept.
    pub(super) fn poll_handover(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(body) = &mut self.body else { return false };
        match self.handover.poll_demand(cx) {
            Demand::Frame => {}
            Demand::Nothing => return false,
            Demand::ReaderGone => {
                self.body = None;
                return false;
            }
        }
        let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) else { return false };
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        self.handover.put(frame);
        true
    }
}

impl Drop for BodyPump {
    fn drop(&mut self) {
        let mut state = self.handover.lock();
        state.is_pump_gone = true;
        let (reader, pump) = (state.reader.take(), state.pump.take());
        drop(state);
        drop(pump);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl Handover {
    fn lock(&self) -> MutexGuard<'_, HandoverState> {
        // Nothing under the lock panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the frame, or asks for it.
    fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let waker = cx.waker().clone();
        let mut state = self.lock();
        let taken = if let Some(frame) = state.frame.take() {
            Poll::Ready(Some(frame))
        } else if state.is_complete {
            Poll::Ready(None)
        } else if state.is_pump_gone {
            Poll::Ready(Some(Err(BodyError::Aborted)))
        } else {
            Poll::Pending
        };
        if taken.is_ready() {
            return taken;
        }
        state.is_wanted = true;
        let previous = state.reader.replace(waker);
        let pump = state.pump.take();
        drop(state);
        drop(previous);
        if let Some(pump) = pump {
            pump.wake();
        }
        taken
    }

    /// Returns what the reader wants, and keeps the waker: also while the connection has no frame, as the reader may go.
    fn poll_demand(&self, cx: &mut Context<'_>) -> Demand {
        let waker = cx.waker().clone();
        let mut state = self.lock();
        let demand = match (state.is_reader_gone, state.is_wanted) {
            (true, _) => Demand::ReaderGone,
            (false, true) => Demand::Frame,
            (false, false) => Demand::Nothing,
        };
        let previous = state.pump.replace(waker);
        drop(state);
        drop(previous);
        demand
    }

    /// Puts the next frame, or the end.
    fn put(&self, frame: Option<Result<Frame<Bytes>, BodyError>>) {
        let mut state = self.lock();
        state.is_wanted = false;
        state.is_complete = !matches!(frame, Some(Ok(_)));
        let unread = match state.is_reader_gone {
            true => frame,
            false => std::mem::replace(&mut state.frame, frame),
        };
        let reader = state.reader.take();
        drop(state);
        drop(unread);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl HandoverState {
    fn is_at_end(&self) -> bool {
        self.is_complete && self.frame.is_none()
    }
}

impl fmt::Debug for SendBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendBody").field("remaining", &self.remaining).finish_non_exhaustive()
    }
}
