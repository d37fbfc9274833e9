//! Behaviour of AGH Network, one file a subject.
#![allow(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]
#![allow(clippy::print_stdout, reason = "tests tell what they counted")]

mod agreement;
mod answers_under_proof;
mod bridge;
mod conversations;
mod discovery;
mod floods;
mod foreign;
mod hostile;
mod instructions;
mod receipts;
mod sending;
mod small_print;
mod support;
mod tasks;
mod trust;
mod vectors;
