//! Behaviour of AGH Network, one file a subject.
#![allow(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]
#![allow(clippy::print_stdout, reason = "tests tell what they counted")]

mod agreement;
mod conversations;
mod discovery;
mod error_pages;
mod floods;
mod foreign;
mod hostile;
mod receipts;
mod sending;
mod support;
mod trust;
mod vectors;
