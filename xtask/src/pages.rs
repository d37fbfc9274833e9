//! Reading a page that somebody types from: its blocks, its commands, and whether what was printed is what it says.
//!
//! The tests of the program read their pages with this file too, so that both mean the same by a session.

/// A fenced block of a page.
pub struct Block {
    /// The title of the section (`## …`) that it stands in.
    pub section: String,
    /// What stands behind the fence.
    pub language: String,
    /// Why it is not run, where the page says so above it: `<!-- not run: reason -->`.
    pub not_run: Option<String>,
    /// What is between the fences.
    pub text: String,
}

/// A command and the lines that follow it; `…` stands for what differs from run to run.
pub struct Typed {
    /// What is typed, of one or more lines.
    pub command: String,
    /// What is printed.
    pub expected: Vec<String>,
}

/// What a command printed, and when it ended in Unix seconds.
pub struct Printed {
    /// The lines.
    pub lines: Vec<String>,
    /// When.
    pub ended: f64,
}

/// The fenced blocks of a page, in order.
///
/// # Errors
/// A line of a block without fences.
pub fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let (mut blocks, mut section, mut mark) = (Vec::new(), String::new(), None);
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push(Block {
                section: section.clone(),
                language: language.to_owned(),
                not_run: mark.take(),
                text: inside.join("\n"),
            });
        } else if let Some(reason) = line.strip_prefix("<!-- not run: ") {
            mark = Some(reason.trim_end_matches(" -->").to_owned());
        } else if let Some(title) = line.strip_prefix("## ") {
            section = title.to_owned();
        } else if line.starts_with("    ") {
            return Err(format!("a block without fences: {line}"));
        }
    }
    Ok(blocks)
}

/// How many blocks of all pages may be left out.
pub const MOST_NOT_RUN: usize = 10;

/// The marks of pages, each with its page: what nobody types, and why.
///
/// # Errors
/// A page that cannot be read as one, a mark without a reason, or too many of them.
pub fn marks<'p>(
    pages: impl IntoIterator<Item = (&'p str, &'p str)>,
) -> Result<Vec<(String, String)>, String> {
    let mut marks = Vec::new();
    for (page, text) in pages {
        for block in blocks(text).map_err(|fault| format!("{page}: {fault}"))? {
            match block.not_run {
                Some(reason) if reason.is_empty() => {
                    return Err(format!("{page}: a mark without a reason"));
                }
                Some(reason) => marks.push((page.to_owned(), reason)),
                None => {}
            }
        }
    }
    if marks.len() > MOST_NOT_RUN {
        let (found, most) = (marks.len(), MOST_NOT_RUN);
        return Err(format!("{found} blocks are not run, and {most} may be"));
    }
    Ok(marks)
}

/// The commands of a `console` block; a command goes on where a line begins with `> `.
pub fn commands(block: &str) -> Vec<Typed> {
    let mut commands: Vec<Typed> = Vec::new();
    for line in block.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            commands.push(Typed {
                command: command.to_owned(),
                expected: Vec::new(),
            });
            continue;
        }
        let Some(last) = commands.last_mut() else {
            continue;
        };
        match line.strip_prefix("> ") {
            Some(more) => last.command.extend(["\n", more]),
            None => last.expected.push(line.to_owned()),
        }
    }
    commands
}

/// The sessions of a page: the commands that it runs, section by section.
pub fn sessions(blocks: &[Block]) -> Vec<(&str, Vec<Typed>)> {
    let mut sessions: Vec<(&str, Vec<Typed>)> = Vec::new();
    let is_run = |block: &&Block| block.language == "console" && block.not_run.is_none();
    for block in blocks.iter().filter(is_run) {
        let commands = commands(&block.text);
        match sessions.last_mut() {
            Some((section, session)) if *section == block.section => session.extend(commands),
            _ => sessions.push((&block.section, commands)),
        }
    }
    sessions
}

