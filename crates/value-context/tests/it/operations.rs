//! What an agent in this process may do in each run state.

use chancery_core::admin::RunState::{Paused, Running, Suspended};
use chancery_core::json::{Place, ReadRules, read};
use chancery_value_context::message::{Kind, Payload, Version};
use chancery_value_context::runtime::{Command, Emission, Forbidden, Operations, may_emit};

use crate::stage::{escalation, share};

fn payload(kind: Kind, value: &serde_json::Value) -> Payload {
    let text = value.to_string();
    let value = read(text.as_bytes(), &ReadRules::VALUE_CONTEXT).unwrap();
    Payload::read(kind, Version::V1_2, &value, &Place::ROOT).unwrap()
}

// VX-RUN-1, VX-RUN-3
#[test]
fn a_pause_lets_an_operation_end_and_a_suspension_lets_nothing_out() {
    let output = Command::Emit(Emission::Output);
    let mut operations = Operations::default();
    operations
        .command(Command::BeginOperation, Running)
        .unwrap();
    let again = operations.command(Command::BeginOperation, Running);
    assert_eq!(again, Err(Forbidden::UnderWay));
    operations.command(output, Paused).unwrap();
    operations.command(Command::EndOperation, Paused).unwrap();
    let next = operations.command(Command::BeginOperation, Paused);
    assert_eq!(next, Err(Forbidden::Paused));
    assert_eq!(
        operations.command(Command::EndOperation, Paused),
        Err(Forbidden::NotUnderWay)
    );
    operations
        .command(Command::BeginOperation, Running)
        .unwrap();
    assert_eq!(
        operations.command(output, Suspended),
        Err(Forbidden::Suspended)
    );
    let next = operations.command(Command::BeginOperation, Suspended);
    assert_eq!(next, Err(Forbidden::Suspended));
    operations
        .command(Command::EndOperation, Suspended)
        .unwrap();
    assert!(!operations.is_under_way());
}

// VX-RUN-3
#[test]
fn messages_are_output_except_cries_for_help() {
    let shared = payload(Kind::ContextShare, &share("📍🏡"));
    let cry = payload(Kind::Escalation, &escalation("emergency", "fire"));
    for state in [Running, Paused] {
        may_emit(Emission::Message(&shared), state).unwrap();
        may_emit(Emission::Message(&cry), state).unwrap();
    }
    let held = may_emit(Emission::Message(&shared), Suspended);
    assert_eq!(held, Err(Forbidden::Suspended));
    may_emit(Emission::Message(&cry), Suspended).unwrap();
}
