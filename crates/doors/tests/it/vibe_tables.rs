//! The tables of `vectors/vibe` over HTTP: what a function says of a row, a node says of an envelope. And the permission
//! table as the specification prints it, of which the vectors have a part.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use chancery_store::Memory;
use serde_json::{Value, json};

use crate::support::answer;
use crate::vibe_support::{Market, Served, envelope, mandate, world};

/// The cases of a table.
fn cases(table: &str) -> (Value, Vec<Value>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/vibe");
    let text = std::fs::read(folder.join(format!("{table}.json"))).unwrap();
    let file: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(file["suite"], format!("vibe/{table}"));
    let cases = file["cases"].as_array().unwrap().clone();
    (file, cases)
}

async fn node(world: &Value) -> Served {
    let market = Market::over(world.to_string().as_bytes());
    market.start(Arc::new(Memory::new())).await
}

/// A question of a buyer that holds these members beside its own, as they are written.
fn question(id: &str, members: &str) -> String {
    let way = ["buyer:negotiation", "merchant:support"];
    let payload = json!({"merchant_id": "m_keys", "sku_id": "sku_quiet"});
    let asked = envelope(id, "s1", way[0], way[1], "commerce.request_offer", payload);
    let text = asked.to_string();
    let more = format!("\"payload\":{{{members},");
    let whole = text.replacen("\"payload\":{", &more, 1);
    assert_ne!(whole, text);
    whole
}

/// The members of a case's payload, as they are written.
fn members(case: &Value) -> String {
    let text = match case["payload_json"].as_str() {
        Some(text) => text.to_owned(),
        None => case["payload"].to_string(),
    };
    text[1..text.len() - 1].to_owned()
}

async fn sent(node: &Served, body: String) -> (u16, Value) {
    answer(node.post("/vcp", body).send().await.unwrap()).await
}

/// What the permission table says of an action.
#[derive(Debug, PartialEq, Eq)]
struct Permission {
    kind: String,
    /// Who may send it to whom.
    pairs: BTreeSet<(String, String)>,
    /// Whether the runtime alone makes it, inside another action.
    inside: bool,
}

fn names(value: &Value) -> Vec<String> {
    let names = value.as_array().unwrap().iter();
    names
        .map(|name| name.as_str().unwrap().to_owned())
        .collect()
}

/// The addresses that send in the table of the vectors, and the actions that it has.
fn partition() -> (Vec<String>, Vec<Permission>) {
    let (file, cases) = cases("partition");
    let senders = names(&file["addresses"]);
    let permission = |case: &Value| Permission {
        kind: case["kind"].as_str().unwrap().to_owned(),
        pairs: senders
            .iter()
            .filter_map(|from| Some((from, case["pairs"].get(from)?)))
            .flat_map(|(from, to)| names(to).into_iter().map(|to| (from.clone(), to)))
            .collect(),
        inside: match case["verdict"].as_str().unwrap() {
            "allow" => false,
            "outside_transaction" => true,
            other => panic!("no verdict {other}"),
        },
    };
    let permissions = cases.iter().map(permission).collect();
    (senders, permissions)
}

/// The receivers: whoever sends, and the world.
fn with_world(senders: &[String]) -> Vec<String> {
    [senders, &["world".to_owned()]].concat()
}

/// Sends an action from everybody to everybody; gives how many cells that were.
async fn ask(node: &Served, senders: &[String], permission: &Permission) -> usize {
    let codes = ["partition_denied", "outside_transaction"];
    let receivers = with_world(senders);
    for from in senders {
        for to in &receivers {
            let kind = &permission.kind;
            let id = format!("{kind}-{from}-{to}");
            let asked = envelope(&id, "s1", from, to, kind, json!({}));
            let (status, body) = node.say(&asked).await;
            let is_there = permission.pairs.contains(&(from.clone(), to.clone()));
            let denied = match (is_there, permission.inside) {
                (false, _) => Some((403, "partition_denied")),
                (true, true) => Some((409, "outside_transaction")),
                (true, false) => None,
            };
            let said = body["code"].as_str().filter(|code| codes.contains(code));
            assert_eq!(said.map(|code| (status, code)), denied, "{id}: {body}");
        }
    }
    senders.len() * receivers.len()
}

