//! Many plain locks of one client at once: taken by one request, all or none, and released by one.

use std::{sync::Arc, time::Instant};

use super::{Core, Shared, Terms, bid::Bid, contest::Contest, grip::Grip, hold::Hold};
use crate::{
    cancel::CancelToken,
    error::{Error, ErrorKind, Result},
    event::LostReason,
    protocol::{Joint, Left, Parted, Standing, Subject, joint},
    transport::{Budget, Earlier, Failure, Fence, Lane, kind_in_text},
};

/// What came of it.
pub(crate) enum Jointly {
    Held(Vec<Grip>),
    /// Which one somebody else has; nothing is held.
    Refused(usize),
}

/// One acquisition to give up.
pub(super) struct Part {
    pub(super) subject: Arc<Subject>,
    pub(super) hold: Arc<Hold>,
    pub(super) share: u64,
}

impl Core {
    /// Tries once to take all of these, which are different keys, for a thread or for the guards.
    pub(super) fn acquire_jointly(
        self: &Arc<Self>,
        subjects: &[Arc<Subject>],
        terms: &Terms,
        limit: Option<Instant>,
    ) -> Result<Jointly> {
        self.check_open()?;
        loop {
            let mut bids: Vec<Bid<'_>> = subjects
                .iter()
                .map(|subject| self.bid_once(subject, terms, None).0)
                .collect();
            let (said, sent) = self.ask_jointly(&mut bids, terms, self.budget(limit))?;
            let lost = match said {
                Joint::Refused(place) => return Ok(Jointly::Refused(place)),
                Joint::Lost(place) => Some(place),
                Joint::Failed(place, text) => {
                    return Err(self.not_looked_at(bids.get(place), &text));
                }
                Joint::Held => None,
            };
            if let Some(place) = lost {
                let bid = bids.get(place);
                bid.inspect(|bid| self.lose(&bid.hold, LostReason::Gone));
                continue;
            }
            self.check_open()?;
            let deadline = sent + self.lease(terms);
            let mut grips = Vec::with_capacity(bids.len());
            for bid in &mut bids {
                grips.extend(self.granted(bid, terms, deadline));
            }
            if grips.len() == bids.len() {
                return Ok(Jointly::Held(grips));
            }
            // One was over before the answer came: what is held goes, and all begins anew.
        }
    }

    fn not_looked_at(&self, bid: Option<&Bid<'_>>, text: &str) -> Error {
        let error = Error::new(kind_in_text(text), text);
        let Some(bid) = bid else {
            return error;
        };
        let error = error.about(&bid.subject.key);
        match bid.count {
            1 => error,
            _ => self.note_wrong_type(&bid.hold, error),
        }
    }

    fn ask_jointly(
        &self,
        bids: &mut [Bid<'_>],
        terms: &Terms,
        budget: Budget,
    ) -> Result<(Joint, Instant)> {
        let claims: Vec<_> = bids.iter().map(|bid| (bid.subject, bid.claim())).collect();
        let ask = joint::acquire(self.lease(terms), &claims);
        let before: Vec<_> = bids
            .iter()
            .map(|bid| (bid.subject, &bid.hold.holder, bid.count - 1))
            .collect();
        let undo = joint::release(&before).request;
        // A late copy of an earlier request for one of them would take away what this one gets.
        let earlier: Vec<Vec<Fence>> = bids.iter_mut().filter_map(Bid::take_doubt).collect();
        let earlier = match earlier.is_empty() {
            true => Earlier::Nothing,
            false => Earlier::Copies(earlier.concat()),
        };
        let cancel = terms.cancel.as_ref();
        let over = || self.is_closed() || cancel.is_some_and(CancelToken::is_cancelled);
        let called = self.transport.call_again(
            earlier,
            Lane::Acquire,
            &ask.request,
            Some(&undo),
            budget,
            &over,
        );
        match called {
            Ok(answer) => {
                self.tie_up(answer.loose);
                let said = (ask.decode)(answer.reply).map_err(|reply| self.malformed(reply))?;
                if answer.repeated && said != Joint::Held {
                    // An earlier copy may have taken them before one of them went.
                    for bid in bids {
                        bid.inherit(Some(Vec::new()));
                    }
                }
                Ok((said, answer.sent))
            }
            Err(Failure {
                error,
                doubtful,
                fences,
            }) => {
                let error = match bids.first() {
                    Some(bid) => error.about(&bid.subject.key),
                    None => error,
                };
                if doubtful {
                    for bid in bids {
                        bid.inherit(Some(fences.clone()));
                    }
                }
                Err(error)
            }
        }
    }
}

impl Shared {
    /// Gives up all of these, which are plain locks, by one request; answers for each of them.
    pub(super) fn release_jointly(&self, parts: &[Part]) -> Vec<Result<()>> {
        if self.is_closed() {
            return parts.iter().map(|_| Err(Error::closed())).collect();
        }
        let lefts: Vec<Left> = parts
            .iter()
            .map(|part| self.begin_release(&part.hold, part.share))
            .collect();
        let lines: Vec<Vec<Arc<Contest>>> = parts
            .iter()
            .zip(&lefts)
            .map(|(part, left)| match left.count {
                0 => self.contests.of(&part.subject.key),
                _ => Vec::new(),
            })
            .collect();
        for line in lines.iter().flatten() {
            if line.standing() == Standing::OneForAll {
                line.releasing();
            }
        }
        let results = self.send_jointly(parts, &lefts);
        let mut said = Vec::with_capacity(parts.len());
        for ((part, result), lines) in parts.iter().zip(results).zip(lines) {
            let told = result.as_ref().map_or(0, |told| told.unwrap_or(0));
            for line in lines {
                match line.standing() {
                    Standing::OneForAll => line.released(told, false),
                    Standing::Queued | Standing::Together => line.left_the_client(),
                }
            }
            part.hold.end_share(part.share);
            said.push(
                result
                    .map(drop)
                    .map_err(|error| error.about(&part.subject.key)),
            );
        }
        said
    }

    fn send_jointly(&self, parts: &[Part], lefts: &[Left]) -> Vec<Result<Option<u64>>> {
        let words: Vec<_> = parts
            .iter()
            .zip(lefts)
            .map(|(part, left)| (&part.subject, &part.hold.holder, left.count))
            .collect();
        let ask = joint::release(&words);
        let called = self
            .transport
            .call(Lane::Release, &ask.request, None, self.short_budget());
        let each = || parts.iter().zip(lefts);
        let answer = match called {
            Ok(answer) => answer,
            Err(failure) => {
                return each()
                    .map(|(part, left)| self.not_released(&part.hold, *left, failure.clone()))
                    .collect();
            }
        };
        self.tie_up(answer.loose);
        let results = match (ask.decode)(answer.reply) {
            Ok(results) if results.len() == parts.len() => results,
            wrong => {
                let error = match wrong {
                    Ok(_) => Error::new(ErrorKind::Protocol, "not an answer for each lock"),
                    Err(reply) => self.malformed(reply),
                };
                return each().map(|_| Err(error.clone())).collect();
            }
        };
        each()
            .zip(results)
            .map(|((part, left), result)| match result {
                Parted::Released(released) => {
                    let told = self.read_release(&part.hold, *left, released, answer.repeated);
                    told.map(|told| told.map(|told| told.heard))
                }
                Parted::Failed(text) => {
                    let error = Error::new(kind_in_text(&text), format!("not released: {text}"));
                    let failure = Failure {
                        error,
                        doubtful: false,
                        fences: Vec::new(),
                    };
                    self.not_released(&part.hold, *left, failure)
                }
            })
            .collect()
    }
}
