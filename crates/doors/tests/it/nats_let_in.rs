//! Who is let in by a broker: with a token, a password, credentials, over TLS; and what happens without.

use async_nats::ConnectOptions;
use chancery_doors::nats::{BrokerOptions, Secret};
use chancery_store::Memory;
use chancery_testkit::nats_server::{Build, NatsServer};
use nkeys::KeyPair;
use rcgen::{CertificateParams, KeyPair as TlsKey};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::nats_support::{House, Raw, WORKER, options, peer, report, until};
use crate::on_both_brokers;

on_both_brokers!(
    a_token_or_a_password_lets_in,
    credentials_let_in,
    tls_is_verified,
    what_the_broker_does_not_let_it_publish_is_not_delivered,
);

async fn greets(mut raw: Raw, url: &str, secret: Option<Secret>) {
    let joining = BrokerOptions {
        secret,
        ..options(url)
    };
    let house = House::open(&[peer(WORKER, None)], joining).await;
    raw.hears("greet", WORKER).await;
    house.stop().await;
}

// AG-NAT-9
async fn a_token_or_a_password_lets_in(build: Build) {
    let server = NatsServer::start(build, "authorization { token: s3cret }");
    let client = ConnectOptions::with_token("s3cret".to_owned());
    let mut raw = Raw::with(client.connect(server.url()).await.unwrap()).await;
    let mut house = House::open(&[peer(WORKER, None)], options(&server.url())).await;
    // Not let in, it is down; let in, it greets.
    let say = json!({"from": WORKER, "channel": "builders", "kind": "say", "body": {"text": "x"}});
    assert_eq!(house.send(say).await.unwrap_err().code, "busy");
    let with_token = BrokerOptions {
        secret: Some(Secret::Token("s3cret".to_owned())),
        ..options(&server.url())
    };
    house.rejoin(with_token).await;
    raw.hears("greet", WORKER).await;
    house.stop().await;

    let users = "authorization { users: [{user: node, password: pass}] }";
    let server = NatsServer::start(build, users);
    let client = ConnectOptions::with_user_and_password("node".to_owned(), "pass".to_owned());
    let raw = Raw::with(client.connect(server.url()).await.unwrap()).await;
    let secret = Secret::User("node".to_owned(), "pass".to_owned());
    greets(raw, &server.url(), Some(secret)).await;
}

// AG-NAT-7, AG-LIF-10, CH-JRN-11, AG-SEC-2: success means that the broker took it.
async fn what_the_broker_does_not_let_it_publish_is_not_delivered(build: Build) {
    let users = "authorization { users: [
        {user: other, password: pass},
        {user: node, password: pass, permissions: {publish: {deny: \"agh.network.v0.builders.peer.>\"}}}
    ] }";
    let server = NatsServer::start(build, users);
    let client = ConnectOptions::with_user_and_password("other".to_owned(), "pass".to_owned());
    let mut raw = Raw::with(client.connect(server.url()).await.unwrap()).await;
    let joining = BrokerOptions {
        secret: Some(Secret::User("node".to_owned(), "pass".to_owned())),
        ..options(&server.url())
    };
    let house = House::open(&[peer(WORKER, None)], joining).await;
    raw.hears("greet", WORKER).await;
    raw.greet(&house).await;
    for interaction in ["i1", "i2"] {
        house
            .send_when_up(report("direct", interaction, json!({"text": "for you"})))
            .await;
        // The attempt has failed, and the interaction is as before.
        until("a failure on record", async || {
            house.interaction(interaction).is_null()
        })
        .await;
    }
    // What it may publish still goes out.
    let say = json!({"from": WORKER, "channel": "builders", "kind": "say", "body": {"text": "x"}});
    house.send_when_up(say).await;
    raw.hears("say", WORKER).await;
    house.stop().await;
}

/// A JSON web token as NATS signs them.
fn token(claims: &Value, issuer: &KeyPair) -> String {
    use base64::Engine as _;
    let part = |bytes: &[u8]| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
    let header = part(br#"{"typ":"JWT","alg":"ed25519-nkey"}"#);
    let signed = format!("{header}.{}", part(claims.to_string().as_bytes()));
    let signature = issuer.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", part(&signature))
}

// AG-NAT-9
async fn credentials_let_in(build: Build) {
    let (operator, account) = (KeyPair::new_operator(), KeyPair::new_account());
    let user = KeyPair::new_user();
    let claims = |of: &KeyPair, by: &KeyPair, nats: Value| {
        json!({"jti": "x", "iat": 1_700_000_000, "iss": by.public_key(), "name": "t",
            "sub": of.public_key(), "nats": nats})
    };
    let limits = json!({"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1,
        "wildcards": true, "conn": -1, "leaf": -1});
    let of_operator = claims(
        &operator,
        &operator,
        json!({"type": "operator", "version": 2}),
    );
    let of_account = claims(
        &account,
        &operator,
        json!({"type": "account", "version": 2, "limits": limits}),
    );
    let of_user = claims(
        &user,
        &account,
        json!({"type": "user", "version": 2, "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1}),
    );
    let configuration = format!(
        "operator: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {} }}\n",
        token(&of_operator, &operator),
        account.public_key(),
        token(&of_account, &operator),
    );
    let credentials = format!(
        "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
        token(&of_user, &account),
        user.seed().unwrap(),
    );
    let server = NatsServer::start(build, &configuration);
    let client = ConnectOptions::with_credentials(&credentials).unwrap();
    let raw = Raw::with(client.connect(server.url()).await.unwrap()).await;
    greets(raw, &server.url(), Some(Secret::Credentials(credentials))).await;
}

// AG-NAT-9
async fn tls_is_verified(build: Build) {
    let key = TlsKey::generate().unwrap();
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate = CertificateParams::new(names)
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let files = tempfile::tempdir().unwrap();
    let (cert_file, key_file) = (files.path().join("cert.pem"), files.path().join("key.pem"));
    std::fs::write(&cert_file, certificate.pem()).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    let configuration = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\" }}",
        cert_file.display(),
        key_file.display()
    );
    let server = NatsServer::start(build, &configuration);
    let url = format!("tls://localhost:{}", server.port());
    let client = ConnectOptions::new().add_root_certificates(cert_file.clone());
    let mut raw = Raw::with(client.connect(&url).await.unwrap()).await;
    // Not trusted, it is not spoken with.
    let house = House::open(&[peer(WORKER, None)], options(&url)).await;
    let say = json!({"from": WORKER, "channel": "builders", "kind": "say", "body": {"text": "x"}});
    assert_eq!(house.send(say.clone()).await.unwrap_err().code, "busy");
    let pem = certificate.pem();
    let trusting = House::with(
        Arc::new(Memory::new()),
        Some(pem.as_bytes()),
        &[peer(WORKER, None)],
        options(&url),
    )
    .await;
    raw.hears("greet", WORKER).await;
    assert_eq!(house.send(say).await.unwrap_err().code, "busy");
    trusting.stop().await;
    house.stop().await;
}
