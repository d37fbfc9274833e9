//! What an envelope carries: a role, text parts, two identifiers, and in one signing profile a self-evaluation.

use chancery_core::canonical::{Dialect, write_f64, write_string, write_string_html_safe};
use chancery_core::fault;
use serde::{Deserialize, Serialize};

/// Who speaks (VA-MSG-2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// The one who calls.
    #[default]
    #[serde(rename = "ROLE_USER")]
    User,
    /// The one who is called.
    #[serde(rename = "ROLE_AGENT")]
    Agent,
    /// A tool.
    #[serde(rename = "ROLE_TOOL")]
    Tool,
}

impl Role {
    /// The canonical name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "ROLE_USER",
            Self::Agent => "ROLE_AGENT",
            Self::Tool => "ROLE_TOOL",
        }
    }

    /// The role of that name; also in the spelling of A2A 0.3 (VA-WIRE-8).
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "user" | "agent" if fault::on("va-no-role-aliases") => None,
            "ROLE_USER" | "user" => Some(Self::User),
            "ROLE_AGENT" | "agent" => Some(Self::Agent),
            "ROLE_TOOL" => Some(Self::Tool),
            _ => None,
        }
    }
}

/// What a vacant thinks of its own answer: six scores in [0, 1] (VA-MSG-3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SelfEval {
    /// Is it true?
    pub factual: f64,
    /// Does it follow?
    pub logical: f64,
    /// Does it answer the question?
    pub relevance: f64,
    /// Does it say what it does not know?
    pub honesty: f64,
    /// Will it be used?
    pub adoption: f64,
    /// How sure is the speaker?
    pub confidence: f64,
}

impl Default for SelfEval {
    fn default() -> Self {
        Self {
            factual: 0.5,
            logical: 0.5,
            relevance: 0.5,
            honesty: 0.5,
            adoption: 0.5,
            confidence: 0.5,
        }
    }
}

impl SelfEval {
    /// The names of the scores, sorted as the canonical form sorts them.
    pub const NAMES: [&'static str; 6] = [
        "adoption",
        "confidence",
        "factual",
        "honesty",
        "logical",
        "relevance",
    ];

    /// The score of that name.
    pub fn score_mut(&mut self, name: &str) -> Option<&mut f64> {
        match name {
            "factual" => Some(&mut self.factual),
            "logical" => Some(&mut self.logical),
            "relevance" => Some(&mut self.relevance),
            "honesty" => Some(&mut self.honesty),
            "adoption" => Some(&mut self.adoption),
            "confidence" => Some(&mut self.confidence),
            _ => None,
        }
    }

    /// The scores in the order of [`SelfEval::NAMES`].
    #[must_use]
    pub const fn scores(&self) -> [f64; 6] {
        [
            self.adoption,
            self.confidence,
            self.factual,
            self.honesty,
            self.logical,
            self.relevance,
        ]
    }
}

/// What is signed: releases differ in one member (VA-MSG-5, VA-MSG-6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Without a self-evaluation: what the seed describes.
    #[default]
    Base,
    /// With one, or with `null` in its place.
    SelfEval,
}

impl Profile {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::SelfEval => "selfeval",
        }
    }

    /// The profile of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Base, Self::SelfEval]
            .into_iter()
            .find(|profile| profile.as_str() == name)
    }

    /// How a line names it: the base profile needs no mention (CH-JRN-3).
    #[must_use]
    pub const fn form(self) -> Option<&'static str> {
        match self {
            Self::Base => None,
            Self::SelfEval => Some(Self::SelfEval.as_str()),
        }
    }
}

/// The message inside an envelope. Only texts are implemented (VA-MSG-1), so a part is its text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Payload {
    /// Who speaks.
    pub role: Role,
    /// The texts of the parts.
    pub parts: Vec<String>,
    /// The conversation it belongs to.
    pub context_id: Option<String>,
    /// Its identifier.
    pub message_id: Option<String>,
    /// What the speaker thinks of it.
    pub self_eval: Option<SelfEval>,
}

impl Payload {
    /// One text.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            parts: vec![text.into()],
            ..Self::default()
        }
    }

    /// All texts, joined by one blank.
    #[must_use]
    pub fn joined(&self) -> String {
        self.parts.join(" ")
    }

    /// Writes the canonical payload object (VA-MSG-4).
    pub(crate) fn write_canonical(&self, profile: Profile, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"contextId\":");
        write_optional(self.context_id.as_deref(), out);
        out.extend_from_slice(b",\"messageId\":");
        write_optional(self.message_id.as_deref(), out);
        out.extend_from_slice(b",\"parts\":[");
        for (index, text) in self.parts.iter().enumerate() {
            out.extend_from_slice(if index == 0 {
                b"{\"text\":"
            } else {
                b",{\"text\":"
            });
            write_text(text, out);
            out.extend_from_slice(b",\"type\":\"text\"}");
        }
        out.extend_from_slice(b"],\"role\":\"");
        out.extend_from_slice(self.role.as_str().as_bytes());
        out.push(b'"');
        if profile == Profile::SelfEval {
            out.extend_from_slice(b",\"selfEval\":");
            match &self.self_eval {
                Some(scores) => write_scores(scores, out),
                None => out.extend_from_slice(b"null"),
            }
        }
        out.push(b'}');
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    if fault::on("va-html-escapes") {
        write_string_html_safe(text, out);
    } else {
        write_string(text, out);
    }
}

fn write_optional(text: Option<&str>, out: &mut Vec<u8>) {
    match text {
        Some(text) => write_string(text, out),
        None => out.extend_from_slice(b"null"),
    }
}

/// Scores are written as floats, whatever they were read as (VA-MSG-3).
fn write_scores(scores: &SelfEval, out: &mut Vec<u8>) {
    let dialect = match fault::on("va-numbers-normalised") {
        true => Dialect::Rfc8785,
        false => Dialect::Python,
    };
    for (index, (name, score)) in SelfEval::NAMES.iter().zip(scores.scores()).enumerate() {
        out.push(if index == 0 { b'{' } else { b',' });
        write_string(name, out);
        out.push(b':');
        write_f64(score, dialect, out);
    }
    out.push(b'}');
}
