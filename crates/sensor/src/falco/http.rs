//! Alerts to a receiver by HTTP, by a thread of its own: a receiver that is slow or gone stops nothing, and what it did not
//! take is counted.

use super::destinations::OutputCounts;
use crate::limits::{HTTP_QUEUE_ALERTS, HTTP_WAIT_AT_END};
use gabion_intake::{HttpClient, UrlError};
use gabion_outputs::{Destination, OutputError, Piece};
use gabion_settings::falco::HttpOutput;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel,
};
use std::sync::{Arc, PoisonError};

/// Why a receiver can't be posted to at all.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpFault {
    /// Its address is none.
    #[error("http_output: {url}: {source}")]
    Url {
        /// The address.
        url: String,
        /// What is wrong with it.
        source: UrlError,
    },
    /// A file of certificates can't be used.
    #[error("http_output: {url}: {source}")]
    Certificates {
        /// The address.
        url: String,
        /// What is wrong with the file.
        source: gabion_intake::Error,
    },
    /// There is no thread for it.
    #[error("http_output: {url}: {source}")]
    Thread {
        /// The address.
        url: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// The thread that posts, and the queue before it.
pub(super) struct HttpReceiver {
    queue: Option<SyncSender<Vec<u8>>>,
    /// Is closed when the thread has ended.
    ended: Receiver<()>,
    counts: Arc<OutputCounts>,
}

impl HttpReceiver {
    /// Starts the thread.
    ///
    /// # Errors
    /// The address or a file of certificates can't be used.
    pub(super) fn start(
        settings: &HttpOutput,
        is_json: bool,
        counts: Arc<OutputCounts>,
    ) -> Result<HttpReceiver, HttpFault> {
        let named = || settings.url.clone();
        let url = settings.url.parse();
        let url = url.map_err(|source| HttpFault::Url { url: named(), source })?;
        let shown = settings.shown.as_ref();
        let client = HttpClient::new(
            url,
            settings.authorities.as_deref(),
            shown.map(|(certificate, key)| (certificate.as_path(), key.as_path())),
            &settings.user_agent,
        );
        let client = client.map_err(|source| HttpFault::Certificates { url: named(), source })?;
        let (queue, alerts) = sync_channel::<Vec<u8>>(HTTP_QUEUE_ALERTS);
        let (ending, ended) = channel::<()>();
        let lost = Arc::clone(&counts);
        let kind = if is_json { "application/json" } else { "text/plain; charset=utf-8" };
        let post = move || {
            for alert in alerts {
                let reason = match client.post(&alert, kind) {
                    Ok(200..300) => continue,
                    Ok(status) => format!("it answered with status {status}"),
                    Err(error) => error.to_string(),
                };
                lost.undelivered.fetch_add(1, Relaxed);
                *lost.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
            }
            drop(ending);
        };
        std::thread::Builder::new()
            .name("http output".to_owned())
            .spawn(post)
            .map_err(|source| HttpFault::Thread { url: named(), source })?;
        Ok(HttpReceiver { queue: Some(queue), ended, counts })
    }
}

impl Destination for HttpReceiver {
    fn write(&mut self, piece: &Piece<'_>) {
        let alert = piece.bytes.strip_suffix(b"\n").unwrap_or(piece.bytes).to_vec();
        let sent = self.queue.as_ref().map(|queue| queue.try_send(alert));
        if let Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) = sent {
            self.counts.undelivered.fetch_add(1, Relaxed);
        }
    }

    /// A receiver that is away is a fault of another host: `counts` reports it, and this run continues.
    fn flush(&mut self) -> Result<(), OutputError> {
        Ok(())
    }
}

impl Drop for HttpReceiver {
    /// Waits for what is in the queue, but not for a receiver that does not take it.
    fn drop(&mut self) {
        drop(self.queue.take());
        if self.ended.recv_timeout(HTTP_WAIT_AT_END) == Err(RecvTimeoutError::Timeout) {
            self.counts.is_left_waiting.store(true, Relaxed);
        }
    }
}