/// One shell for all commands of a session, as a reader has; a line of its own ends what each of them wrote. What is left
/// running is told last, and ends with the shell.
pub fn script(session: &[Typed]) -> String {
    let mut script = String::from("exec 2>&1\ntrap 'kill $(jobs -p) 2>/dev/null' EXIT\n");
    let commands = session.iter().map(|typed| typed.command.as_str());
    for command in commands.chain(["jobs -r"]) {
        script.push_str(command);
        script.push_str("\necho \"--- end $EPOCHREALTIME\"\n");
    }
    script
}

/// What each command of such a script printed.
pub fn printed(text: &str) -> Vec<Printed> {
    let mut all = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("--- end ") {
        let (time, after) = behind.split_once('\n').unwrap_or((behind, ""));
        all.push(Printed {
            lines: before.lines().map(str::to_owned).collect(),
            ended: time.parse().unwrap_or_default(),
        });
        rest = after;
    }
    all
}

/// The first place where what was printed is not what the page says.
pub fn difference(session: &[Typed], printed: &[Printed]) -> Option<String> {
    for (typed, printed) in session.iter().zip(printed) {
        let command = &typed.command;
        let (expected, lines) = (&typed.expected, &printed.lines);
        let is_same = |(pattern, line): (&String, &String)| fits(pattern, line);
        if expected.len() != lines.len() || !expected.iter().zip(lines).all(is_same) {
            let (expected, lines) = (expected.join("\n"), lines.join("\n"));
            return Some(format!(
                "$ {command}\n{lines}\n--- the page says:\n{expected}"
            ));
        }
    }
    match printed.get(session.len()) {
        None => Some("the session did not come to its end".to_owned()),
        Some(left) if !left.lines.is_empty() => {
            Some(format!("left running: {}", left.lines.join("\n")))
        }
        Some(_) => None,
    }
}

/// Whether a line is what the page shows.
fn fits(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut last = "";
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
        last = part;
    }
    rest.is_empty() || (pattern.contains('…') && last.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Title\n```console\n$ echo one\none\n```\n<!-- not run: no reason -->\n```console\n$ rm it\n```\n\
                        ## Next\n```console\n$ cat <<END\n> a\n> END\na\n$ true\n```\n";

    #[test]
    fn a_section_is_a_session_and_what_is_marked_is_left_out() {
        let blocks = blocks(PAGE).unwrap();
        assert_eq!(blocks[1].not_run.as_deref(), Some("no reason"));
        let sessions = sessions(&blocks);
        let titles: Vec<&str> = sessions.iter().map(|(title, _)| *title).collect();
        assert_eq!(titles, ["", "Next"]);
        assert_eq!(sessions[1].1[0].command, "cat <<END\na\nEND");
        assert_eq!(sessions[1].1[0].expected, ["a"]);
        assert!(super::blocks("text\n\n    indented\n").is_err());
    }

    #[test]
    fn marks_are_listed_with_their_reasons_and_bounded() {
        let told = marks([("README.md", PAGE)]).unwrap();
        assert_eq!(told, [("README.md".to_owned(), "no reason".to_owned())]);
        let many = "<!-- not run: so -->\n```console\n$ x\n```\n".repeat(MOST_NOT_RUN + 1);
        assert!(marks([("a.md", many.as_str())]).unwrap_err().contains("11"));
        let bare = "<!-- not run:  -->\n```console\n$ x\n```\n";
        assert!(marks([("a.md", bare)]).is_err());
    }

    #[test]
    fn another_line_a_missing_one_and_what_is_left_running_are_told() {
        let blocks = blocks("```console\n$ x\na … c\n```\n").unwrap();
        let session = &sessions(&blocks)[0].1;
        let told = |text: &str| difference(session, &printed(text));
        assert_eq!(told("a b c\n--- end 1.5\n--- end 2\n"), None);
        assert_eq!(
            told("a  c--- end 1.5\n--- end 2\n"),
            None,
            "without a newline"
        );
        assert!(told("a b d\n--- end 1.5\n--- end 2\n").is_some());
        assert!(told("a b c\nmore\n--- end 1.5\n--- end 2\n").is_some());
        assert!(told("--- end 1.5\n--- end 2\n").is_some());
        assert!(told("a b c\n--- end 1.5\n").is_some(), "cut off");
        assert!(told("a b c\n--- end 1.5\n[1] Running\n--- end 2\n").is_some());
    }
}
