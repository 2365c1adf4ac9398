//! Does what the schedule says, and undoes it.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    crew::Crew,
    dice::Dice,
    history::event::Event,
    pen::Pen,
    schedule::{Fault, What},
    support::{Proxy, Server, containing, process::signal, proxy::Matcher},
};

/// What it works on.
pub(crate) struct Evil<'a> {
    pub(crate) crew: &'a mut Crew,
    pub(crate) servers: &'a [Arc<Server>],
    pub(crate) proxies: &'a [Proxy],
    pub(crate) pen: &'a Pen,
    pub(crate) dice: Dice,
    /// How often what was done.
    pub(crate) done: BTreeMap<What, usize>,
}

impl Evil<'_> {
    pub(crate) fn begin(&mut self, number: u64, fault: &Fault) {
        let (whom, millis) = (fault.whom, fault.lasts.as_millis().max(1).to_string());
        self.pen.note(Event::Fault {
            number,
            what: fault.what.to_string(),
            whom: whom.to_string(),
        });
        *self.done.entry(fault.what).or_default() += 1;
        let some = self.dice.within(1..6) as usize;
        let all = self.dice.percent(50);
        match fault.what {
            What::StopWorker => stop(self.crew.pid(whom)),
            What::KillWorker => self.crew.kill(whom, self.pen),
            What::StopServer => stop(self.servers[whom].pid()),
            What::RestartServer => self.servers[whom].kill(),
            What::KillNormal => self.tell(whom, &["CLIENT", "KILL", "TYPE", "normal"]),
            What::KillPubsub => self.tell(whom, &["CLIENT", "KILL", "TYPE", "pubsub"]),
            What::Pause => {
                let whose = if all { "ALL" } else { "WRITE" };
                self.tell(whom, &["CLIENT", "PAUSE", &millis, whose]);
            }
            What::Cut => self.proxies[whom].cut_all(),
            What::Refuse => {
                self.proxies[whom].refuse(true);
                self.proxies[whom].cut_all();
            }
            What::BlackHole => self.proxies[whom].black_hole(true),
            What::Swallow => self.proxies[whom].swallow_replies(scripts(), some),
            What::Drop => self.proxies[whom].drop_requests(scripts(), some),
            What::CutReply => self.proxies[whom].cut_after(scripts(), some),
            What::Hold => self.proxies[whom].hold(scripts(), some),
            What::Delay => self.proxies[whom].delay(self.dice.millis(5..200)),
            What::Flush => {
                let server = whom as u64;
                self.pen.note(Event::Destroying { server });
                self.tell(whom, &["FLUSHALL"]);
                self.pen.note(Event::Destroyed { server });
            }
        }
    }

    pub(crate) fn end(&mut self, number: u64, fault: &Fault) {
        let whom = fault.whom;
        match fault.what {
            What::StopWorker => go_on(self.crew.pid(whom)),
            What::KillWorker => self.crew.start(whom),
            What::StopServer => go_on(self.servers[whom].pid()),
            What::RestartServer => self.servers[whom].restart(),
            What::Refuse => self.proxies[whom].refuse(false),
            What::BlackHole => self.proxies[whom].black_hole(false),
            What::Swallow | What::Drop | What::CutReply => self.proxies[whom].clear(),
            What::Hold => {
                self.proxies[whom].clear();
                self.proxies[whom].release_held();
            }
            What::Delay => self.proxies[whom].delay(std::time::Duration::ZERO),
            What::KillNormal | What::KillPubsub | What::Pause | What::Cut | What::Flush => {}
        }
        self.pen.note(Event::Healed { number });
    }

    fn tell(&self, server: usize, words: &[&str]) {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(word);
        }
        let told = self.servers[server]
            .try_connection()
            .and_then(|mut redis| command.query::<redis::Value>(&mut redis));
        told.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    }
}

/// What locks ask for, not what a connection says of itself.
fn scripts() -> impl Matcher {
    containing("EVAL")
}

fn stop(pid: u32) {
    signal(pid, libc::SIGSTOP).expect("it runs");
}

fn go_on(pid: u32) {
    signal(pid, libc::SIGCONT).expect("it is there");
}
