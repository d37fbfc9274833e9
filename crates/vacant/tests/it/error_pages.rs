//! Every code is told of in `docs/errors/vacant.md`, with the status that it has.

use chancery_vacant::error::ProtocolError;
use chancery_vacant::state::State;

/// One of each kind; a new kind does not compile until it is here.
fn all() -> Vec<ProtocolError> {
    let all = vec![
        ProtocolError::format("x"),
        ProtocolError::EnvelopeSignature("x"),
        ProtocolError::UnsupportedHaloVersion("2".to_owned()),
        ProtocolError::ReplayDetected {
            last_sequence_no: 0,
        },
        ProtocolError::ChainFork,
        ProtocolError::Suspended,
        ProtocolError::TargetUnavailable(State::Hibernating),
        ProtocolError::TargetUnavailable(State::Sunk),
        ProtocolError::TargetNotFound("x"),
        ProtocolError::Misdirected,
        ProtocolError::Transport("x".into()),
        ProtocolError::TooLarge,
        ProtocolError::UnsupportedMedia,
        ProtocolError::NotFound("x"),
        ProtocolError::BehaviourFailed,
        ProtocolError::BehaviourTimeout,
        ProtocolError::Overloaded("x"),
    ];
    for error in &all {
        match error {
            ProtocolError::EnvelopeFormat { .. }
            | ProtocolError::EnvelopeSignature(_)
            | ProtocolError::UnsupportedHaloVersion(_)
            | ProtocolError::ReplayDetected { .. }
            | ProtocolError::ChainFork
            | ProtocolError::Suspended
            | ProtocolError::TargetUnavailable(_)
            | ProtocolError::TargetNotFound(_)
            | ProtocolError::Misdirected
            | ProtocolError::Transport(_)
            | ProtocolError::TooLarge
            | ProtocolError::UnsupportedMedia
            | ProtocolError::NotFound(_)
            | ProtocolError::BehaviourFailed
            | ProtocolError::BehaviourTimeout
            | ProtocolError::Overloaded(_) => {}
        }
    }
    all
}

// CH-CLI-3, VA-ERR-1, CH-ID-4
#[test]
fn every_code_has_its_place_on_the_page() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors/vacant.md");
    let page = std::fs::read_to_string(page).unwrap();
    for error in all() {
        let head = format!("\n## {}\n\nStatus {}.", error.code(), error.status());
        assert!(page.contains(&head), "{}", error.code());
    }
    for code in [
        "ANSWERED",
        "UNSUPPORTED_OPERATION",
        "REGISTRY_NOT_ALLOWED",
        "REVIEW_NOT_ALLOWED",
        "NOT_CONFIGURED",
        "METHOD_NOT_ALLOWED",
        "FORBIDDEN",
    ] {
        assert!(page.contains(&format!("\n## {code}\n")), "{code}");
    }
}
