//! Nothing follows a commit.

use std::sync::Arc;

use chancery_core::decision::{Aside, Unit};
use chancery_core::delivery::Delivery;
use chancery_core::line::Seq;
use chancery_core::rows::{RowChange, RowKey};

use crate::committer::AfterCommit;
use crate::trace::Trace;

pub(super) struct Nothing;

impl AfterCommit for Nothing {
    fn about_to_commit(&mut self, _: &[Unit]) {}

    fn all_committed(&mut self, _: &[Unit]) {}

    fn follows(&self, _: &RowKey) -> bool {
        false
    }

    fn committed(&mut self, _: &Unit, _: Option<&Arc<Trace>>) {}

    fn aside(&mut self, _: Aside) {}

    fn repeat(&mut self, _: Seq, _: Delivery) {}

    fn minds(&self, _: &RowKey) -> bool {
        false
    }

    fn others_committed(&mut self, _: &[RowChange], _: &[Unit]) {}
}