/// Sends several actions at once.
async fn ask_all(senders: Vec<String>, permissions: Vec<Permission>) -> usize {
    let node = Arc::new(node(&world()).await);
    let mut asking = tokio::task::JoinSet::new();
    for permission in permissions {
        let (node, senders) = (Arc::clone(&node), senders.clone());
        asking.spawn(async move { ask(&node, &senders, &permission).await });
    }
    let cells = asking.join_all().await.into_iter().sum();
    Arc::into_inner(node).unwrap().stop().await;
    cells
}

// VC-PART-1, VC-PART-4, VC-PART-5, VC-ACT-world-3, VC-PIPE-1
#[tokio::test(flavor = "multi_thread")]
async fn every_cell_of_the_permission_table_is_answered_so() {
    let (senders, permissions) = partition();
    assert_eq!(ask_all(senders, permissions).await, 23 * 20 * 21);
}

/// A row of section 4.
struct Row<'s> {
    /// The action; none where it goes on with the one before.
    kind: Option<String>,
    from: Vec<String>,
    to: Vec<String>,
    marks: &'s str,
}

impl<'s> Row<'s> {
    fn parse(line: &'s str) -> Option<Self> {
        let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
        let quoted = |cell: &str| -> Vec<String> {
            let words = cell.split('`').skip(1).step_by(2);
            words.map(str::to_owned).collect()
        };
        let row = Self {
            kind: quoted(cells[0]).pop(),
            from: quoted(cells[1]),
            to: quoted(cells[2]),
            marks: cells[3],
        };
        (!row.from.is_empty()).then_some(row)
    }
}

/// The table of section 4 as it is printed there, for these addresses.
fn printed(senders: &[String]) -> Vec<Permission> {
    let spec = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/spec/vibe-commerce.md");
    let spec = std::fs::read_to_string(spec).unwrap();
    let section = spec.split("\n## 4. ").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let mut permissions: Vec<Permission> = Vec::new();
    for row in section.lines().filter_map(Row::parse) {
        let Row {
            from, to, marks, ..
        } = row;
        if let Some(kind) = row.kind {
            permissions.push(Permission {
                kind,
                pairs: BTreeSet::new(),
                inside: marks.split(' ').any(|mark| mark == "R"),
            });
        }
        let permission = permissions.last_mut().unwrap();
        // "a ↔ b | the other"
        let ways = match to.is_empty() {
            true => vec![(&from[..1], &from[1..]), (&from[1..], &from[..1])],
            false => vec![(&from[..], &to[..])],
        };
        for (from, to) in ways {
            permission.pairs.extend(pairs(senders, from, to));
        }
    }
    permissions
}

/// Who may send where these roles may: they themselves, and who speaks or hears for their whole side (VC-ADR-4, VC-ADR-5).
fn pairs(senders: &[String], from: &[String], to: &[String]) -> Vec<(String, String)> {
    let side = |address: &str| address.split(':').next().unwrap().to_owned();
    let is_numbered = |address: &str| address.ends_with(|last: char| last.is_ascii_digit());
    let stands_for = |address: &str, role: &String| {
        address == role
            || ((!address.contains(':') || is_numbered(address)) && side(address) == side(role))
    };
    let may_send = |sender: &&String| {
        let stands = |role: &&String| stands_for(sender, role);
        let mut roles = from.iter().filter(stands);
        roles.any(|role| *sender == role || (*sender != "platform" && role != "merchant:owner"))
    };
    let receivers = with_world(senders);
    let may_hear = |receiver: &&String| to.iter().any(|role| stands_for(receiver, role));
    let receivers: Vec<&String> = receivers.iter().filter(may_hear).collect();
    senders
        .iter()
        .filter(may_send)
        .flat_map(|from| receivers.iter().map(|to| (from.clone(), (*to).clone())))
        .collect()
}

