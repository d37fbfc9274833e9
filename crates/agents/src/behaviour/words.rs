//! A behaviour as a node asks it that wants words: for vacants, and for whoever else answers without a turn loop.

use std::sync::Arc;

use chancery_node::respond::{Answering, NoWords, Question, Respond};
use serde_json::{Value, json};

use super::{Form, InferElsewhere, Request, Script};

/// The script has nothing to say to this.
pub const NO_LINE: &str = "no_line";

/// Answers in words.
pub struct Words {
    source: Source,
    instructions: String,
}

enum Source {
    Script(Script),
    Elsewhere(Arc<dyn InferElsewhere>),
}

impl Words {
    /// The words of a script.
    #[must_use]
    pub fn script(script: Script) -> Self {
        Self {
            source: Source::Script(script),
            instructions: String::new(),
        }
    }

    /// The words of something elsewhere, which is told what its role asks.
    pub fn elsewhere(behaviour: Arc<dyn InferElsewhere>, instructions: &str) -> Self {
        Self {
            source: Source::Elsewhere(behaviour),
            instructions: instructions.to_owned(),
        }
    }
}

/// The question as a behaviour sees it.
fn inbound(question: &Question, what: (&str, &str)) -> Value {
    json!({
        "protocol": question.protocol.as_str(),
        "seq": question.seq,
        "from": question.from,
        "to": question.address,
        what.0: what.1,
    })
}

/// What a mind elsewhere is told: what it could take for the operator's words comes marked.
fn told(question: &Question) -> Value {
    match &question.marked {
        Some(marked) => inbound(question, ("message", marked)),
        None => inbound(question, ("text", &question.text)),
    }
}

impl Respond for Words {
    fn respond(&self, question: Question) -> Answering<'_> {
        let protocol = question.protocol.as_str();
        // The same when it is asked again after a restart.
        let turn_id = format!("{protocol}/{}/{}", question.agent, question.seq);
        Box::pin(async move {
            match &self.source {
                Source::Script(script) => {
                    let inbound = inbound(&question, ("text", &question.text));
                    let words = script.words(&inbound, &turn_id);
                    words.ok_or(NoWords(NO_LINE))
                }
                Source::Elsewhere(behaviour) => {
                    let inbound = told(&question);
                    let request = Request {
                        turn_id,
                        step: 1,
                        agent: question.agent,
                        address: question.address,
                        parts: vec![
                            ("instructions", json!(self.instructions)),
                            ("inbound", inbound),
                        ],
                        form: Form::Words,
                    };
                    let answer = behaviour.infer(request).await;
                    answer
                        .map(|inferred| inferred.text)
                        .map_err(|unanswered| NoWords(unanswered.code))
                }
            }
        })
    }

    fn is_pure(&self) -> bool {
        matches!(self.source, Source::Script(_))
    }
}
