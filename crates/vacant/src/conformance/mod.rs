//! The vector files of this protocol, run against the functions a node calls.
//!
//! Nothing is passed over: a file, a case or a member that no runner knows is a failure. Expectations come from the
//! file alone; members that start with `reference` record what other releases do and say nothing about us.

mod calls;
mod cards;
mod case;
mod envelopes;
mod host;
mod primitives;
mod scores;
mod servers;
mod states;

use std::collections::BTreeSet;

use case::Case;
pub use chancery_core::conformance::SuiteReport;
use chancery_core::conformance::expect;
use chancery_core::digest::Sha256Digest;
use chancery_core::keys::ed25519::SigningKey;

use crate::id::VacantId;
use crate::payload::Profile;

/// What the members of a file beside its cases say.
struct File {
    profile: Profile,
    /// The seed of the server that requests go to.
    server: Option<[u8; 32]>,
    /// The cells of the table of states, each checked with the case of its state.
    cells: Vec<Case>,
}

type Runner = fn(&mut Case, &mut File) -> Result<(), String>;

/// Suites by the name their files carry.
const RUNNERS: [(&str, Runner); 17] = [
    ("keys", primitives::key),
    ("canonical_json", primitives::canonical_json),
    ("timestamps", primitives::timestamp),
    ("envelopes_base", envelopes::envelope),
    ("envelopes_selfeval", envelopes::envelope),
    ("parse_base", envelopes::parse),
    ("parse_selfeval", envelopes::parse),
    ("tamper_base", envelopes::tamper),
    ("tamper_selfeval", envelopes::tamper),
    ("cards", cards::card),
    ("card_blobs", cards::blob),
    ("state_machine", states::state),
    ("ucb", scores::ucb),
    ("dispatch", calls::dispatch),
    ("replay_base", servers::replay),
    ("replay_selfeval", servers::replay),
    ("serve", servers::serve),
];

/// The names of the suites that can be run.
pub fn suites() -> impl Iterator<Item = &'static str> {
    RUNNERS.iter().map(|(suite, _)| *suite)
}

/// Runs a vector file against this build.
pub fn run(file: &str) -> SuiteReport {
    let mut file = match Case::parse(file) {
        Ok(file) => file,
        Err(reason) => return SuiteReport::unreadable("", reason),
    };
    let suite = match file.text("name") {
        Ok(suite) => suite,
        Err(reason) => return SuiteReport::unreadable("", reason),
    };
    let Some((_, runner)) = RUNNERS.iter().find(|(known, _)| *known == suite) else {
        return SuiteReport::unreadable(&suite, "no runner for this suite");
    };
    let (mut about, cases) = match File::read(file, &suite) {
        Ok(read) => read,
        Err(reason) => return SuiteReport::unreadable(&suite, reason),
    };
    let mut ids = BTreeSet::new();
    let mut outcomes = Vec::with_capacity(cases.len());
    for mut case in cases {
        let id = case.text("id").unwrap_or_default();
        let outcome = if id.is_empty() || !ids.insert(id.clone()) {
            Err("the case has no id of its own".to_owned())
        } else {
            case.optional_text("note")
                .and_then(|_| runner(&mut case, &mut about))
                .and_then(|()| case.finish())
        };
        outcomes.push((id, outcome));
    }
    if let Err(reason) = about.finish() {
        outcomes.push(("file".to_owned(), Err(reason)));
    }
    SuiteReport {
        suite,
        cases: outcomes,
    }
}

impl File {
    fn read(mut file: Case, suite: &str) -> Result<(Self, Vec<Case>), String> {
        let profile = file.text("profile")?;
        let profile = Profile::parse(&profile).ok_or("the file names no profile")?;
        let cases = file.cases("cases")?;
        if cases.is_empty() {
            return Err("the file has no cases".to_owned());
        }
        let cells = match suite {
            "state_machine" => file.cases("cells")?,
            _ => Vec::new(),
        };
        let server = match suite {
            "serve" => Some(read_server(&mut file)?),
            _ => None,
        };
        file.finish()?;
        let about = Self {
            profile,
            server,
            cells,
        };
        Ok((about, cases))
    }

    /// Nothing of the file may be left unchecked.
    fn finish(&self) -> Result<(), String> {
        if self.cells.is_empty() {
            return Ok(());
        }
        Err(format!("{} cells belong to no case", self.cells.len()))
    }
}

/// The server of a file, with the behaviour that the runner's server has.
fn read_server(file: &mut Case) -> Result<[u8; 32], String> {
    let seed = file.array("server_seed_hex")?;
    let id = VacantId::of(&SigningKey::from_seed(&seed)).hex();
    expect("id of the server", file.text("server_vacant_id")?, id)?;
    let behaviour =
        "reply role ROLE_AGENT, one text part 'echo: ' + request texts joined by one blank";
    expect("behaviour", file.text("behaviour")?.as_str(), behaviour)?;
    Ok(seed)
}

/// The key of a label (section 21).
fn key_of(label: &str) -> SigningKey {
    let seed = Sha256Digest::of(format!("vacant-vector:{label}").as_bytes());
    SigningKey::from_seed(&seed.0)
}
