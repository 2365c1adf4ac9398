//! A process that does workloads by orders: one side of a comparison.
//!
//! It says `ready`, then answers each line on its standard input by a line of JSON, and ends with its
//! input, so also when its parent is gone. The orders are those of `serve.rs`.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use serde_json::Value;

use super::{BOUND, Outcome, samples::Outturn, serve, workload::Workload};

/// The process; killed when this is dropped.
pub(crate) struct Side {
    name: String,
    child: Child,
    orders: ChildStdin,
    answers: Receiver<String>,
}

impl Side {
    /// Starts it, and returns when it is ready.
    pub(crate) fn start(name: &str, mut command: Command) -> Outcome<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|cause| format!("{name}: {command:?} cannot be started: {cause}"))?;
        let orders = child.stdin.take().ok_or("no pipe")?;
        let lines = BufReader::new(child.stdout.take().ok_or("no pipe")?).lines();
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            lines
                .map_while(|line| sender.send(line.ok()?).ok())
                .for_each(drop)
        });
        let side = Self {
            name: name.to_owned(),
            child,
            orders,
            answers,
        };
        match &*side.line(BOUND)? {
            "ready" => Ok(side),
            other => Err(format!("{name} says {other:?} instead of ready").into()),
        }
    }

    /// This very program, started again.
    pub(crate) fn of_ours(role: &str, urls: &[String]) -> Outcome<Self> {
        let mut command = Command::new(env::current_exe()?);
        command.env(serve::ROLE, format!("{role} {}", urls.join(",")));
        Self::start(role, command)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn order(&mut self, order: &str) -> Outcome {
        Ok(writeln!(self.orders, "{order}")?)
    }

    pub(crate) fn answer(&self, bound: Duration) -> Outcome<Value> {
        let line = self.line(bound)?;
        let value: Value = serde_json::from_str(&line)
            .map_err(|cause| format!("{} says {line:?}: {cause}", self.name))?;
        match value["error"].as_str() {
            Some(error) => Err(format!("{}: {error}", self.name).into()),
            None => Ok(value),
        }
    }

    pub(crate) fn begin(&mut self, workload: Workload, name: &str, time: Duration) -> Outcome {
        self.order(&format!("run {workload} {} {name}", time.as_secs_f64()))
    }

    pub(crate) fn outturn(&self, time: Duration) -> Outcome<Outturn> {
        Outturn::from_json(&self.answer(time + BOUND)?)
    }

    pub(crate) fn run(
        &mut self,
        workload: Workload,
        name: &str,
        time: Duration,
    ) -> Outcome<Outturn> {
        self.begin(workload, name, time)?;
        self.outturn(time)
    }

    fn line(&self, bound: Duration) -> Outcome<String> {
        let line = self.answers.recv_timeout(bound + Duration::from_secs(5));
        Ok(line.map_err(|_| format!("{} does not answer", self.name))?)
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
