//! The same for several at once: one after the other where that takes no time, else each on a thread.

use std::{sync::Mutex, thread};

/// Does the work for each, all at the same time; answers in their order.
///
/// What has begun, so that only an answer is to be read, is done by the caller: the answers come
/// while it reads the first. For the others, short-lived threads, since one that hangs until its
/// timeout must not delay the rest, and opening a connection cannot be done halfway.
pub(super) fn each<T: Send, R: Send>(
    items: Vec<T>,
    has_begun: impl Fn(&T) -> bool,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let mut by_caller: Vec<bool> = items.iter().map(has_begun).collect();
    // Without anything else to do, it takes the last.
    if !by_caller.contains(&true)
        && let Some(last) = by_caller.last_mut()
    {
        *last = true;
    }
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
        let each = || slots.iter().zip(&by_caller);
        let threads: Vec<_> = each()
            .map(|(slot, by_caller)| {
                let start = || thread::Builder::new().spawn_scoped(scope, || run(slot));
                (!by_caller).then(start)
            })
            .collect();
        let own: Vec<Option<R>> = each()
            .map(|(slot, by_caller)| by_caller.then(|| run(slot)).flatten())
            .collect();
        let all = slots.iter().zip(threads).zip(own);
        all.map(|((slot, thread), own)| match thread {
            None => own,
            Some(Err(_)) => run(slot),
            Some(Ok(thread)) => match thread.join() {
                Ok(answer) => answer,
                Err(panic) => std::panic::resume_unwind(panic),
            },
        })
        .collect()
    });
    answers.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_run_at_once_and_answer_in_order() {
        let meeting = std::sync::Barrier::new(4);
        let work = |number| {
            meeting.wait();
            number * 10
        };
        assert_eq!(each(vec![1, 2, 3, 4], |_| false, work), [10, 20, 30, 40]);
        assert_eq!(
            each(vec![1, 2, 3, 4], |one| *one == 2, work),
            [10, 20, 30, 40]
        );
        assert_eq!(each(Vec::<u8>::new(), |_| false, |one| one), []);
    }

    #[test]
    fn what_has_begun_needs_no_thread() {
        let caller = thread::current().id();
        let is_here = each(
            vec![1, 2, 3, 4],
            |one| one % 2 == 0,
            |_| thread::current().id() == caller,
        );
        assert_eq!(is_here, [false, true, false, true]);
    }
}