// VC-PART-1, VC-PART-2, VC-PART-3, VC-PART-4, VC-PART-5, VC-ADR-4, VC-ADR-5, VC-ACT-world-3
#[tokio::test(flavor = "multi_thread")]
async fn what_the_vectors_leave_out_of_the_permission_table_is_answered_as_it_is_printed() {
    let (senders, in_vectors) = partition();
    let mut printed = printed(&senders);
    assert_eq!(printed.len(), 34);
    for permission in in_vectors {
        let at = printed.iter().position(|of| of.kind == permission.kind);
        assert_eq!(printed.remove(at.unwrap()), permission);
    }
    assert_eq!(ask_all(senders, printed).await, 11 * 20 * 21);
}

// VC-PRIV-6, VC-PRIV-7, VC-PRIV-8, VC-PRIV-10
#[tokio::test(flavor = "multi_thread")]
async fn what_gives_a_private_value_away_is_refused_at_its_place() {
    let (_, cases) = cases("guard");
    let mut told = std::collections::BTreeMap::<String, Vec<Value>>::new();
    for case in cases {
        let of = format!("{} {}", case["private"], case["currency"]);
        assert_eq!(case["known_currencies"], json!([case["currency"]]), "{of}");
        told.entry(of).or_default().push(case);
    }
    for (of, cases) in told {
        // A world of one currency, so that no other is known in it.
        let currency = cases[0]["currency"].as_str().unwrap();
        let text = world()
            .to_string()
            .replace("\"USD\"", &format!("\"{currency}\""));
        let node = node(&serde_json::from_str(&text).unwrap()).await;
        let mut own = mandate("s1", "c_ada", "acc_ada");
        own["action"]["payload"]["hard_constraints"]["budget"] = cases[0]["private"].clone();
        node.must(&own).await;
        for (number, case) in cases.iter().enumerate() {
            let (status, body) =
                sent(&node, question(&format!("q-{number}"), &members(case))).await;
            if case["leak"] == true {
                let leak = (403, &json!("private_utility_leak"), &case["param"]);
                assert_eq!(
                    (status, &body["code"], &body["param"]),
                    leak,
                    "{of}: {case}"
                );
            } else {
                assert_eq!(status, 200, "{of}: {case}: {body}");
            }
        }
        node.stop().await;
    }
}

/// A node with a session in which nothing is private.
async fn searched() -> Served {
    let node = node(&world()).await;
    let way = ["buyer:discovery", "platform:aggregator"];
    let query = json!({"query": "keyboard"});
    let search = envelope("search", "s1", way[0], way[1], "commerce.search", query);
    node.must(&search).await;
    node
}

// VC-MON-1, VC-MON-2, VC-MON-3, VC-MON-4
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_money_is_refused_at_its_place() {
    let node = searched().await;
    for (number, case) in cases("money").1.iter().enumerate() {
        let (status, body) = sent(&node, question(&format!("q-{number}"), &members(case))).await;
        if case["ok"] == true {
            assert_eq!(status, 200, "{case}: {body}");
        } else {
            let fault = (400, &case["code"], &case["param"]);
            assert_eq!((status, &body["code"], &body["param"]), fault, "{case}");
        }
    }
    node.stop().await;
}

// VC-CAN-1, VC-CAN-2, VC-CAN-3, VC-CAN-4, VC-ENV-18, VC-AUD-2
#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_is_on_record_in_canonical_form() {
    let node = searched().await;
    let (mut written, mut refused) = (0, 0);
    for (number, case) in cases("canonical").1.iter().enumerate() {
        let members = format!("\"x\":{}", case["input"].as_str().unwrap());
        let (status, body) = sent(&node, question(&format!("q-{number}"), &members)).await;
        if let Some(error) = case["error"].as_str() {
            assert_eq!(
                (status, body["code"].as_str()),
                (400, Some(error)),
                "{case}"
            );
            refused += 1;
            continue;
        }
        assert_eq!(status, 200, "{case}: {body}");
        let seq = body["seq"].as_u64().unwrap();
        let line = node.office.gate().store().lines(seq, 1).unwrap();
        let expected = chancery_core::digest::hex::decode(case["canonical_hex"].as_str().unwrap());
        let expected = [&b"\"x\":"[..], &expected.unwrap()].concat();
        let found = line[0].windows(expected.len()).any(|part| part == expected);
        assert!(found, "{case}: {}", String::from_utf8_lossy(&line[0]));
        written += 1;
    }
    assert!(written >= 20 && refused >= 15, "{written} {refused}");
    node.stop().await;
}
