//! The recorder of the process: where several nodes run in it, each figure has the label of its tenant, and a tenant is
//! shown its own alone.

use std::sync::{Arc, OnceLock};

use chancery_node::tenant;
use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Label, Metadata, Recorder, SharedString, Unit,
};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use super::figures;

/// The label that tells tenants apart.
const TENANT: &str = "tenant";

/// Puts the tenant of the thread into each key.
struct Labelled(PrometheusRecorder);

/// A key as the thread's tenant has it.
fn labelled(key: &Key) -> Key {
    match tenant::of_this_thread() {
        None => key.clone(),
        Some(tenant) => key.with_extra_labels(vec![Label::new(TENANT, SharedString::from(tenant))]),
    }
}

impl Recorder for Labelled {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.0.describe_counter(key, unit, text);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.0.describe_gauge(key, unit, text);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.0.describe_histogram(key, unit, text);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.0.register_counter(&labelled(key), metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        self.0.register_gauge(&labelled(key), metadata)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        self.0.register_histogram(&labelled(key), metadata)
    }
}

/// Keeps the figures of this process from here on, for `GET /metrics`: what was told before is not shown. [`serve`](super::serve)
/// sees to it as well.
pub fn keep_figures() {
    recorder();
}

/// Sets the process's recorder up, once. None when the program set up another one.
pub(crate) fn recorder() -> Option<&'static PrometheusHandle> {
    static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    let set_up = || {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let set = metrics::set_global_recorder(Labelled(recorder));
        figures::describe();
        set.ok().map(|()| handle)
    };
    RECORDER.get_or_init(set_up).as_ref()
}

/// The figures that this thread's node may show, as Prometheus reads them.
pub(crate) fn render() -> String {
    let all = recorder().map(PrometheusHandle::render).unwrap_or_default();
    match tenant::of_this_thread() {
        None => all,
        Some(tenant) => own_of(&all, &tenant),
    }
}

fn own_of(all: &str, tenant: &Arc<str>) -> String {
    let own = format!("{TENANT}=\"{tenant}\"");
    let is_own = |line: &&str| line.starts_with('#') || line.contains(&own);
    let lines = all.lines().filter(is_own);
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// A figure of this thread's node; `labels` as Prometheus writes them, without braces.
pub(crate) fn line(name: &str, labels: &str, value: u64) -> String {
    let own = tenant::of_this_thread().map(|tenant| format!("{TENANT}=\"{tenant}\""));
    let labels: Vec<&str> = [labels, own.as_deref().unwrap_or_default()]
        .into_iter()
        .filter(|label| !label.is_empty())
        .collect();
    match labels.is_empty() {
        true => format!("{name} {value}\n"),
        false => format!("{name}{{{}}} {value}\n", labels.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_shown_its_own_figures_alone() {
        // CH-LIM-1
        let all = "# TYPE x counter\nx{tenant=\"a\"} 1\nx{k=\"v\",tenant=\"b\"} 2\nx 3\n";
        assert_eq!(
            own_of(all, &"b".into()),
            "# TYPE x counter\nx{k=\"v\",tenant=\"b\"} 2\n"
        );
        assert_eq!(line("y", "", 1), "y 1\n");
        tenant::work_for(Some("a".into()));
        assert_eq!(line("y", "", 1), "y{tenant=\"a\"} 1\n");
        assert_eq!(line("y", "k=\"v\"", 1), "y{k=\"v\",tenant=\"a\"} 1\n");
        tenant::work_for(None);
    }
}
