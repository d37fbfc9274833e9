//! The file that `init` writes, and the reference page: both made from the table.

use super::table::{self, Form, KEYS, Key, Kind, List};

/// All keys with their defaults and one line of comment each, as TOML.
pub fn commented_file() -> String {
    let mut text = String::from(
        "# The configuration of a Chancery node. Every key is here with its default; paths are relative to this file.\n\
         # Each is also an environment variable: listen is CHANCERY_LISTEN, world in [value_context] is\n\
         # CHANCERY_VALUE_CONTEXT_WORLD. A flag beats the environment, and that beats this file.\n",
    );
    let mut current = None;
    for key in KEYS {
        let (section, name) = key.parts();
        if section != current
            && let Some(section) = section
        {
            text.push_str(&format!("\n[{section}]\n"));
        } else {
            text.push('\n');
        }
        current = section;
        text.push_str(&format!("# {}\n{name} = {}\n", key.comment, key.default));
    }
    for list in table::lists() {
        let head = list.head();
        text.push_str(&format!("\n# {}\n# {head}\n", list.comment));
        for key in list.keys {
            text.push_str(&format!(
                "# {} = {}  # {}\n",
                key.name, key.default, key.comment
            ));
        }
    }
    text
}

/// The reference page, as Markdown.
pub fn reference_page() -> String {
    let mut page = String::from(
        "# Configuration\n\n\
         One TOML file, named by `--config` or `./chancery.toml`; `chancery init` writes it with every key. A flag beats the\n\
         environment, the environment beats the file, the file beats the default. Paths in the file are relative to the file.\n\
         A key that does not exist is refused.\n\n\
         This page is made by `chancery config reference`.\n\n\
         | key | environment | flag | type | default | |\n|---|---|---|---|---|---|\n",
    );
    for key in KEYS {
        let flag = key
            .flag
            .map_or_else(String::new, |flag| format!("`--{flag}`"));
        page.push_str(&format!(
            "| `{}` | `{}` | {flag} | {} | `{}` | {} |\n",
            key.name,
            key.variable(),
            kind(key),
            key.default,
            key.comment.replace('|', "\\|"),
        ));
    }
    for list in table::lists() {
        let head = list.head();
        page.push_str(&format!(
            "\n## `{head}`\n\n{}: {}.\n\n| key | type | default | |\n|---|---|---|---|\n",
            how_often(list),
            list.comment
        ));
        for key in list.keys {
            let comment = key.comment.replace('|', "\\|");
            let (kind, default) = (kind(key), key.default);
            page.push_str(&format!(
                "| `{}` | {kind} | `{default}` | {comment} |\n",
                key.name
            ));
        }
    }
    page
}

const fn how_often(list: &List) -> &'static str {
    match list.form {
        Form::Listed | Form::Named => "Any number of times",
        Form::Once => "At most once",
    }
}

fn kind(key: &Key) -> String {
    match key.kind {
        Kind::Integer { min } => format!("integer ≥ {min}"),
        other => other.as_str().to_owned(),
    }
}
