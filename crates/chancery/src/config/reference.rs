//! The file that `init` writes, and the reference page: both made from the table.

use super::table::{KEYS, Key, Kind, LISTS, NAMED};

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
    let named = NAMED
        .iter()
        .map(|list| (list, format!("[{}.NAME]", list.name)));
    let lists = LISTS
        .iter()
        .map(|list| (list, format!("[[{}]]", list.name)));
    for (list, head) in lists.chain(named) {
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
    let named = NAMED
        .iter()
        .map(|list| (list, format!("[{}.NAME]", list.name)));
    let lists = LISTS
        .iter()
        .map(|list| (list, format!("[[{}]]", list.name)));
    for (list, head) in lists.chain(named) {
        page.push_str(&format!(
            "\n## `{head}`\n\nAny number of times: {}.\n\n| key | type | default | |\n|---|---|---|---|\n",
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
    page.push_str(AGH_TABLES);
    page
}

/// The tables below `[agh]`.
const AGH_TABLES: &str = r#"
## `[[agh.peer]]`

Any number of times: a peer that this node hosts.

| key | default | |
|---|---|---|
| `id`, `channel` | | its Peer ID, or a nickname when it has a key; the channel it is in |
| `workspace_id` | `""` | the workspace, for revision B |
| `display_name`, `capabilities`, `catalog` | `""`, `[]`, `""` | what its card says; a file with capability entries |
| `behaviour` | `"inbox"` | what it does with what comes in: `inbox`, `echo`, `script:FILE`, `http:URL`, `model:NAME`, `mcp:URL or command` |
| `tool`, `instructions` | `""` | the tool of an MCP server; the file of what its role asks, in words |
| `agent` | `""` | the participant that it is one with |
| `key` | `""` | file of its secret key: with `agh.trust = "on"` it speaks under its verified handle, and all is signed; it also signs what `http:URL` is asked |

## `[agh.bridge]`

A bridge between one channel of revision A and one of revision B, with `agh.revision = "dual"`.

| key | |
|---|---|
| `peer` | the peer that the bridge speaks as, on both sides |
| `channel_a` | the channel of revision A |
| `workspace_id`, `channel_b` | the workspace and channel of revision B |

## `[agh.tasks]`

Work that is handed to one hosted peer counts as a task write and is asked for more.

| key | default | |
|---|---|---|
| `keeper` | | the hosted peer that keeps tasks |
| `writers` | `[]` | peers that may write without a proof of who they are |
"#;

fn kind(key: &Key) -> String {
    match key.kind {
        Kind::Integer { min } => format!("integer ≥ {min}"),
        other => other.as_str().to_owned(),
    }
}
