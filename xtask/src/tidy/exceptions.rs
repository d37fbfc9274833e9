//! What is excused, and why. An exception without a reason, or one that excuses nothing, is a fault itself.

use super::{EXCEPTIONS, Fault};

/// Rules that know exceptions: a long table may be better whole, a copied secret never is.
const EXCUSABLE: &[&str] = &["file-lines", "function-lines"];

struct Exception {
    rule: String,
    path: String,
    item: Option<String>,
}

impl Exception {
    fn covers(&self, fault: &Fault) -> bool {
        self.rule == fault.rule && self.path == fault.path && self.item == fault.item
    }
}

/// The faults that remain, with those of the exceptions themselves.
pub fn excuse(faults: Vec<Fault>, text: &str) -> Vec<Fault> {
    let (exceptions, mut remaining) = read(text);
    for exception in exceptions
        .iter()
        .filter(|exception| !faults.iter().any(|fault| exception.covers(fault)))
    {
        let what = format!(
            "the exception for {} in {} excuses nothing",
            exception.rule, exception.path
        );
        remaining.push(Fault::new("exceptions", EXCEPTIONS, what));
    }
    let is_excused = |fault: &Fault| exceptions.iter().any(|exception| exception.covers(fault));
    remaining.extend(faults.into_iter().filter(|fault| !is_excused(fault)));
    remaining
}

fn read(text: &str) -> (Vec<Exception>, Vec<Fault>) {
    let fault = |what: String| Fault::new("exceptions", EXCEPTIONS, what);
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return (Vec::new(), vec![fault(error.to_string())]),
    };
    let entries = table.get("exception").and_then(toml::Value::as_array);
    let (mut exceptions, mut faults) = (Vec::new(), Vec::new());
    for entry in entries.into_iter().flatten() {
        let member = |name: &str| {
            entry
                .get(name)
                .and_then(toml::Value::as_str)
                .map(str::to_owned)
        };
        match (member("rule"), member("path"), member("reason")) {
            (Some(rule), Some(path), Some(reason))
                if EXCUSABLE.contains(&rule.as_str()) && !reason.trim().is_empty() =>
            {
                exceptions.push(Exception {
                    rule,
                    path,
                    item: member("item"),
                });
            }
            _ => faults.push(fault(format!(
                "wants rule (one of {EXCUSABLE:?}), path and reason: {entry}"
            ))),
        }
    }
    (exceptions, faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long_file() -> Fault {
        Fault::new("file-lines", "a.rs", "700 lines")
    }

    #[test]
    fn an_exception_with_a_reason_excuses_its_fault_only() {
        let text =
            "[[exception]]\nrule = \"file-lines\"\npath = \"a.rs\"\nreason = \"one table\"\n";
        assert!(excuse(vec![long_file()], text).is_empty());
        let other = Fault::new("file-lines", "b.rs", "700 lines");
        assert_eq!(excuse(vec![long_file(), other.clone()], text), [other]);
    }

    #[test]
    fn a_function_is_excused_by_name() {
        let fault = Fault {
            item: Some("decide".into()),
            ..Fault::new("function-lines", "a.rs", "80 lines")
        };
        let text = |item: &str| {
            format!(
                "[[exception]]\nrule = \"function-lines\"\npath = \"a.rs\"\nitem = \"{item}\"\nreason = \"r\"\n"
            )
        };
        assert!(excuse(vec![fault.clone()], &text("decide")).is_empty());
        assert!(excuse(vec![fault.clone()], &text("other")).contains(&fault));
    }

    #[test]
    fn an_unused_exception_is_a_fault() {
        let text =
            "[[exception]]\nrule = \"file-lines\"\npath = \"a.rs\"\nreason = \"one table\"\n";
        assert_eq!(excuse(vec![], text)[0].rule, "exceptions");
    }

    #[test]
    fn an_exception_needs_a_reason_and_a_rule_that_knows_exceptions() {
        for bad in [
            "[[exception]]\nrule = \"file-lines\"\npath = \"a.rs\"\n",
            "[[exception]]\nrule = \"file-lines\"\npath = \"a.rs\"\nreason = \" \"\n",
            "[[exception]]\nrule = \"left-out\"\npath = \"a.rs\"\nreason = \"later\"\n",
            "not toml at all",
        ] {
            let faults = excuse(vec![long_file()], bad);
            assert_eq!(faults.len(), 2, "{bad}");
            assert_eq!(faults[0].rule, "exceptions");
        }
    }
}
