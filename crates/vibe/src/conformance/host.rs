//! A node in a nutshell: the same functions in the same order, on rows in memory, with a door that knows what a request
//! says and nothing of a network.

use bytes::Bytes;
use chancery_core::admin::{self, Config, TokenRecord};
use chancery_core::decision::{Before, Cx, Open, Stop, Verdict};
use chancery_core::keys::{KeyRecord, Keyring};
use chancery_core::line::{Draft, ProtocolName};
use chancery_core::protocol::{Caller, Door, Input, Protocol};
use chancery_core::refusal::Refusal;
use chancery_core::rows::MapRows;
use chancery_core::time::Time;
use chancery_core::window::Windows;

use crate::answer::{Answer, refusal_body};
use crate::code::Code;
use crate::protocol::Vibe;
use crate::settings::Settings;
use crate::world::change::Act;
use crate::world::seed::Seed;

/// The largest body (VC-ENV-18).
const MAX_BODY_BYTES: usize = 262_144;

/// A request, as far as the protocol cares.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The body.
    pub body: Bytes,
    /// `Content-Type`; none counts as JSON.
    pub content_type: Option<String>,
    /// `Authorization`.
    pub authorization: Option<String>,
    /// `Idempotency-Key`.
    pub idempotency_key: Option<String>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Bytes,
    /// Whether it says `Idempotent-Replayed: true`.
    pub replayed: bool,
    /// How many lines the request added.
    pub lines_added: usize,
}

/// A node over one seed.
pub struct Host {
    settings: Settings,
    keyring: Keyring,
    rows: MapRows,
    windows: Windows,
    /// Bearer tokens with what each stands for; none when no token is asked for.
    tokens: Option<Vec<(String, TokenRecord)>>,
    /// The units so far: each input with all it caused.
    units: Vec<Vec<Draft>>,
    lines: u64,
}

impl Host {
    /// A node that starts from a seed: its first lines are the configuration, the pinned keys and the tokens.
    pub fn new(
        seed: &Seed,
        settings: Settings,
        tokens: Option<Vec<(String, TokenRecord)>>,
    ) -> Result<Self, String> {
        let settings = seed.in_settings(settings);
        settings.check().map_err(|fault| fault.to_string())?;
        let mut host = Self {
            settings,
            keyring: Keyring::new(),
            rows: seed.rows(),
            windows: Windows::default(),
            tokens: None,
            units: Vec::new(),
            lines: 0,
        };
        let value = serde_json::to_value(&host.settings).map_err(|error| error.to_string())?;
        let name = ProtocolName::Vibe.as_str().to_owned();
        host.administer(&admin::Act::Config(Config {
            protocols: [(name, value)].into(),
            ..Config::default()
        }))?;
        for record in seed.key_records() {
            host.administer(&admin::Act::Key(record))?;
        }
        host.follow_keys()?;
        for (_, record) in tokens.iter().flatten() {
            host.administer(&admin::Act::Token(record.clone()))?;
        }
        host.tokens = tokens;
        Ok(host)
    }

    /// A node that goes on from rows that a log left.
    pub fn resume(rows: MapRows, settings: Settings, lines: u64) -> Result<Self, String> {
        let keyring = admin::keyring(&rows).map_err(|damage| damage.to_string())?;
        Ok(Self {
            settings,
            keyring,
            rows,
            windows: Windows::default(),
            tokens: None,
            units: Vec::new(),
            lines,
        })
    }

