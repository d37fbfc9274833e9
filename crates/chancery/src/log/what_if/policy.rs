//! Another policy: what is other than it was, and how a decision meets it.

use std::borrow::Cow;

use bytes::Bytes;
use chancery_core::rows::{Lookup, Row, RowKey, Rows, RowsDamaged};
use chancery_journal::{InMemory, Recorded};
use chancery_node::suite::AllSettings;
use chancery_vibe::action::Action;
use chancery_vibe::address::{Address, Side};
use chancery_vibe::code::Code;
use chancery_vibe::message::Message;
use chancery_vibe::partition::{TABLE, Table};
use chancery_vibe::state::MandateRow;
use serde::Deserialize;

/// Whom a row of the permission table names as its sender or its receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    text: String,
    /// None for anybody.
    address: Option<Address>,
}

impl Party {
    /// Reads who sends; `*` stands for anybody.
    ///
    /// # Errors
    /// It is no address that can send (VC-ADR-6), or one that may send nothing (VC-ADR-5).
    pub fn sender(text: &str) -> Result<Self, Code> {
        let is_mute = |address: &Address| address.side == Side::Platform && address.role.is_none();
        Self::read(text, |text| match Address::sender(text) {
            Ok(address) if is_mute(&address) => Err(Code::InvalidAddress),
            read => read,
        })
    }

    /// Reads who receives; `*` stands for anybody.
    ///
    /// # Errors
    /// It is no address (VC-ADR-6).
    pub fn receiver(text: &str) -> Result<Self, Code> {
        Self::read(text, Address::receiver)
    }

    fn read(text: &str, read: impl Fn(&str) -> Result<Address, Code>) -> Result<Self, Code> {
        let address = match text {
            "*" => None,
            text => Some(read(text)?),
        };
        Ok(Self {
            text: text.to_owned(),
            address,
        })
    }
}

/// One thing that is other than it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A row of the permission table.
    Partition {
        /// The action.
        action: Action,
        /// Who sends.
        from: Party,
        /// Who receives.
        to: Party,
        /// Whether it may.
        allow: bool,
    },
    /// The ceiling of every mandate.
    Ceiling(u64),
    /// The reputation that a merchant needs where the mandate asks for none.
    MinReputation(i64),
    /// The name of the ranking policy.
    Ranking(String),
}

impl Item {
    /// The rule that it is, for people.
    pub fn name(&self) -> String {
        match self {
            Self::Partition {
                action,
                from,
                to,
                allow,
            } => {
                let word = if *allow { "allow" } else { "deny" };
                let (kind, from, to) = (action.kind(), &from.text, &to.text);
                format!("partition: {word} {kind} from {from} to {to}")
            }
            Self::Ceiling(value) => format!("max_spend_without_confirmation = {value}"),
            Self::MinReputation(value) => format!("min_reputation = {value}"),
            Self::Ranking(value) => format!("ranking_version = {value}"),
        }
    }

    /// Whether it can change what became of a message at all: most inputs need not be judged.
    pub(super) fn touches(&self, message: &Message, unit: &[Recorded]) -> bool {
        let Some(kind) = message.action else {
            return false;
        };
        match self {
            // The platform's own envelopes go through the same table (VC-PLAT-1).
            Self::Partition { action, .. } => unit
                .iter()
                .any(|recorded| kind_of(&recorded.line.envelope) == action.kind()),
            Self::Ceiling(_) => matches!(
                kind,
                Action::ApprovePurchase
                    | Action::AcceptOffer
                    | Action::VerifyClaims
                    | Action::CreateMatchCertificate
                    | Action::AuthorizePayment
                    | Action::SettlePayment
            ),
            Self::MinReputation(_) => {
                matches!(
                    kind,
                    Action::AcceptOffer | Action::VerifyClaims | Action::CreateMatchCertificate
                )
            }
            Self::Ranking(_) => kind == Action::Search,
        }
    }
}

/// Several of them, as a decision meets them.
pub(super) struct Policy<'i> {
    items: &'i [Item],
    /// The permission table, where it is another.
    table: Option<Table>,
}

impl<'i> Policy<'i> {
    /// What these come to: of two that contradict each other the later one holds.
    pub(super) fn of(items: &'i [Item]) -> Self {
        let mut table = None;
        for item in items {
            if let Item::Partition {
                action,
                from,
                to,
                allow,
            } = item
            {
                let before = table.as_ref().unwrap_or(&*TABLE);
                table = Some(before.changed(*action, from.address, to.address, *allow));
            }
        }
        Self { items, table }
    }

