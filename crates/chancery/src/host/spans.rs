//! Where the spans of recorded traces go, as the configuration says.

use std::sync::Arc;

use chancery_core::ids::v4;
use chancery_doors::OutgoingTls;
use chancery_doors::otlp::{Exporter, QUEUE_SPANS};
use chancery_node::trace::Spans;

use crate::config::Config;
use crate::exit::Failure;

/// Begins to export spans, where a collector is configured. Needs a tokio runtime.
pub(super) fn begin(
    config: &Config,
    tls: &OutgoingTls,
) -> Result<Option<(Arc<Spans>, Exporter)>, Failure> {
    let Some(otlp) = &config.otlp else {
        return Ok(None);
    };
    let mut entropy = [0; 24];
    getrandom::fill(&mut entropy)
        .map_err(|error| Failure::damaged(format!("no random numbers: {error}")))?;
    let (mut instance, mut seed) = ([0; 16], [0; 8]);
    instance.copy_from_slice(&entropy[..16]);
    seed.copy_from_slice(&entropy[16..]);
    let seed = u64::from_be_bytes(seed);
    let (spans, out) = Spans::new(QUEUE_SPANS, otlp.sample_one_in, seed);
    let resource = vec![
        ("service.name", "chancery".to_owned()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", v4(instance).to_string()),
    ];
    let exporter = Exporter::start(&otlp.collector, tls, out, resource);
    Ok(Some((spans, exporter)))
}
