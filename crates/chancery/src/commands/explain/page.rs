//! The codes as a page: `docs/errors.md`.

use chancery_core::guide::Guide;

use super::catalogue::groups;

const HEAD: &str = "\
# Error codes

Written by `chancery explain --markdown`; `chancery explain CODE` tells one of them.

A refusal names its code, the place of the fault and the requirement that was not met, which may be a closer one than the one below.
\"Again\" tells whether the same bytes may be accepted later. \"Wire\" is what stands for the code where the wire has other words: a number
of JSON-RPC, or a reason of AGH.
";

const TAIL: &str = "
## Help with signatures

A value-context refusal `signature_invalid` says whether the signature would verify if it had been made in another way. `would_verify_as` holds
one or more of these, joined by `+`, or `null` where none helps:

| name | what was signed |
|---|---|
| `python_numbers` | numbers as Python writes them (`7.0`, `1e-07`) |
| `code_point_order` | members sorted by code point instead of UTF-16 code unit |
| `ascii_escapes` | every other character than ASCII written `\\uXXXX` |
| `payload_only` | the payload without its envelope |
| `base64url` | the right bytes, but encoded in the alphabet with `-` and `_`, or without padding |

`first_difference_at` is the offset of the first byte in which the signed bytes differ from the RFC 8785 form; for `base64url` alone, in
which the text of the signature differs from standard base64. `chancery send` and `chancery log explain` tell the same. A text with `-`
or `_` is refused as `schema_invalid` at `/signature`, with the same help. Help is given 16 times a second (`docs/limits.md`); beyond that
both members are absent.
";

/// The page.
pub(super) fn page(all: &[Guide]) -> String {
    let mut page = HEAD.to_owned();
    for (group, guides) in groups(all) {
        page.push_str(&format!("\n## {group}\n\n"));
        page.push_str(
            "| code | status | wire | again | requirement | when | what to do |\n\
             |---|---|---|---|---|---|---|\n",
        );
        for guide in guides {
            page.push_str(&row(guide));
        }
    }
    page.push_str(TAIL);
    page
}

fn row(guide: &Guide) -> String {
    let status = guide.status.map_or_else(String::new, |it| it.to_string());
    let wire = guide.wire.as_deref();
    let wire = wire.map_or_else(String::new, |wire| format!("`{wire}`"));
    format!(
        "| `{}` | {status} | {wire} | {} | {} | {} | {} |\n",
        guide.code,
        if guide.again { "yes" } else { "no" },
        guide.requirement,
        guide.when,
        guide.next,
    )
}
