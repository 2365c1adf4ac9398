//! The suite: one binary, one module a subject, real servers.

#[path = "../support/selftest.rs"]
mod selftest;
#[path = "../support/mod.rs"]
mod support;

mod api;
mod bad_data;
mod basics;
mod connecting;
mod documents;
mod examples;
mod fair;
mod faults;
mod golden;
mod histories;
mod interop;
mod lifetime;
mod loss;
mod model;
mod multi;
mod notifier;
mod pages;
mod read_write;
mod red;
mod regressions;
mod scenarios;
mod scenarios_fair;
mod scenarios_multi;
mod scenarios_rw;
mod told_once;
mod tour;
mod waiting;
mod watchdog;
