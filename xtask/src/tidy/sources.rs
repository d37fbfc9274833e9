//! Rust source: nothing left out, nothing too long.

use super::Fault;
use crate::project::TreeFile;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

/// Every rule about Rust source.
pub fn check(files: &[TreeFile]) -> Vec<Fault> {
    files
        .iter()
        .filter(|file| file.is_rust())
        .flat_map(check_file)
        .collect()
}

fn check_file(file: &TreeFile) -> Vec<Fault> {
    let parsed = file
        .text()
        .ok_or_else(|| "is not UTF-8".to_owned())
        .and_then(|text| {
            let tokens: TokenStream = text.parse().map_err(|error| format!("{error}"))?;
            let syntax = syn::parse_file(text).map_err(|error| error.to_string())?;
            Ok((text, tokens, syntax))
        });
    let (text, tokens, syntax) = match parsed {
        Ok(parsed) => parsed,
        Err(why) => return vec![Fault::new("unreadable", &file.path, why)],
    };
    let mut faults = Vec::new();
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX {
        let what = format!("{lines} lines, at most {FILE_LINES_MAX}");
        faults.push(Fault::new("file-lines", &file.path, what));
    }
    let mut functions = Functions {
        path: &file.path,
        faults: Vec::new(),
    };
    functions.visit_file(&syntax);
    faults.append(&mut functions.faults);
    let mut left_out = Vec::new();
    find_left_out(tokens, &mut left_out);
    left_out.extend(ignored_doc_tests(text));
    faults.extend(
        left_out
            .into_iter()
            .map(|(line, what)| Fault::new("left-out", &file.path, format!("line {line}: {what}"))),
    );
    faults
}

struct Functions<'a> {
    path: &'a str,
    faults: Vec<Fault>,
}

