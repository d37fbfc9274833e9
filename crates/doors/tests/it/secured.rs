//! TLS: certificates that are replaced while the door is open, and messages to a node that a file's roots vouch for.

use std::collections::BTreeMap;
use std::sync::Arc;

use chancery_doors::http::{ServeOptions, TlsIdentity, TlsKeeper, serve};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;

use crate::support::{KITCHEN, LIVING_ROOM, Setup, answer, inbox_of};

/// An authority of the tests' own.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: Vec<u8>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem().into_bytes();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    fn certify(&self, host: &str) -> TlsIdentity {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        TlsIdentity {
            certificates_pem: certificate.pem().into_bytes(),
            key_pem: key.serialize_pem().into_bytes(),
        }
    }
}

// VX-HTTP-5
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_replaced_without_a_restart() {
    let node = Setup::default().start().await;
    let (first, second) = (Authority::new(), Authority::new());
    let keeper = TlsKeeper::new(&first.certify("localhost")).unwrap();
    let options = ServeOptions {
        tls: Some(Arc::clone(&keeper)),
        dev: true,
        ..ServeOptions::new("127.0.0.1:0".parse().unwrap())
    };
    let server = serve(Arc::clone(&node.office), options).unwrap();
    let url = format!(
        "https://localhost:{}/healthz",
        server.listening().address.port()
    );
    let trusts = async |authority: &Authority| {
        let root = reqwest::Certificate::from_pem(&authority.pem).unwrap();
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([root]);
        client.build().unwrap().get(&url).send().await.is_ok()
    };
    assert!(trusts(&first).await && !trusts(&second).await);
    let broken = TlsIdentity {
        key_pem: second.certify("localhost").key_pem,
        ..first.certify("localhost")
    };
    assert!(keeper.replace(&broken).is_err());
    assert!(trusts(&first).await);
    keeper.replace(&second.certify("localhost")).unwrap();
    assert!(!trusts(&first).await && trusts(&second).await);
    server.stop().await;
    node.stop().await;
}

// VX-HTTP-5, VX-WS-8
#[tokio::test(flavor = "multi_thread")]
async fn messages_travel_over_tls_to_whom_the_roots_vouch_for() {
    let there = Setup::default().start().await;
    let authority = Authority::new();
    let options = ServeOptions {
        tls: Some(TlsKeeper::new(&authority.certify("localhost")).unwrap()),
        dev: true,
        ..ServeOptions::new("127.0.0.1:0".parse().unwrap())
    };
    let server = serve(Arc::clone(&there.office), options).unwrap();
    let port = server.listening().address.port();
    for (number, address) in [
        format!("https://localhost:{port}/.well-known/vcp/messages"),
        format!("wss://localhost:{port}/vcp/ws"),
    ]
    .into_iter()
    .enumerate()
    {
        let here = Setup {
            addresses: BTreeMap::from([(KITCHEN.to_owned(), address)]),
            ca_pem: Some(authority.pem.clone()),
            without: vec![KITCHEN],
            ..Setup::default()
        }
        .start()
        .await;
        let agent = json!({"protocol": "value-context", "id": LIVING_ROOM, "peers": [KITCHEN]});
        let added = here.post("/admin/agents", agent.to_string());
        assert_eq!(added.send().await.unwrap().status(), 200);
        let body = json!({
            "sender": LIVING_ROOM, "recipient": KITCHEN, "type": "context_share",
            "payload": {"context": "📍🏡", "constitution_ref": "creed://creed.space/a@1.0.0"},
        });
        let sent = here.post("/send/value-context", body.to_string());
        assert_eq!(sent.send().await.unwrap().status(), 200);
        loop {
            let wait = there.get(&format!("{}?after=0&wait=5", inbox_of(KITCHEN)));
            let (_, inbox) = answer(wait.send().await.unwrap()).await;
            if inbox["entries"].as_array().unwrap().len() > number {
                break;
            }
        }
        here.stop().await;
    }
    server.stop().await;
    there.stop().await;
}