    /// Whether the table denies a message.
    pub(super) fn denies(&self, message: &Message) -> bool {
        let denied = |table: &Table| {
            let (from, to) = (message.sender(), message.receiver());
            message
                .action
                .is_some_and(|action| table.check(action, from, to).is_err())
        };
        self.table.as_ref().is_some_and(denied)
    }

    /// Where the table ends a unit: at its first envelope where it denies one of that one's own batch, which is there
    /// whole or not at all (VC-SET-1); else at the first follow-up that it denies, or whose batch it does (VC-PLAT-2).
    pub(super) fn ends(&self, envelopes: &[Bytes]) -> Option<usize> {
        let table = self.table.as_ref()?;
        let mut head = 0;
        for (at, envelope) in envelopes.iter().enumerate() {
            let told = Told::of(envelope)?;
            if !told.is_to_world() {
                head = at;
            }
            if told.is_denied_by(table) {
                return Some(head);
            }
        }
        None
    }

    /// The ceiling of every mandate, where it is another.
    pub(super) fn ceiling(&self) -> Option<u64> {
        self.items.iter().rev().find_map(|item| match item {
            Item::Ceiling(value) => Some(*value),
            _ => None,
        })
    }

    /// Settings with what is other in them.
    pub(super) fn alter(&self, settings: &AllSettings) -> AllSettings {
        let mut settings = settings.clone();
        let policy = &mut settings.vibe.policy;
        for item in self.items {
            match item {
                Item::MinReputation(value) => policy.min_reputation = *value,
                Item::Ranking(value) => policy.ranking_version.clone_from(value),
                Item::Partition { .. } | Item::Ceiling(_) => {}
            }
        }
        settings
    }
}

/// What an envelope says of itself.
#[derive(Deserialize)]
struct Told<'e> {
    #[serde(borrow)]
    from: Cow<'e, str>,
    #[serde(borrow)]
    to: Cow<'e, str>,
    #[serde(borrow)]
    action: Kind<'e>,
}

#[derive(Deserialize)]
struct Kind<'e> {
    #[serde(borrow)]
    kind: Cow<'e, str>,
}

impl<'e> Told<'e> {
    fn of(envelope: &'e Bytes) -> Option<Self> {
        serde_json::from_slice(envelope).ok()
    }

    fn is_to_world(&self) -> bool {
        self.to == Side::World.as_str()
    }

    fn is_denied_by(&self, table: &Table) -> bool {
        let (Some(action), Ok(from), Ok(to)) = (
            Action::parse(&self.action.kind),
            Address::sender(&self.from),
            Address::receiver(&self.to),
        ) else {
            return false;
        };
        table.check(action, from, to).is_err()
    }
}

/// The kind of an envelope's action.
pub(super) fn kind_of(envelope: &Bytes) -> String {
    Told::of(envelope).map_or_else(String::new, |told| told.action.kind.into_owned())
}

/// Whether an envelope writes the world: then it belongs to the batch of the one before it.
pub(super) fn is_write(envelope: &Bytes) -> bool {
    Told::of(envelope).is_some_and(|told| told.is_to_world())
}

/// Rows with another ceiling in every mandate.
pub(super) struct Patched<'r> {
    pub(super) below: &'r InMemory,
    pub(super) ceiling: Option<u64>,
}

impl Patched<'_> {
    fn patched(&self, row_key: &RowKey, row: Row) -> Row {
        let Some(ceiling) = self.ceiling else {
            return row;
        };
        if !row_key.is_in(MANDATES) {
            return row;
        }
        let Ok(mut mandate) = serde_json::from_slice::<MandateRow>(&row) else {
            return row;
        };
        mandate.max_spend_without_confirmation = ceiling;
        chancery_vibe::world::rows::bytes(&mandate).into()
    }
}

/// The space of mandates.
const MANDATES: &str = "vibe-mandate";

impl Rows for Patched<'_> {
    fn get(&self, row_key: &RowKey) -> Lookup {
        match self.below.get(row_key) {
            Lookup::Found(row) => Lookup::Found(self.patched(row_key, row)),
            other => other,
        }
    }

    fn scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, RowsDamaged> {
        let rows = self.below.scan(prefix)?.into_iter();
        Ok(rows
            .map(|(row_key, row)| {
                let row = self.patched(&row_key, row);
                (row_key, row)
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use chancery_vibe::state::key;

    use super::MANDATES;

    #[test]
    fn a_mandate_lies_where_it_is_looked_for() {
        assert!(key::mandate("man_1").is_in(MANDATES));
    }
}
