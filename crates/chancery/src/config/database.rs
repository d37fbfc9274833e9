//! Where a journal in PostgreSQL is. Its password is told nowhere.

use std::fmt;
use std::path::PathBuf;

/// A journal of a database.
#[derive(Clone, PartialEq, Eq)]
pub struct Database {
    /// `postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE`
    pub url: String,
    /// The journal's name: a tenant's own.
    pub journal: String,
    /// The file of the password, where the address has none.
    pub password_file: Option<PathBuf>,
}

impl Database {
    /// An address of a database, if the text is one.
    pub(crate) fn address(text: &str) -> Option<String> {
        let rest = ["postgres://", "postgresql://"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme));
        rest.filter(|rest| !rest.is_empty())?;
        Some(text.to_owned())
    }

    /// The address without its password.
    pub fn shown(&self) -> String {
        without_password(&self.url)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("url", &self.shown())
            .field("journal", &self.journal)
            .field("password_file", &self.password_file)
            .finish()
    }
}

/// An address of a database as it may be shown: what stands between the user and the last `@` is left out, and so are
/// parameters, which may hold a password too. Any other text is shown whole.
pub(super) fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text
        .split_once("://")
        .filter(|_| text.starts_with("postgres"))
    else {
        return text.to_owned();
    };
    let bare = rest.split_once('?').map_or(rest, |(before, _)| before);
    match bare.rsplit_once('@') {
        Some((who, place)) => {
            let user = who.split_once(':').map_or(who, |(user, _)| user);
            format!("{scheme}://{user}@{place}")
        }
        None => format!("{scheme}://{bare}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // CH-ID-3
    #[test]
    fn an_address_is_shown_without_its_password() {
        for (whole, shown) in [
            ("postgres://u:secret@h:5/d", "postgres://u@h:5/d"),
            ("postgres://u:s@cret@h/d", "postgres://u@h/d"),
            ("postgres://u@h/d", "postgres://u@h/d"),
            ("postgresql://h/d?password=secret", "postgresql://h/d"),
            ("embedded", "embedded"),
            ("https://a.example?b=1", "https://a.example?b=1"),
        ] {
            assert_eq!(without_password(whole), shown);
        }
        let database = Database {
            url: "postgres://u:secret@h/d".to_owned(),
            journal: "main".to_owned(),
            password_file: None,
        };
        assert!(!format!("{database:?}").contains("secret"));
    }
}
