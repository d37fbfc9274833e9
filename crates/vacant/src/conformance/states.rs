//! The six states: predicates, and each state's row of the table.

use super::{Case, File, expect};
use crate::state::{Event, State};

/// The predicates of a state, and all its cells.
pub(super) fn state(case: &mut Case, file: &mut File) -> Result<(), String> {
    let name = case.text("state")?;
    let state = State::parse(&name).ok_or("no such state")?;
    expect(
        "can_be_called",
        state.can_be_called(),
        case.bool("can_be_called")?,
    )?;
    expect("can_review", state.can_review(), case.bool("can_review")?)?;
    expect(
        "is_runnable",
        state.is_runnable(),
        case.bool("is_runnable")?,
    )?;
    expect(
        "requires_revive",
        state.requires_revive(),
        case.bool("requires_revive")?,
    )?;
    expect("http", u64::from(state.status()), case.number("http")?)?;
    let mut others = Vec::new();
    for mut cell in std::mem::take(&mut file.cells) {
        let of = cell.text("state")?;
        if of == name {
            check(state, &mut cell)?;
            cell.finish()?;
        } else {
            others.push(back(of, cell)?);
        }
    }
    file.cells = others;
    Ok(())
}

/// The cell with the name of its state put back.
fn back(state: String, cell: Case) -> Result<Case, String> {
    let mut members = cell.into_members();
    members.insert("state", state);
    Case::of(members.into())
}

fn check(state: State, cell: &mut Case) -> Result<(), String> {
    let event = cell.text("event")?;
    let event = Event::parse(&event).ok_or("no such event")?;
    match (state.after(event), cell.optional_text("next")?) {
        (Ok(next), Some(expected)) => expect(event.as_str(), next.as_str(), expected.as_str()),
        (Err(_), None) => expect(
            event.as_str(),
            "InvalidEventError",
            cell.text("error")?.as_str(),
        ),
        (found, expected) => Err(format!(
            "{event}: {found:?}, expected next state {expected:?}"
        )),
    }
}
