//! The events of a client, written down.

use std::sync::{Arc, Mutex};

use lockson::{ErrorKind, Event, LostReason};

use super::locked;

/// What a client told of, in order.
#[derive(Clone, Default)]
pub struct Told(Arc<Mutex<Vec<Event>>>);

impl Told {
    /// A handler that writes everything down.
    pub fn handler(&self) -> impl Fn(&Event) + Send + Sync + 'static {
        let told = self.clone();
        move |event| told.events(|events| events.push(event.clone()))
    }

    pub fn all(&self) -> Vec<Event> {
        self.events(|events| events.clone())
    }

    /// Name, holder and reason of each loss.
    pub fn lost(&self) -> Vec<(String, String, LostReason)> {
        let lost = |event: &Event| match event {
            Event::Lost {
                name,
                holder,
                reason,
                ..
            } => Some((name.to_string(), holder.to_string(), *reason)),
            _ => None,
        };
        self.events(|events| events.iter().filter_map(lost).collect())
    }

    /// Name and kind of error of each release that failed.
    pub fn unreleased(&self) -> Vec<(String, ErrorKind)> {
        let failed = |event: &Event| match event {
            Event::ReleaseFailed { name, error, .. } => Some((name.to_string(), error.kind())),
            _ => None,
        };
        self.events(|events| events.iter().filter_map(failed).collect())
    }

    fn events<T>(&self, look: impl FnOnce(&mut Vec<Event>) -> T) -> T {
        look(&mut locked(&self.0))
    }
}
