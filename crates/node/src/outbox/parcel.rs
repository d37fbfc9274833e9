//! What is carried as one: a line's copies for recipients at the same place (VX-BC-3).

use chancery_core::delivery::{Delivery, parse_outbox_key};
use chancery_core::line::Seq;
use chancery_core::rows::RowKey;

use super::progress::Attempts;

/// A line on its way to one place.
pub(super) struct Parcel {
    /// The line.
    pub(super) seq: Seq,
    /// Who gets it; never empty.
    pub(super) copies: Vec<(RowKey, Delivery)>,
    /// The attempts so far.
    pub(super) attempts: Attempts,
}

impl Parcel {
    /// A delivery as a parcel of its own; none when the key is not one of the outbox.
    pub(super) fn new(key: RowKey, delivery: Delivery, attempts: Attempts) -> Option<Self> {
        let (seq, _) = parse_outbox_key(&key)?;
        Some(Self {
            seq,
            copies: vec![(key, delivery)],
            attempts,
        })
    }

    /// The copy that is carried for all.
    pub(super) fn lead(&self) -> &Delivery {
        let (_, delivery) = self.copies.first().expect("a parcel is never empty");
        delivery
    }

    pub(super) fn lead_key(&self) -> &RowKey {
        let (key, _) = self.copies.first().expect("a parcel is never empty");
        key
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &RowKey> {
        self.copies.iter().map(|(key, _)| key)
    }

    pub(super) fn deliveries(&self) -> impl Iterator<Item = &Delivery> {
        self.copies.iter().map(|(_, delivery)| delivery)
    }

    /// Whether a copy at the same place can travel in this parcel.
    fn takes(&self, other: &Self) -> bool {
        let (own, of_other) = (self.lead(), other.lead());
        let same_terms = Delivery {
            to: own.to.clone(),
            ..of_other.clone()
        } == *own;
        self.seq == other.seq && self.attempts == other.attempts && same_terms
    }
}

/// Puts together what goes to the same place under the same terms, in order of the first of each.
pub(super) fn put_together(
    parcels: Vec<Parcel>,
    place: impl Fn(&Delivery) -> Option<String>,
) -> Vec<Parcel> {
    if parcels.len() < 2 {
        return parcels;
    }
    let mut together: Vec<(Option<String>, Parcel)> = Vec::with_capacity(parcels.len());
    for mut parcel in parcels {
        let place = place(parcel.lead());
        let fitting = together
            .iter_mut()
            .find(|(at, first)| place.is_some() && *at == place && first.takes(&parcel));
        match fitting {
            Some((_, first)) => first.copies.append(&mut parcel.copies),
            None => together.push((place, parcel)),
        }
    }
    together.into_iter().map(|(_, parcel)| parcel).collect()
}
