//! Secrets that went through a node are found nowhere but where they belong (CH-ID-3).

use std::fmt::Write;
use std::sync::{Mutex, OnceLock};

use chancery_core::digest::hex;
use chancery_core::keys::base64;
use chancery_core::keys::ed25519::SigningKey;
use chancery_node::SoftLimits;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::bureau::{Bureau, KITCHEN, MONITOR, PARENT, of_monitor, world};

/// Everything that is traced in this process, as text.
static TRACED: OnceLock<Mutex<String>> = OnceLock::new();

struct Everything;

struct Text<'t>(&'t mut String);

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

fn note(values: impl FnOnce(&mut Text<'_>)) {
    let mut text = TRACED.get_or_init(Mutex::default).lock().unwrap();
    values(&mut Text(&mut text));
    text.push('\n');
}

impl Subscriber for Everything {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        note(|text| span.record(text));
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        note(|text| values.record(text));
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        note(|text| event.record(text));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The ways a secret could be written.
fn spellings(secret: &[u8]) -> Vec<String> {
    vec![
        hex::encode(secret),
        hex::encode(secret).to_uppercase(),
        base64::encode(secret),
        base64::encode_url(secret),
        format!("{secret:?}"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_not_told() {
    let _ = tracing::subscriber::set_global_default(Everything);
    let seed = *b"canary seed: never to be seen!!!";
    let dir = tempfile::tempdir().unwrap();
    let bureau = Bureau::open(dir.path(), SoftLimits::default()).await;
    let office = &bureau.office;
    office
        .gate()
        .vault()
        .hold(KITCHEN, SigningKey::from_seed(&seed));
    let (record, token) = office
        .issue_token("ops", vec!["admin".to_owned()])
        .await
        .unwrap();
    let bearer = office.bearer(&token).unwrap();
    office.bearer(&format!("{token}x")).unwrap();
    let accepted = bureau.receive(of_monitor(1, KITCHEN)).await;
    let refused = bureau.receive(token.clone()).await;
    let as_idempotency = bureau.send(PARENT, MONITOR, None).await;
    let mut told = format!(
        "{record:?} {bearer:?} {accepted:?} {refused:?} {as_idempotency:?} {:?} {:?} {:?} {:?}",
        office.gate().vault(),
        office.gate().settings(),
        office.gate().keyring(),
        world(),
    );
    office.revoke_token(&record.id).await.unwrap();
    bureau.stop().await;
    for log in ["rejections.jsonl", "events.jsonl", "audit.jsonl"] {
        told += &std::fs::read_to_string(dir.path().join(log)).unwrap();
    }
    // Something was traced, so that silence proves something.
    tracing::warn!("the end of the canary's flight");
    told += &TRACED.get().expect("something was traced").lock().unwrap();
    assert!(told.contains("the end of the canary's flight"));
    let (_, secret) = token.split_once('.').unwrap();
    let mut secrets = spellings(&seed);
    secrets.push(secret.to_owned());
    secrets.extend(spellings(&[4; 32]));
    secrets.push(hex::encode(&[1; 32]));
    for secret in secrets {
        assert!(!told.contains(&secret), "{secret} was told");
    }
}
