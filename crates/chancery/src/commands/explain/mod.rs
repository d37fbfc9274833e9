//! `chancery explain`: what a code of any protocol means, and what to do about it.

mod catalogue;
mod page;

use std::io::Write as _;

use chancery_core::guide::{ADMINISTRATION, Guide};
use serde_json::json;

use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::Terminal;

/// What `explain` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// A code as an answer, a log or JSON-RPC has it, or a requirement's id; without one, all codes
    #[arg(allow_negative_numbers = true)]
    code: Option<String>,
    /// Write all of them as a page of Markdown
    #[arg(long, conflicts_with = "code")]
    markdown: bool,
}

/// Explains a code, or lists all.
pub(crate) fn run(args: &ExplainArgs, terminal: &mut Terminal) -> Outcome {
    let all = catalogue::all();
    let Some(code) = &args.code else {
        if args.markdown {
            terminal.out.write_all(page::page(&all).as_bytes())?;
        } else if terminal.json {
            terminal.json_line(&json!({ "codes": all }))?;
        } else {
            list(&all, terminal)?;
        }
        return Ok(Exit::Done);
    };
    let of_requirement = specified_in(code);
    let found: Vec<&Guide> = match of_requirement {
        Some(_) => all.iter().filter(|guide| cites(guide, code)).collect(),
        None => all.iter().filter(|guide| is_it(guide, code)).collect(),
    };
    if found.is_empty() {
        return Err(match of_requirement {
            Some(file) => no_code_of(code, file),
            None => unknown(&all, code),
        }
        .into());
    }
    if terminal.json {
        terminal.json_line(&json!({ "codes": found }))?;
    } else {
        if let Some(file) = of_requirement {
            let title = terminal.bold(code);
            writeln!(
                terminal.out,
                "{title}  (a requirement of {file}; these codes cite it)\n"
            )?;
        }
        for (index, guide) in found.into_iter().enumerate() {
            if index > 0 {
                writeln!(terminal.out)?;
            }
            explain(guide, terminal)?;
        }
    }
    Ok(Exit::Done)
}

/// What is told of a code of a protocol (CH-CLI-3). What a node answers whatever the protocol is known for each.
pub(crate) fn guide_of(protocol: &str, code: &str) -> Option<Guide> {
    let groups: &[&str] = match protocol {
        "agh" => &["agh", "agh reasons on the wire", ADMINISTRATION],
        "vacant" => &["vacant", "a2a", ADMINISTRATION],
        other => &[other, ADMINISTRATION],
    };
    let all = catalogue::all();
    let found = groups.iter().find_map(|group| {
        let is_it = |guide: &&Guide| guide.group == *group && guide.code == code;
        all.iter().find(is_it)
    });
    found.cloned()
}

/// What to do about a code of a protocol.
pub(crate) fn next_of(protocol: &str, code: &str) -> Option<&'static str> {
    guide_of(protocol, code).map(|guide| guide.next)
}

/// Whether a person who typed this means that code: its name in any case, or the number that JSON-RPC has for it.
fn is_it(guide: &Guide, typed: &str) -> bool {
    let is_number = typed.parse::<i32>().is_ok();
    guide.code.eq_ignore_ascii_case(typed) || is_number && guide.wire.as_deref() == Some(typed)
}

/// The file of the specification in which a requirement of this name would stand.
fn specified_in(typed: &str) -> Option<&'static str> {
    let (protocol, rest) = typed.split_once('-')?;
    let (_, number) = rest.rsplit_once('-')?;
    number.parse::<u32>().ok()?;
    Some(match protocol {
        "CH" => "docs/spec/interface.md",
        "VX" => "docs/spec/value-context.md",
        "VC" => "docs/spec/vibe-commerce.md",
        "VA" => "docs/spec/vacant.md",
        "AG" => "docs/spec/agh-network.md",
        _ => return None,
    })
}

fn cites(guide: &Guide, requirement: &str) -> bool {
    let cited = |char: char| char == ',' || char.is_whitespace();
    guide
        .requirement
        .split(cited)
        .any(|cited| cited == requirement)
}

fn no_code_of(requirement: &str, file: &str) -> Failure {
    Failure::no(format!("no code cites the requirement {requirement}")).next(format!(
        "its sentence stands in {file} of the source: grep -n {requirement} {file}"
    ))
}

fn explain(guide: &Guide, terminal: &mut Terminal) -> Outcome {
    let title = terminal.bold(guide.code);
    writeln!(terminal.out, "{title}  ({})", guide.group)?;
    let mut line = |name: &str, value: &str| writeln!(terminal.out, "  {name:<12} {value}");
    line("when", guide.when)?;
    line("next", guide.next)?;
    line("requirement", guide.requirement)?;
    if let Some(status) = guide.status {
        line("status", &status.to_string())?;
    }
    if let Some(wire) = &guide.wire {
        line("on the wire", wire)?;
    }
    if guide.again {
        line("again", "the same bytes may be accepted later")?;
    }
    Ok(Exit::Done)
}

/// The codes by group, each with when it comes.
fn list(all: &[Guide], terminal: &mut Terminal) -> Outcome {
    for (index, (group, guides)) in catalogue::groups(all).into_iter().enumerate() {
        if index > 0 {
            writeln!(terminal.out)?;
        }
        let title = terminal.bold(group);
        writeln!(terminal.out, "{title}")?;
        for guide in guides {
            writeln!(terminal.out, "  {:<36} {}", guide.code, guide.when)?;
        }
    }
    Ok(Exit::Done)
}

fn unknown(all: &[Guide], typed: &str) -> Failure {
    let nearest = all
        .iter()
        .map(|guide| (strsim::jaro_winkler(guide.code, typed), guide.code))
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .filter(|(likeness, _)| *likeness > 0.8);
    let failure = Failure::no(format!("no protocol has a code {typed}"));
    failure.next(match nearest {
        Some((_, code)) => format!("did you mean {code}? `chancery explain` lists all"),
        None => "`chancery explain` lists all".to_owned(),
    })
}
