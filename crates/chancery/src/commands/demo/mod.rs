//! `chancery demo`: a story on a node of its own, with its evidence; ends by checking the log that it wrote.
//!
//! Guarantees: needs nothing and leaves nothing, unless it is told to; a step that does not give what it should is named,
//! and the exit is not 0.

mod chain;
mod deal;
mod evidence;
mod handover;
mod stage;
mod story;
mod supervision;

use std::io::Write as _;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::exit::{Exit, Failed, Failure, Outcome};
use crate::terminal::Terminal;
use stage::Stage;

/// What `demo` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Leave the node's files in a new directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Be wrong in this way, on purpose
    #[cfg(feature = "seeded-faults")]
    #[arg(long, value_name = "NAME")]
    fault: Option<String>,
}

/// What a step gave: words for people, and the same for machines.
pub(super) struct Shown {
    words: Vec<String>,
    members: Map<String, Value>,
}

impl Shown {
    pub(super) fn new() -> Self {
        Self {
            words: Vec::new(),
            members: Map::new(),
        }
    }

    /// The same with a line for people.
    pub(super) fn line(mut self, words: impl Into<String>) -> Self {
        self.words.push(words.into());
        self
    }

    /// The same with a member for machines.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }
}

/// Why a step did not give what it should.
pub(super) type Step = Result<Shown, String>;

/// Shows steps as they end.
pub(super) struct Playbill<'t> {
    terminal: &'t mut Terminal,
    steps: usize,
}

impl Playbill<'_> {
    fn title(&mut self, title: &str) -> Result<(), Failed> {
        if self.terminal.json {
            return Ok(());
        }
        let title = self.terminal.bold(title);
        writeln!(self.terminal.out, "{title}")?;
        Ok(self.terminal.out.flush()?)
    }

    /// Shows a step; one that failed ends the story.
    pub(super) fn show(&mut self, name: &str, step: Step) -> Result<(), Failed> {
        self.end(name, step.map_err(Failure::no))
    }

    /// Something that a step cannot do without: where it cannot be had, the step has failed.
    pub(super) fn need<T>(&mut self, name: &str, had: Result<T, Failure>) -> Result<T, Failed> {
        match had {
            Ok(had) => Ok(had),
            Err(failure) => {
                self.end(name, Err(failure.clone()))?;
                Err(failure.into())
            }
        }
    }

    fn end(&mut self, name: &str, step: Result<Shown, Failure>) -> Result<(), Failed> {
        self.steps += 1;
        let outcome = if self.terminal.json {
            self.show_machine(name, step)
        } else {
            self.show_people(name, step)
        }?;
        self.terminal.out.flush()?;
        outcome.map_err(|failure| {
            let (step, reason) = (self.steps, &failure.what);
            let what = format!("step {step} ({name}) did not give what it should: {reason}");
            Failure { what, ..failure }.into()
        })
    }

    fn show_machine(
        &mut self,
        name: &str,
        step: Result<Shown, Failure>,
    ) -> Result<Result<(), Failure>, Failed> {
        let mut line = json!({"step": self.steps, "name": name, "ok": step.is_ok()});
        let outcome = match step {
            Ok(shown) => {
                line["evidence"] = Value::Object(shown.members);
                Ok(())
            }
            Err(failure) => {
                line["reason"] = json!(failure.what);
                Err(failure)
            }
        };
        self.terminal.json_line(&line)?;
        Ok(outcome)
    }

    fn show_people(
        &mut self,
        name: &str,
        step: Result<Shown, Failure>,
    ) -> Result<Result<(), Failure>, Failed> {
        let mark = match step {
            Ok(_) => self.terminal.good("ok"),
            Err(_) => self.terminal.bad("NO"),
        };
        writeln!(self.terminal.out, "{mark}  {:>2}. {name}", self.steps)?;
        Ok(match step {
            Ok(shown) => {
                for words in &shown.words {
                    let words = self.terminal.dim(words);
                    writeln!(self.terminal.out, "        {words}")?;
                }
                Ok(())
            }
            Err(failure) => Err(failure),
        })
    }
}

/// Plays the story.
pub(crate) fn run(args: &DemoArgs, terminal: &mut Terminal) -> Outcome {
    #[cfg(feature = "seeded-faults")]
    if let Some(name) = &args.fault {
        let _ = chancery_core::fault::choose(name);
    }
    let stage = Stage::build(args.keep.as_deref())?;
    let mut playbill = Playbill { terminal, steps: 0 };
    playbill.title(
        "value-context: agents of a home share what they know, and one asks another for help",
    )?;
    let runtime = super::serve::runtime()?;
    let played = runtime.block_on(story::play(&stage, &mut playbill));
    runtime.shutdown_background();
    played?;
    playbill.title("the log that this left, checked without the node")?;
    evidence::check(&stage, &mut playbill)?;
    let steps = playbill.steps;
    tell_end(args, steps, terminal)?;
    Ok(Exit::Done)
}

fn tell_end(args: &DemoArgs, steps: usize, terminal: &mut Terminal) -> Result<(), Failed> {
    if terminal.json {
        return Ok(());
    }
    let all = terminal.good(&format!("all {steps} steps gave what they should"));
    writeln!(terminal.out, "{all}")?;
    if let Some(dir) = &args.keep {
        writeln!(
            terminal.out,
            "\nThe node is in {0}. Look at it: chancery log show {0}/chancery-data",
            dir.display()
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_fails_is_named_and_the_exit_is_not_0() {
        // CH-CLI-2, CH-CLI-3
        for json in [false, true] {
            let mut terminal = Terminal::of_process(json);
            let mut playbill = Playbill {
                terminal: &mut terminal,
                steps: 0,
            };
            let done = Ok(Shown::new().line("shown").with("seq", 1));
            playbill.show("a message arrives", done).unwrap();
            let failed = playbill.show("it comes again", Err("it was accepted".to_owned()));
            let Err(Failed::Told(failure)) = failed else {
                panic!("the story went on");
            };
            assert_ne!(failure.exit.code(), 0);
            assert_eq!(
                failure.what,
                "step 2 (it comes again) did not give what it should: it was accepted"
            );
        }
    }

    #[test]
    fn what_a_step_cannot_have_is_a_failure_of_that_step() {
        // CH-CLI-1, CH-CLI-3
        let mut terminal = Terminal::of_process(false);
        let mut playbill = Playbill {
            terminal: &mut terminal,
            steps: 0,
        };
        assert!(matches!(playbill.need("a node serves", Ok(7)), Ok(7)));
        let gone = Failure::damaged("the log cannot be written").next("make room");
        let failed = playbill.need::<()>("a node serves", Err(gone));
        let Err(Failed::Told(failure)) = failed else {
            panic!("the story went on");
        };
        assert_eq!(
            failure.what,
            "step 1 (a node serves) did not give what it should: the log cannot be written"
        );
        assert_eq!(failure.exit, Exit::Damaged);
        assert_eq!(failure.next.as_deref(), Some("make room"));
    }
}
