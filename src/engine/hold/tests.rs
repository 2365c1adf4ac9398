//! The clock of a hold, and its shares.

use super::*;
use crate::protocol::{Read, Reentrant};

fn hold() -> Hold {
    let subject = Subject::new(&Reentrant, "L".into(), "L".into());
    Hold::new(Arc::new(subject), "u:1".into(), None, Duration::ZERO)
}

fn after(millis: u64) -> Instant {
    Instant::now() + Duration::from_millis(millis)
}

#[test]
fn the_clock_only_moves_forward() {
    let hold = hold();
    hold.grant(Keep::Leased, after(60_000));
    hold.grant(Keep::Leased, after(1));
    assert!(hold.confirm(Raised::Renewed, after(2)));
    assert!(hold.remaining() > Duration::from_secs(50));
}

#[test]
fn lost_by_its_own_clock_with_nobody_looking() {
    let hold = hold();
    let (_, fate) = hold.grant(Keep::Leased, after(20)).expect("new");
    assert!(hold.is_held());
    assert_eq!(
        hold.wait(&fate, Some(after(60_000))),
        Ended::Lost(LostReason::Expired)
    );
    assert!(!hold.is_held());
    assert!(
        !hold.confirm(Raised::Renewed, after(60_000)),
        "a late answer"
    );
    assert!(
        hold.grant(Keep::Leased, after(60_000)).is_none(),
        "a late answer"
    );
    assert!(!hold.is_held());
    assert!(hold.is_doubtful());
}

/// The lease of one was once that of all who were renewed beside it.
#[test]
fn who_stays_has_its_own_time() {
    let subject = Subject::new(&Read, "L".into(), "L".into());
    let hold = Hold::new(Arc::new(subject), "u:1".into(), None, Duration::ZERO);
    let renewed = Keep::Renewed(None);
    hold.grant(renewed, after(30_000)).expect("new");
    let (long, _) = hold.grant(Keep::Leased, after(3_600_000)).expect("held");
    let (short, _) = hold.grant(renewed, after(30_000)).expect("held");
    assert!(hold.confirm(Raised::Again, after(3_600_000)));
    assert!(hold.remaining() > Duration::from_secs(3_500));
    let left = hold.begin_release(long);
    assert!(left.lives <= Duration::from_secs(30), "{left:?}");
    hold.end_share(long);
    // Renewed for somebody who leaves meanwhile too.
    hold.begin_release(short);
    assert!(hold.confirm(Raised::For(short), after(60_000)));
    assert!(hold.remaining() <= Duration::from_secs(30));
}

#[test]
fn each_share_has_an_end_of_its_own() {
    let hold = hold();
    let (first, first_fate) = hold.grant(Keep::Leased, after(60_000)).expect("new");
    let (_, second_fate) = hold.grant(Keep::Leased, after(60_000)).expect("held");
    assert_eq!(hold.begin_release(first).count, 1);
    hold.end_share(first);
    assert_eq!(hold.wait(&first_fate, None), Ended::Released);
    assert_eq!(hold.wait(&second_fate, Some(after(5))), Ended::TimedOut);
    assert!(hold.lose(LostReason::Gone));
    assert!(!hold.lose(LostReason::Closed));
    assert_eq!(hold.fate(&first_fate), Some(Ended::Released));
    assert_eq!(hold.fate(&second_fate), Some(Ended::Lost(LostReason::Gone)));
}

#[test]
fn the_first_reason_stays() {
    let hold = hold();
    let (number, fate) = hold.grant(Keep::Leased, after(5)).expect("new");
    assert_eq!(hold.wait(&fate, None), Ended::Lost(LostReason::Expired));
    hold.begin_release(number);
    hold.end_share(number);
    assert_eq!(hold.fate(&fate), Some(Ended::Lost(LostReason::Expired)));
    hold.lose(LostReason::Closed);
    assert_eq!(hold.lost(), Some(LostReason::Expired));
}

#[test]
fn renewed_while_one_share_asks_for_it() {
    let timeout = Duration::from_secs(30);
    let hold = hold();
    hold.grant(Keep::Leased, after(60_000));
    assert_eq!(hold.wanted(timeout), None);
    let bounded = Keep::Renewed(Some(Duration::from_secs(10)));
    let (bounded, _) = hold.grant(bounded, after(60_000)).expect("held");
    assert!(hold.wanted(timeout).expect("wanted") <= Duration::from_secs(10));
    let (free, _) = hold
        .grant(Keep::Renewed(None), after(60_000))
        .expect("held");
    assert_eq!(hold.wanted(timeout), Some(timeout));
    hold.begin_release(free);
    assert!(hold.wanted(timeout).expect("wanted") <= Duration::from_secs(10));
    hold.begin_release(bounded);
    assert_eq!(hold.wanted(timeout), None);
}
