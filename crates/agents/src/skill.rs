//! Skills: `skills/<side>/<name>/SKILL.md`, with front matter as in the Agent Skills convention (VC-TURN-9).
//!
//! They are read once, when the agent is set up. A name is looked up among what was read and never becomes a path.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use chancery_vibe::address::Side;

/// The largest skill file.
pub const MAX_BYTES: u64 = 65_536;
/// Skills of one side at most.
pub const MAX_SKILLS: usize = 256;
const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 1_024;

/// A skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// Its name, which is that of its directory.
    pub name: String,
    /// When to use it, in one sentence: what an agent sees of skills that it has not loaded.
    pub description: String,
    /// The whole file.
    pub text: String,
}

/// The skills of a side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skills(BTreeMap<String, Skill>);

/// Why skills cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct SkillError {
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong.
    pub reason: String,
}

impl Skills {
    /// Reads the skills of a side below a directory. A side without a directory has none.
    pub fn read(directory: &Path, side: Side) -> Result<Self, SkillError> {
        let directory = directory.join(side.as_str());
        let mut skills = BTreeMap::new();
        if !directory.is_dir() {
            return Ok(Self::default());
        }
        let wrong = |path: &Path, reason: String| SkillError {
            path: path.to_owned(),
            reason,
        };
        let entries =
            std::fs::read_dir(&directory).map_err(|error| wrong(&directory, error.to_string()))?;
        for entry in entries {
            let path = entry
                .map_err(|error| wrong(&directory, error.to_string()))?
                .path();
            let file = path.join("SKILL.md");
            if !file.is_file() {
                continue;
            }
            if skills.len() == MAX_SKILLS {
                let reason = format!("a side has at most {MAX_SKILLS} skills");
                return Err(wrong(&directory, reason));
            }
            let size = std::fs::metadata(&file).map_or(0, |metadata| metadata.len());
            if size > MAX_BYTES {
                return Err(wrong(
                    &file,
                    format!("a skill has at most {MAX_BYTES} bytes"),
                ));
            }
            let text =
                std::fs::read_to_string(&file).map_err(|error| wrong(&file, error.to_string()))?;
            let name = path.file_name().and_then(|name| name.to_str());
            let skill = Skill::parse(name.unwrap_or_default(), text)
                .map_err(|reason| wrong(&file, reason.to_owned()))?;
            skills.insert(skill.name.clone(), skill);
        }
        Ok(Self(skills))
    }

    /// A skill by its name.
    pub fn get(&self, name: &str) -> Option<&Skill> {
        if is_name(name) {
            self.0.get(name)
        } else {
            None
        }
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Skill> {
        self.0.values()
    }
}

impl Skill {
    /// A skill from its file's text.
    ///
    /// # Errors
    /// What is wrong with its front matter.
    pub fn parse(directory: &str, text: String) -> Result<Self, &'static str> {
        if !is_name(directory) {
            return Err("a skill's name has 1 to 64 of a-z, 0-9 and -");
        }
        let front = front_matter(&text).ok_or("the file begins with front matter between ---")?;
        let field = |name: &str| {
            let found = front.iter().find(|(field, _)| field == name);
            found.map(|(_, value)| value.clone())
        };
        let name = field("name").ok_or("the front matter has no name")?;
        if name != directory {
            return Err("the name in the front matter is not that of the directory");
        }
        let description = field("description").ok_or("the front matter has no description")?;
        if description.is_empty() || description.chars().count() > MAX_DESCRIPTION {
            return Err("a description has 1 to 1024 characters");
        }
        Ok(Self {
            name,
            description,
            text,
        })
    }
}

/// Whether a text can name a skill (VC-TURN-9): no path part passes.
pub fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(allowed)
}

/// The top-level fields of the front matter: plain, quoted and folded texts. Nested fields (`metadata`) are left out.
fn front_matter(text: &str) -> Option<Vec<(String, String)>> {
    let rest = text.strip_prefix("---")?;
    let rest = rest.strip_prefix("\r\n").or(rest.strip_prefix('\n'))?;
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in rest.lines() {
        if line.trim_end() == "---" {
            return Some(fields);
        }
        if line.starts_with([' ', '\t']) {
            // A text that goes on; of a nested field its first line said nothing, and it stays as it is read.
            if let Some((_, value)) = fields.last_mut() {
                if !value.is_empty() {
                    value.push(' ');
                }
                value.push_str(line.trim());
            }
            continue;
        }
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        let value = match value {
            ">" | "|" | ">-" | "|-" => "",
            value => unquoted(value),
        };
        fields.push((name.trim().to_owned(), value.to_owned()));
    }
    None
}

fn unquoted(value: &str) -> &str {
    let inside = |mark: char| {
        value
            .strip_prefix(mark)
            .and_then(|value| value.strip_suffix(mark))
    };
    inside('"').or(inside('\'')).unwrap_or(value)
}
