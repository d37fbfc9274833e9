//! `model:NAME`: a language model behind any OpenAI-compatible chat endpoint.
//!
//! One chat completion a step, streamed; the form of decisions is asked for by JSON schema. Rate limits, faults of the
//! server and streams that are cut off are tried again with growing pauses, within the turn's time. Tokens and cost are
//! counted; where a price or a count is missing the cost is unknown, never zero. The key is in no log and no error.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::{Form, InferElsewhere, Inferred, Request, Unanswered};
use crate::budget::Usage;

/// The largest answer, and the largest line of a stream.
const MAX_ANSWER: usize = 262_144;
/// Attempts in all.
const ATTEMPTS: u32 = 4;
/// The first pause; it doubles.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest pause that a server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

/// The model could not be reached, or the stream was cut off.
pub const MODEL_FAILED: &str = "model_failed";
/// The model's server refused, and asking again cannot help.
pub const MODEL_STATUS: &str = "model_status";
/// The model asked for patience longer than there is.
pub const MODEL_BUSY: &str = "model_busy";
/// The answer is too large or not in the form of the interface.
pub const MODEL_ANSWER: &str = "model_answer";

/// How a model is reached, and what it costs.
#[derive(Clone)]
pub struct ModelSettings {
    /// The address of the interface, such as `https://api.example/v1`.
    pub url: String,
    /// The model's name there.
    pub model: String,
    /// The key; none for a server that asks for none.
    pub key: Option<String>,
    /// Millionths of a currency unit for a million tokens taken in.
    pub price_in: Option<u64>,
    /// The same for tokens given out.
    pub price_out: Option<u64>,
}

impl fmt::Debug for ModelSettings {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelSettings")
            .field("url", &self.url)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl ModelSettings {
    /// The cost of tokens in millionths; none where a price is not known.
    pub fn cost(&self, prompt_tokens: u64, completion_tokens: u64) -> Option<u64> {
        let cost = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
        let sum = cost(prompt_tokens, self.price_in?) + cost(completion_tokens, self.price_out?);
        // A part of a millionth counts whole: a cost is never said too low.
        Some(u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

/// A model that answers for an agent.
#[derive(Debug)]
pub struct Model {
    settings: ModelSettings,
    client: reqwest::Client,
}

/// An attempt that failed.
struct Failed {
    code: &'static str,
    /// After how long another may help.
    again: Option<Duration>,
    /// What it took all the same.
    usage: Option<Usage>,
}

impl Failed {
    fn for_good(code: &'static str) -> Self {
        Self {
            code,
            again: None,
            usage: None,
        }
    }

    fn again(code: &'static str) -> Self {
        Self {
            again: Some(Duration::ZERO),
            ..Self::for_good(code)
        }
    }
}

impl Model {
    /// A model.
    pub fn new(settings: ModelSettings, client: reqwest::Client) -> Self {
        Self { settings, client }
    }

    /// The body of a request.
    fn body(&self, request: &Request) -> Value {
        let mut body = json!({
            "model": self.settings.model,
            "stream": true,
            "stream_options": {"include_usage": true},
            "messages": [
                {"role": "system", "content": request.system_prompt()},
                {"role": "user", "content": request.user_prompt()},
            ],
        });
        if request.form == Form::Decisions {
            body["response_format"] = json!({"type": "json_schema", "json_schema": {
                "name": "decision", "schema": decision_schema(),
            }});
        }
        body
    }

    async fn ask(&self, body: &[u8]) -> Result<Inferred, Failed> {
        let url = format!(
            "{}/chat/completions",
            self.settings.url.trim_end_matches('/')
        );
        let mut sent = self
            .client
            .post(url)
            .header("content-type", "application/json")
            .header("accept", "text/event-stream");
        if let Some(key) = &self.settings.key {
            sent = sent.bearer_auth(key);
        }
        let response = sent.body(body.to_vec()).send().await;
        let mut response = response.map_err(|_| Failed::again(MODEL_FAILED))?;
        check_status(&response)?;
        let mut stream = Stream::default();
        while let Some(part) = response
            .chunk()
            .await
            .map_err(|_| stream.cut_off(&self.settings))?
        {
            stream.take(&part)?;
            if stream.is_done {
                break;
            }
        }
        stream.finish(&self.settings)
    }
}

/// The schema of a decision, as it ships.
pub fn decision_schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let text = include_str!("../../schemas/decision.json");
        serde_json::from_str(text).expect("the schema that ships is JSON")
    })
}

fn check_status(response: &reqwest::Response) -> Result<(), Failed> {
    match response.status().as_u16() {
        200 => Ok(()),
        429 | 500..=599 => {
            let asked = response.headers().get("retry-after");
            let asked = asked.and_then(|value| value.to_str().ok()?.parse().ok());
            let pause = asked.map_or(Duration::ZERO, Duration::from_secs);
            if pause > LONGEST_PAUSE {
                return Err(Failed::for_good(MODEL_BUSY));
            }
            Err(Failed {
                again: Some(pause),
                ..Failed::for_good(MODEL_BUSY)
            })
        }
        _ => Err(Failed::for_good(MODEL_STATUS)),
    }
}

/// A stream of server-sent events, read as it comes.
#[derive(Default)]
struct Stream {
    line: Vec<u8>,
    text: String,
    tokens: Option<(u64, u64)>,
    has_ended: bool,
    is_done: bool,
}

impl Stream {
    fn take(&mut self, part: &[u8]) -> Result<(), Failed> {
        for byte in part {
            if *byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                self.event(&line)?;
            } else {
                self.line.push(*byte);
            }
            if self.line.len() > MAX_ANSWER || self.text.len() > MAX_ANSWER {
                return Err(Failed::for_good(MODEL_ANSWER));
            }
        }
        Ok(())
    }

