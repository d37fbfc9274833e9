//! Agent identifiers, agent URIs, constitution references.

use chancery_value_context::agent_id::{AgentId, AgentIdFault, AgentUri, AgentUriFault};
use chancery_value_context::creed::{CreedFault, CreedRef};
use chancery_value_context::message_id::MessageId;

// VX-AGT-1, VX-AGT-2, VX-AGT-3, VX-AGT-4
#[test]
fn identifiers_are_any_short_text_without_controls() {
    for good in [
        "a",
        "parent 001",
        "agent://h/x",
        "BROADCAST",
        "ä",
        &"ü".repeat(512),
    ] {
        assert_eq!(AgentId::parse(good).unwrap().as_str(), good);
    }
    let bad = [
        ("", AgentIdFault::Empty),
        (&*"ü".repeat(513), AgentIdFault::TooLong),
        ("a\nb", AgentIdFault::Control),
        ("a\u{7f}", AgentIdFault::Control),
        ("a\u{9f}", AgentIdFault::Control),
        ("broadcast", AgentIdFault::Reserved),
    ];
    for (text, fault) in bad {
        assert_eq!(AgentId::parse(text), Err(fault));
    }
    assert!(AgentId::parse("a\u{a0}").is_ok());
    assert_ne!(AgentId::parse("agent://H/x"), AgentId::parse("agent://h/x"));
}

// VX-AGT-5
#[test]
fn agent_uris_are_taken_apart() {
    let cases = [
        ("agent://host.local/a/b%2Fc", "host.local", None, "a/b%2Fc"),
        ("agent://10.0.0.1:8443/x", "10.0.0.1", Some(8443), "x"),
        (
            "agent://[::1]:65535/~a.b_c-d",
            "[::1]",
            Some(65535),
            "~a.b_c-d",
        ),
        ("agent://localhost/x", "localhost", None, "x"),
    ];
    for (text, host, port, id) in cases {
        assert_eq!(AgentUri::parse(text), Ok(AgentUri { host, port, id }));
    }
    let long = format!("agent://h/{}", "%41".repeat(200));
    assert!(AgentUri::parse(&long).is_ok());
}

// VX-AGT-5
#[test]
fn agent_uris_outside_the_grammar_are_refused() {
    let long = format!("agent://h/{}", "a".repeat(201));
    let cases = [
        ("Agent://h/x", AgentUriFault::Scheme),
        ("agent://h", AgentUriFault::Host),
        ("agent:///x", AgentUriFault::Host),
        ("agent://Host/x", AgentUriFault::Host),
        ("agent://u@h/x", AgentUriFault::Host),
        ("agent://256.0.0.1/x", AgentUriFault::Host),
        ("agent://[::g]/x", AgentUriFault::Host),
        ("agent://[::1]x/x", AgentUriFault::Host),
        ("agent://h:/x", AgentUriFault::Port),
        ("agent://h:0/x", AgentUriFault::Port),
        ("agent://h:65536/x", AgentUriFault::Port),
        ("agent://h:+1/x", AgentUriFault::Port),
        ("agent://h/", AgentUriFault::Id),
        ("agent://h/a//b", AgentUriFault::Id),
        ("agent://h/a/", AgentUriFault::Id),
        ("agent://h/%4", AgentUriFault::Id),
        ("agent://h/%zz", AgentUriFault::Id),
        ("agent://h/a b", AgentUriFault::Id),
        (&*long, AgentUriFault::Id),
    ];
    for (text, fault) in cases {
        assert_eq!(AgentUri::parse(text), Err(fault), "{text}");
    }
}

// VX-AGT-5
#[test]
fn the_default_address_is_https_at_the_well_known_path() {
    let address = |text| AgentUri::parse(text).unwrap().default_address();
    assert_eq!(
        address("agent://h.example/x"),
        "https://h.example/.well-known/vcp/messages"
    );
    assert_eq!(
        address("agent://[::1]:81/x"),
        "https://[::1]:81/.well-known/vcp/messages"
    );
}

// VX-CRD-1, VX-CRD-2, VX-CRD-3, VX-CRD-4, VX-CRD-5, VX-CRD-6
#[test]
fn each_part_of_a_reference_has_its_fault() {
    let issuer = |length: usize| format!("creed://{}/x", ["a"; 200].join(".")[..length].to_owned());
    assert!(CreedRef::parse(&issuer(253)).is_ok());
    let path = |length: usize| format!("creed://a/{}", "x".repeat(length - "creed://a/".len()));
    assert!(CreedRef::parse(&path(2048)).is_ok());
    assert!(CreedRef::parse("creed://a/...").is_ok());
    let cases = [
        (path(2049), CreedFault::TooLong),
        ("https://a/b".to_owned(), CreedFault::Scheme),
        (issuer(255), CreedFault::Issuer),
        ("creed://A/b".to_owned(), CreedFault::Issuer),
        ("creed://a/..".to_owned(), CreedFault::Path),
        ("creed://a/b\n".to_owned(), CreedFault::Path),
        ("creed://a-/b".to_owned(), CreedFault::Issuer),
        ("creed://a:1/b".to_owned(), CreedFault::Issuer),
        ("creed://u@a/b".to_owned(), CreedFault::Issuer),
        ("creed://a//b".to_owned(), CreedFault::Path),
        ("creed://a/./b".to_owned(), CreedFault::Path),
        ("creed://a/b@1.2".to_owned(), CreedFault::Version),
        ("creed://a/b@01.2.3".to_owned(), CreedFault::Version),
        ("creed://a/b@1.2.3-01".to_owned(), CreedFault::Version),
        ("creed://a/b@1.2.3@x".to_owned(), CreedFault::Version),
        ("creed://a/b@1.2.3+x".to_owned(), CreedFault::Version),
        ("creed://a/b@1.2.3-a..b".to_owned(), CreedFault::Version),
        ("creed://a/b@1.2.3\n".to_owned(), CreedFault::Version),
        ("creed://a/b@LATEST".to_owned(), CreedFault::Version),
        ("creed://a/b@latest/c".to_owned(), CreedFault::Version),
    ];
    for (text, fault) in cases {
        assert_eq!(CreedRef::parse(&text), Err(fault), "{text}");
    }
}

// VX-ID-1, VX-ORD-2
#[test]
fn message_identifiers_keep_their_text_and_its_order() {
    let texts = [
        "019502a4-7e5c-7000-8000-000000000001",
        "019502a4-7e5c-7000-b000-00000000000a",
        "f19502a4-7e5c-7fff-8000-000000000001",
    ];
    let ids = texts.map(|text| MessageId::parse(text).unwrap());
    assert_eq!(ids.map(|id| id.to_string()), texts);
    assert!(ids.is_sorted());
    assert_eq!(
        MessageId::parse("019502a4-7e5c-4000-8000-000000000001"),
        None
    );
}
