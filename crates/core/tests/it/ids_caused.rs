//! Vibe identifiers that follow from the message that caused them.

use chancery_core::ids::{ObjectKind, child_id, is_uuid4, object_id};
use proptest::prelude::*;

use crate::keys_vectors::{cases, text};

// VC-CAN-6, VC-CAN-7, VC-PLAT-4
#[test]
fn every_recorded_identifier_comes_out() {
    let mut kinds_seen = std::collections::HashSet::new();
    for case in cases("vibe/ids.json", "cases") {
        if case.get("parent").is_some() {
            let index = case["index"].as_u64().unwrap();
            let made = child_id(text(&case, "parent"), index).to_string();
            assert_eq!(made, text(&case, "child_id"));
        } else {
            let kind = ObjectKind::ALL
                .into_iter()
                .find(|kind| kind.name() == text(&case, "kind"))
                .unwrap();
            kinds_seen.insert(kind);
            assert_eq!(object_id(kind, text(&case, "msg_id")), text(&case, "id"));
        }
    }
    assert_eq!(kinds_seen.len(), ObjectKind::ALL.len());
}

// VC-CAN-6
#[test]
fn the_children_of_the_specification() {
    for (index, id) in [
        (1, "cf732459-420e-47ac-8777-a5e57011ea86"),
        (2, "bbe4dfe8-809f-4f60-950f-e5cc219f8664"),
        (3, "eac40744-4ded-4ddf-b812-2267be694e7f"),
    ] {
        assert_eq!(child_id("msg_settle_1", index).to_string(), id);
    }
}

// VC-CAN-7
#[test]
fn the_objects_of_the_specification() {
    assert_eq!(
        object_id(ObjectKind::Tx, "msg_settle_1"),
        "tx_1373c07fe0b5ed29"
    );
    assert_eq!(
        object_id(ObjectKind::Order, "msg_settle_1"),
        "ord_d6be1cfcfbdc30bf"
    );
}

proptest! {
    #[test]
    fn children_are_version_4_and_differ(parent in "[a-z0-9._:-]{1,128}", index in 1..u64::MAX) {
        let id = child_id(&parent, index);
        prop_assert!(is_uuid4(&id.to_string()));
        prop_assert_ne!(id, child_id(&parent, index + 1));
    }

    #[test]
    fn objects_are_prefix_and_sixteen_hex(msg_id in "\\PC{0,64}") {
        for kind in ObjectKind::ALL {
            let id = object_id(kind, &msg_id);
            let digits = id.strip_prefix(kind.prefix()).unwrap();
            prop_assert_eq!(digits.len(), 16);
            prop_assert!(digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
        }
    }
}