    fn event(&mut self, line: &[u8]) -> Result<(), Failed> {
        let line = std::str::from_utf8(line).map_err(|_| Failed::for_good(MODEL_ANSWER))?;
        // Comments, names of events and blank lines say nothing here.
        let Some(data) = line.trim_end_matches('\r').strip_prefix("data:") else {
            return Ok(());
        };
        let data = data.trim();
        if data == "[DONE]" {
            self.is_done = true;
            return Ok(());
        }
        let event: Value =
            serde_json::from_str(data).map_err(|_| Failed::for_good(MODEL_ANSWER))?;
        if !event["error"].is_null() {
            return Err(Failed::again(MODEL_FAILED));
        }
        let choice = &event["choices"][0];
        self.text
            .push_str(choice["delta"]["content"].as_str().unwrap_or_default());
        self.has_ended |= choice["finish_reason"].is_string();
        let usage = &event["usage"];
        if let (Some(prompt), Some(completion)) = (
            usage["prompt_tokens"].as_u64(),
            usage["completion_tokens"].as_u64(),
        ) {
            self.tokens = Some((prompt, completion));
        }
        Ok(())
    }

    fn usage(&self, settings: &ModelSettings) -> Usage {
        let (prompt_tokens, completion_tokens) = self.tokens.unwrap_or_default();
        let cost = self
            .tokens
            .and_then(|(prompt, completion)| settings.cost(prompt, completion));
        Usage {
            prompt_tokens,
            completion_tokens,
            micros: cost,
        }
    }

    fn cut_off(&self, settings: &ModelSettings) -> Failed {
        Failed {
            usage: Some(self.usage(settings)),
            ..Failed::again(MODEL_FAILED)
        }
    }

    fn finish(self, settings: &ModelSettings) -> Result<Inferred, Failed> {
        if !self.is_done && !self.has_ended {
            return Err(self.cut_off(settings));
        }
        let usage = self.usage(settings);
        Ok(Inferred {
            text: self.text,
            usage,
        })
    }
}

impl InferElsewhere for Model {
    fn infer(&self, request: Request) -> BoxFuture<'_, Result<Inferred, Unanswered>> {
        Box::pin(async move {
            let body = self.body(&request).to_string();
            let (mut spent, mut pause) = (Usage::FREE, PAUSE);
            for attempt in 1.. {
                match self.ask(body.as_bytes()).await {
                    Ok(mut inferred) => {
                        inferred.usage = inferred.usage.and(spent);
                        return Ok(inferred);
                    }
                    Err(failed) => {
                        spent = failed.usage.map_or(spent, |usage| spent.and(usage));
                        let Some(asked) = failed.again.filter(|_| attempt < ATTEMPTS) else {
                            let code = failed.code;
                            return Err(Unanswered { code, usage: spent });
                        };
                        tokio::time::sleep(asked.max(pause)).await;
                        pause *= 2;
                    }
                }
            }
            unreachable!("the last attempt answers")
        })
    }
}
