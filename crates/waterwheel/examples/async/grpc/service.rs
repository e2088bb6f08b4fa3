//! The service: what the methods do.

use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use tonic::{Request, Response, Status, Streaming};
use waterwheel::channel::sleep;

use super::calculator::calculator_server::Calculator;
use super::calculator::{Number, Range};

/// The calculator. Its methods run on the loop of their connection.
pub(crate) struct CalculatorService;

type Numbers = BoxStream<'static, Result<Number, Status>>;

#[tonic::async_trait]
impl Calculator for CalculatorService {
    type CountStream = Numbers;
    type TotalStream = Numbers;

    async fn square(&self, request: Request<Number>) -> Result<Response<Number>, Status> {
        let value = request.into_inner().value;
        let square = value.checked_mul(value);
        let too_large = || Status::out_of_range(format!("the square of {value} is too large"));
        Ok(Response::new(Number { value: square.ok_or_else(too_large)? }))
    }

    /// A client that does not read stops the stream by HTTP/2's flow control; one that cancels the call drops it.
    async fn count(&self, request: Request<Range>) -> Result<Response<Numbers>, Status> {
        let Range { first, last, pause_milliseconds } = request.into_inner();
        let pause = Duration::from_millis(pause_milliseconds.into());
        let numbers = stream::iter(first..=last).then(move |value| async move {
            // Numbers without a pause share frames: HTTP/2 limits how many small ones may wait for their reader.
            if !pause.is_zero() {
                sleep(pause).await;
            }
            Ok(Number { value })
        });
        Ok(Response::new(numbers.boxed()))
    }

    async fn total(
        &self,
        request: Request<Streaming<Number>>,
    ) -> Result<Response<Numbers>, Status> {
        let totals =
            stream::try_unfold((request.into_inner(), 0i64), |(mut numbers, total)| async move {
                let Some(Number { value }) = numbers.message().await? else { return Ok(None) };
                let too_large = || Status::out_of_range("the total is too large");
                let total = total.checked_add(value).ok_or_else(too_large)?;
                Ok(Some((Number { value: total }, (numbers, total))))
            });
        Ok(Response::new(totals.boxed()))
    }
}
