//! The same for several at once, each on a thread of its own.

use std::{sync::Mutex, thread};

/// Does the work for each, all at the same time; answers in their order.
///
/// Short-lived threads, since one that hangs until its timeout must not delay the others, and
/// opening a connection cannot be done halfway. The last is done by the caller.
pub(super) fn each<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    // A thread takes its item when it runs: if it cannot be started, the caller takes it.
    let slots: Vec<Mutex<Option<T>>> = items
        .into_iter()
        .map(|item| Mutex::new(Some(item)))
        .collect();
    let run = |slot: &Mutex<Option<T>>| {
        let item = slot.lock().ok().and_then(|mut item| item.take());
        item.map(&work)
    };
    let answers: Vec<Option<R>> = thread::scope(|scope| {
        let (last, others) = match slots.split_last() {
            Some((last, others)) => (Some(last), others),
            None => (None, &slots[..]),
        };
        let threads: Vec<_> = others
            .iter()
            .map(|slot| thread::Builder::new().spawn_scoped(scope, || run(slot)))
            .collect();
        let own = last.map(&run);
        let mut answers: Vec<Option<R>> = Vec::with_capacity(slots.len());
        for (slot, thread) in others.iter().zip(threads) {
            answers.push(match thread {
                Ok(thread) => match thread.join() {
                    Ok(answer) => answer,
                    Err(panic) => std::panic::resume_unwind(panic),
                },
                Err(_) => run(slot),
            });
        }
        answers.extend(own);
        answers
    });
    answers.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_run_at_once_and_answer_in_order() {
        let meeting = std::sync::Barrier::new(4);
        let answers = each(vec![1, 2, 3, 4], |number| {
            meeting.wait();
            number * 10
        });
        assert_eq!(answers, [10, 20, 30, 40]);
        assert_eq!(each(Vec::<u8>::new(), |one| one), []);
    }
}
