//! Bodies: read to one piece, up to a limit, within a time, within what all unfinished bodies may take together.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::Body;
use tokio::sync::{Semaphore, SemaphorePermit};

/// What of each unfinished body is not counted: an ordinary envelope never waits for others.
const UNCOUNTED_BYTES: usize = 4 << 10;
/// The unit of counting.
const UNIT_BYTES: usize = 1 << 10;
/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFault {
    /// It is larger than the limit.
    TooLarge,
    /// It did not come in time.
    Late,
    /// Unfinished bodies take all the memory they may.
    Full,
    /// The client broke off or broke the framing.
    Broken,
}

/// What bodies are read within.
pub(crate) struct Bodies {
    budget: Arc<Semaphore>,
    units: usize,
    timeout: Duration,
}

impl Bodies {
    pub(crate) fn new(budget_bytes: usize, timeout: Duration) -> Self {
        let units = budget_bytes / UNIT_BYTES;
        Self {
            budget: Arc::new(Semaphore::new(units)),
            units,
            timeout,
        }
    }

    /// Bytes taken, and how many there are.
    pub(crate) fn used(&self) -> (usize, usize) {
        let used = self.units - self.budget.available_permits();
        (used * UNIT_BYTES, self.units * UNIT_BYTES)
    }

    /// Reads a body whole. One that says it is too large is not read at all.
    pub(crate) async fn read<B>(
        &self,
        headers: &HeaderMap,
        mut body: B,
        limit: usize,
    ) -> Result<Bytes, BodyFault>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        if declared(headers).is_some_and(|length| length > limit as u64) {
            return Err(BodyFault::TooLarge);
        }
        let read = self.collect(&mut body, limit);
        tokio::time::timeout(self.timeout, read)
            .await
            .unwrap_or(Err(BodyFault::Late))
    }

    async fn collect<B>(&self, body: &mut B, limit: usize) -> Result<Bytes, BodyFault>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let Some(first) = next(body).await? else {
            return Ok(Bytes::new());
        };
        if first.len() > limit {
            return Err(BodyFault::TooLarge);
        }
        if body.is_end_stream() {
            return Ok(first);
        }
        let mut whole = Vec::from(first);
        let mut taken = None;
        while let Some(part) = next(body).await? {
            if whole.len() + part.len() > limit {
                return Err(BodyFault::TooLarge);
            }
            make_room(&mut whole, part.len(), limit);
            whole.extend_from_slice(&part);
            self.take(&mut taken, whole.capacity())?;
        }
        Ok(whole.into())
    }

    /// Takes so much of the budget that a buffer of this size is paid for.
    fn take<'b>(
        &'b self,
        taken: &mut Option<SemaphorePermit<'b>>,
        bytes: usize,
    ) -> Result<(), BodyFault> {
        let counted = bytes.saturating_sub(UNCOUNTED_BYTES).div_ceil(UNIT_BYTES);
        let held = taken.as_ref().map_or(0, SemaphorePermit::num_permits);
        if counted <= held {
            return Ok(());
        }
        let more = u32::try_from(counted - held).map_err(|_| BodyFault::Full)?;
        let more = self.budget.try_acquire_many(more);
        let more = more.map_err(|_| BodyFault::Full)?;
        match taken {
            Some(taken) => taken.merge(more),
            None => *taken = Some(more),
        }
        Ok(())
    }
}

/// Room for one more part. A buffer that doubled would hold up to twice what was sent.
fn make_room(whole: &mut Vec<u8>, part: usize, limit: usize) {
    let wanted = whole.len() + part;
    if wanted > whole.capacity() {
        let ahead = (wanted / 4).max(UNIT_BYTES);
        let capacity = wanted.saturating_add(ahead).min(limit.max(wanted));
        whole.reserve_exact(capacity - whole.len());
    }
}

fn declared(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn next<B>(body: &mut B) -> Result<Option<Bytes>, BodyFault>
where
    B: Body<Data = Bytes> + Unpin,
{
    loop {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await;
        match frame {
            None => return Ok(None),
            Some(Err(_)) => return Err(BodyFault::Broken),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if !data.is_empty() => return Ok(Some(data)),
                // Trailers, or a frame without data.
                _ => {}
            },
        }
    }
}
