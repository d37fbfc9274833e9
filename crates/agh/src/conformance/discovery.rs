//! Who is there and under which name: presence, questions, catalogs, subjects, rooms.

use serde_json::{Value, json};

use super::host::Host;
use super::{File, expect};
use crate::body::card::PeerCard;
use crate::conversation::direct_id;
use crate::peer::PeerRecord;
use crate::settings::Settings;
use crate::soft::Standing;
use crate::subject;
use crate::whois::Catalog;
use chancery_core::conformance::Case;

const NOW: i64 = 1_776_366_010;

/// The standing of a remote peer by age.
pub(super) fn presence(case: &mut Case, file: &File) -> Result<(), String> {
    let interval = file.greet_interval.ok_or("the file says no interval")?;
    let standing = Standing::of(case.integer("last_seen")?, case.integer("now")?, interval);
    expect("state", standing.as_str(), case.text("state")?.as_str())?;
    expect(
        "visible",
        standing != Standing::Expired,
        case.bool("visible")?,
    )
}

/// Whether a question is about a peer.
pub(super) fn question(case: &mut Case, file: &File) -> Result<(), String> {
    let card = file.peer_card.clone().ok_or("the file has no card")?;
    let card: PeerCard = serde_json::from_value(card).map_err(|error| error.to_string())?;
    let query = case.text_if_any("query")?;
    expect(
        "matches",
        card.matches(query.as_deref()),
        case.bool("matches")?,
    )
}

/// The catalog in an answer.
pub(super) fn catalog(case: &mut Case, _: &File) -> Result<(), String> {
    let entry = |id: &String| json!({"id": id, "summary": "s", "outcome": "o"});
    let entries = case.texts("catalog_ids")?.iter().map(entry).collect();
    let mut host = Host::new(Settings::default());
    host.host(&PeerRecord::new(
        "designer.x",
        "builders",
        None,
        None,
        Vec::new(),
        Catalog::new(entries)?,
    ))?;
    let mut request = json!({
        "protocol": "agh-network/v0", "id": "q", "kind": "whois", "channel": "builders",
        "from": "asker.x", "to": "designer.x", "ts": NOW, "body": {"type": "request"},
        "proof": null,
    });
    if let Value::Object(ext) = case.take("request_ext")? {
        request["ext"] = ext.into();
    }
    let outcome = host.receive(request.to_string(), NOW);
    let answer = outcome.emitted.first().ok_or("there is no answer")?;
    let answer: Value = serde_json::from_slice(answer).map_err(|error| error.to_string())?;
    let shown = answer["ext"].get(crate::whois::CATALOG);
    let ids = |list: &Value| -> Option<Vec<String>> {
        let list = list.as_array()?;
        let id = |entry: &Value| Some(entry.get("id")?.as_str()?.to_owned());
        list.iter().map(id).collect()
    };
    let found = shown.and_then(|catalog| ids(&catalog["capabilities"]));
    expect("catalog", found, case.texts_or_null("expect_catalog_ids")?)?;
    let listed = &answer["body"]["peer_card"]["capabilities"];
    let expected = case.texts("expect_card_capabilities")?;
    expect("capabilities of the card", listed, &json!(expected))
}

/// Route tokens and subjects.
pub(super) fn subjects(case: &mut Case, _: &File) -> Result<(), String> {
    let (peer, channel) = (case.text("peer_id")?, case.text("channel")?);
    expect(
        "token",
        subject::route_token(&peer),
        case.text("route_token")?,
    )?;
    let direct = subject::direct(None, &channel, &peer);
    expect(
        "parsed",
        subject::parse(&direct),
        Some((None, channel.as_str())),
    )?;
    expect("direct", direct, case.text("direct_subject")?)?;
    let broadcast = subject::broadcast(None, &channel);
    expect("broadcast", broadcast, case.text("broadcast_subject")?)
}

/// Subjects with a workspace.
pub(super) fn subjects_b(case: &mut Case, _: &File) -> Result<(), String> {
    let (workspace, channel) = (case.text("workspace_id")?, case.text("channel")?);
    let direct = subject::direct(Some(&workspace), &channel, &case.text("peer_id")?);
    let place = Some((Some(workspace.as_str()), channel.as_str()));
    expect("parsed", subject::parse(&direct), place)?;
    expect("direct", direct, case.text("direct")?)?;
    let broadcast = subject::broadcast(Some(&workspace), &channel);
    expect("broadcast", broadcast, case.text("broadcast")?)
}

/// The name of a direct room.
pub(super) fn room(case: &mut Case, _: &File) -> Result<(), String> {
    let (workspace, channel) = (case.text("workspace_id")?, case.text("channel")?);
    let peers = case.texts("peers")?;
    let [one, other] = peers.as_slice() else {
        return Err("a room has two peers".to_owned());
    };
    let found = direct_id(&workspace, &channel, one, other);
    expect("direct_id", found, case.text_if_any("direct_id")?)
}