    /// The rows so far.
    pub fn rows(&self) -> &MapRows {
        &self.rows
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The units so far.
    pub fn units(&self) -> &[Vec<Draft>] {
        &self.units
    }

    /// Takes a request at `now` through the whole pipeline.
    pub fn receive(&mut self, request: &Request, now: Time) -> Reply {
        let before = self.lines;
        let outcome = self.admit(request, now);
        let lines_added = usize::try_from(self.lines - before).unwrap_or(usize::MAX);
        match outcome {
            Ok(Answer::Accepted { body, replayed }) => Reply {
                status: 200,
                body,
                replayed,
                lines_added,
            },
            Ok(Answer::Changed { .. }) => Reply {
                status: 500,
                body: Bytes::new(),
                replayed: false,
                lines_added,
            },
            Err(refusal) => Reply {
                status: refusal.status,
                body: refusal_body(&refusal).into(),
                replayed: false,
                lines_added,
            },
        }
    }

    /// Puts a key on record, or another state of it. Signatures are still checked against the keys as they were, until
    /// [`Host::follow_keys`]: as for an envelope that is on its way meanwhile.
    pub fn record_key(&mut self, record: KeyRecord) -> Result<(), String> {
        self.administer(&admin::Act::Key(record))
    }

    /// Checks signatures against the keys as they are now.
    pub fn follow_keys(&mut self) -> Result<(), String> {
        self.keyring = admin::keyring(&self.rows).map_err(|damage| damage.to_string())?;
        Ok(())
    }

    /// Carries an operator's change out.
    pub fn change(&mut self, act: Act) -> Result<Answer, Refusal> {
        let settings = self.settings.clone();
        let input = Input::<Vibe>::Act(act);
        self.decide(Time::UNIX_EPOCH, |cx| Vibe.decide(&input, &settings, cx))
            .map_err(refusal_of)
    }

    fn admit(&mut self, request: &Request, now: Time) -> Result<Answer, Refusal> {
        let is_json = request
            .content_type
            .as_deref()
            .is_none_or(|kind| kind.split(';').next().map(str::trim) == Some("application/json"));
        if !is_json {
            return Err(Code::UnsupportedMediaType.refuse());
        }
        if request.body.len() > MAX_BODY_BYTES {
            return Err(Code::TooLarge.refuse());
        }
        let caller = self.caller(request)?;
        let settings = self.settings.clone();
        let message = Vibe.decode(request.body.clone(), Door::Http, &settings)?;
        message.check_header(request.idempotency_key.as_deref())?;
        let authentic =
            Vibe.authenticate(message, Door::Http, &caller, &self.keyring, &settings, now)?;
        let input = Input::Envelope(authentic);
        self.decide(now, |cx| Vibe.decide(&input, &settings, cx))
            .map_err(refusal_of)
    }

    fn caller(&self, request: &Request) -> Result<Caller, Refusal> {
        let Some(tokens) = &self.tokens else {
            return Ok(Caller::default());
        };
        let token = request
            .authorization
            .as_deref()
            .and_then(|value| value.strip_prefix("Bearer "));
        let record = token.and_then(|token| tokens.iter().find(|(known, _)| known == token));
        let (_, record) = record.ok_or_else(|| Code::Unauthenticated.refuse())?;
        Ok(Caller {
            principal: Some(record.principal.clone()),
            speaks_as: Some(record.addresses.clone()),
        })
    }

    fn administer(&mut self, act: &admin::Act) -> Result<(), String> {
        let hook: admin::AgentHook<'_> = &|_, _, _, _, _| Ok(());
        let decided = self.decide(Time::UNIX_EPOCH, |cx| {
            admin::decide(act, hook, cx).map(|_| Verdict::Record { answer: () })
        });
        decided.map_err(|stop| format!("the node cannot be set up: {stop:?}"))
    }

    fn decide<A>(
        &mut self,
        now: Time,
        rules: impl FnOnce(&mut Cx<'_>) -> Result<Verdict<A>, Stop>,
    ) -> Result<A, Stop> {
        let mut guards = Open;
        let mut cx = Cx::new(Before {
            now,
            seq: self.lines + 1,
            rows: &self.rows,
            windows: &self.windows,
            guards: &mut guards,
            nonce: [0; 16],
            keeps_agenda: true,
        });
        match rules(&mut cx)? {
            Verdict::Pass { answer, .. } => Ok(answer),
            Verdict::Record { answer } => {
                let (unit, _) = cx.into_unit()?;
                self.lines += unit.drafts.len() as u64;
                self.rows.apply(unit.rows);
                self.units.push(unit.drafts);
                Ok(answer)
            }
        }
    }
}

fn refusal_of(stop: Stop) -> Refusal {
    match stop {
        Stop::Refused(refusal) => refusal,
        stop => Code::Internal.refuse().at(format!("{stop:?}")),
    }
}