impl Functions<'_> {
    /// From the line of `fn` to that of the closing brace; documentation and attributes do not count.
    fn measure(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let name = &signature.ident;
        let start = signature.fn_token.span.start().line;
        let lines = block.brace_token.span.close().end().line - start + 1;
        if lines > FUNCTION_LINES_MAX {
            let what = format!("`{name}` has {lines} lines, at most {FUNCTION_LINES_MAX}");
            let fault = Fault::new("function-lines", self.path, what);
            self.faults.push(Fault {
                item: Some(name.to_string()),
                ..fault
            });
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.measure(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.measure(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.measure(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

/// Unfinished code, tests that do not run, items excused from documentation: by tokens, so that the inside of a macro
/// call counts and the inside of a string does not.
fn find_left_out(tokens: TokenStream, found: &mut Vec<(usize, String)>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1);
        match token {
            TokenTree::Ident(name) if *name == "todo" || *name == "unimplemented" => {
                let is_bang = matches!(next, Some(TokenTree::Punct(mark)) if mark.as_char() == '!');
                if is_bang && matches!(tokens.get(at + 2), Some(TokenTree::Group(_))) {
                    found.push((name.span().start().line, format!("`{name}!`")));
                }
            }
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                let inner = match next {
                    Some(TokenTree::Punct(mark)) if mark.as_char() == '!' => tokens.get(at + 2),
                    other => other,
                };
                if let Some(TokenTree::Group(group)) = inner
                    && group.delimiter() == Delimiter::Bracket
                {
                    let line = group.span_open().start().line;
                    found.extend(excuses_in(group.stream()).map(|what| (line, what)));
                }
            }
            TokenTree::Group(group) => find_left_out(group.stream(), found),
            _ => {}
        }
    }
}

/// `ignore` and `allow(missing_docs)` in an attribute, also behind `cfg_attr`.
fn excuses_in(attribute: TokenStream) -> impl Iterator<Item = String> {
    let words = words_of(attribute);
    let is_meta = |name: &str| words.first().is_some_and(|first| first == name);
    let conditional = is_meta("cfg_attr");
    let ignore = is_meta("ignore") || (conditional && words.iter().any(|word| word == "ignore"));
    let undocumented = (is_meta("allow") || is_meta("expect") || conditional)
        && words.iter().any(|word| word == "missing_docs");
    let ignore = ignore.then(|| "a test marked `ignore`".to_owned());
    ignore
        .into_iter()
        .chain(undocumented.then(|| "`missing_docs` is allowed".to_owned()))
}

fn words_of(tokens: TokenStream) -> Vec<String> {
    let words = tokens.into_iter().flat_map(|token| match token {
        TokenTree::Ident(name) => vec![name.to_string()],
        TokenTree::Group(group) => words_of(group.stream()),
        _ => Vec::new(),
    });
    words.collect()
}

fn ignored_doc_tests(text: &str) -> impl Iterator<Item = (usize, String)> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let line = line.trim_start();
        let doc = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"))?;
        let fence = doc.trim_start().strip_prefix("```")?;
        let is_ignored = fence.split(',').any(|word| word.trim() == "ignore");
        is_ignored.then(|| (index + 1, "a doc test marked `ignore`".to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{named, tree_of};
    use super::*;

    fn rules_broken_by(source: &str) -> Vec<(&'static str, Option<String>)> {
        let faults = check(&tree_of(&[("a.rs", source)]));
        faults
            .into_iter()
            .map(|fault| (fault.rule, fault.item))
            .collect()
    }

    #[test]
    fn a_file_may_have_600_lines_and_no_more() {
        assert!(rules_broken_by(&"//\n".repeat(600)).is_empty());
        assert_eq!(rules_broken_by(&"//\n".repeat(601)), [("file-lines", None)]);
    }

    #[test]
    fn a_function_may_have_70_lines_and_no_more() {
        let long = |before: &str, lines: usize, after: &str| {
            format!(
                "{before}/// Doc.\n#[inline]\nfn f() {{\n{}}}\n{after}",
                "();\n".repeat(lines - 2)
            )
        };
        for (before, after) in [
            ("", ""),
            ("impl A {\n", "}"),
            ("trait A {\n", "}"),
            ("mod a {\n", "}"),
        ] {
            assert!(
                rules_broken_by(&long(before, 70, after)).is_empty(),
                "{before}"
            );
            assert_eq!(
                rules_broken_by(&long(before, 71, after))[..],
                [("function-lines", Some("f".to_owned()))],
                "{before}"
            );
        }
    }

    #[test]
    fn what_is_left_out_is_found_wherever_it_stands() {
        for source in [
            "fn f() { todo!() }",
            "fn f() { vec![todo!(\"later\")]; }",
            "fn f() { std::unimplemented!() }",
            "#[test]\n#[ignore]\nfn f() {}",
            "#[test]\n#[ignore = \"slow\"]\nfn f() {}",
            "#[test]\n#[cfg_attr(target_os = \"linux\", ignore)]\nfn f() {}",
            "mod t { proptest! { #[test] #[ignore] fn f() {} } }",
            "/// ```ignore\n/// f();\n/// ```\nfn f() {}",
            "/// ```rust,ignore\n/// f();\n/// ```\nfn f() {}",
            "#![allow(missing_docs)]\npub fn f() {}",
            "#[allow(dead_code, missing_docs)]\npub fn f() {}",
        ] {
            assert_eq!(rules_broken_by(source), [("left-out", None)], "{source}");
        }
    }

    #[test]
    fn the_words_alone_are_harmless() {
        let source = "// todo!()\nfn ignore(todo: &str) { let _ = \"#[ignore] todo!()\"; let _ = todo != \"\"; }\n\
                      /// ```no_run\n/// f();\n/// ```\n#[deny(missing_docs)]\nfn f() {}";
        assert!(rules_broken_by(source).is_empty());
    }

    #[test]
    fn source_that_does_not_parse_is_a_fault_not_a_pass() {
        let faults = check(&tree_of(&[("a.rs", "fn {"), ("b.rs", "fn f( {}")]));
        assert_eq!(
            named(&faults),
            [("unreadable", "a.rs"), ("unreadable", "b.rs")]
        );
    }
}
