//! A stream that writes only while the senders of what is in its buffers may send.
//!
//! A frame can wait in a buffer for a socket that is full. When its sender is suspended meanwhile nothing more of it may
//! leave, and half a frame cannot be taken back: the write fails and the connection ends.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use chancery_node::Leave;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The leaves of what is on its way out.
#[derive(Default)]
pub(crate) struct Leaves {
    any: AtomicBool,
    all: Mutex<Vec<Leave>>,
    written: AtomicUsize,
}

impl Leaves {
    /// A message goes into the buffers.
    pub(crate) fn add(&self, leave: Leave) {
        self.lock().push(leave);
        self.any.store(true, Ordering::Release);
    }

    /// The buffers are empty, and this message goes into them.
    pub(crate) fn begin(&self, leave: Leave) {
        *self.lock() = vec![leave];
        self.any.store(true, Ordering::Release);
        self.written.store(0, Ordering::Release);
    }

    /// How many bytes were written since the message began.
    pub(crate) fn written(&self) -> usize {
        self.written.load(Ordering::Acquire)
    }

    /// The buffers are empty.
    pub(crate) fn clear(&self) {
        if self.any.swap(false, Ordering::AcqRel) {
            self.lock().clear();
        }
    }

    /// Writes, unless the sender of anything in the buffers is suspended.
    fn write<T>(&self, write: impl FnOnce() -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if !self.any.load(Ordering::Acquire) {
            return write();
        }
        let withdrawn =
            || io::Error::new(io::ErrorKind::PermissionDenied, "the sender is suspended");
        Leave::while_all_given(&self.lock(), write).unwrap_or_else(|| Poll::Ready(Err(withdrawn())))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Leave>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The stream.
pub(crate) struct Guarded<T> {
    pub(crate) stream: T,
    pub(crate) leaves: Arc<Leaves>,
}

impl<T: AsyncRead + Unpin> AsyncRead for Guarded<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Guarded<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, leaves } = self.get_mut();
        let written = leaves.write(|| Pin::new(stream).poll_write(cx, bytes));
        if let Poll::Ready(Ok(count)) = &written {
            leaves.written.fetch_add(*count, Ordering::AcqRel);
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, leaves } = self.get_mut();
        leaves.write(|| Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, leaves } = self.get_mut();
        leaves.write(|| Pin::new(stream).poll_shutdown(cx))
    }
}
