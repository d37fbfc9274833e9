//! People are told of every error, with the status that it has.

use chancery_vacant::error::ProtocolError;
use chancery_vacant::guide::guides;
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
fn every_error_is_explained_with_its_status_and_requirement() {
    let guides = guides();
    for error in all() {
        let guide = guides.iter().find(|guide| guide.code == error.code());
        let guide = guide.unwrap_or_else(|| panic!("{}", error.code()));
        assert_eq!(guide.status, Some(error.status()), "{}", error.code());
        let requirement = error.requirement();
        assert!(guide.requirement.contains(requirement), "{}", error.code());
    }
}
