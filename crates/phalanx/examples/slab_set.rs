//! Drops records that arrived before: the outcome of an insertion tells new identifiers from known ones.
use phalanx::{Outcome, SlabSet};

fn main() -> Result<(), phalanx::Error> {
    let seen = SlabSet::<u64>::with_capacity(1000)?;
    let mut kept = Vec::new();
    for batch in 0..3 {
        // Sources repeat records: within a batch, and from one batch to the next.
        let records: Vec<u64> = (0..300).map(|n| batch * 100 + n / 2 * 7 % 200).collect();
        let outcomes = seen.insert(&records)?;
        let fresh = records.iter().zip(outcomes.iter()).filter(|(_, outcome)| **outcome == Outcome::Inserted);
        kept.extend(fresh.map(|(&record, _)| record));
    }
    // Of equal identifiers, even within a batch, exactly one is inserted.
    let mut distinct = kept.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), kept.len());
    assert_eq!(seen.len()?, kept.len());

    // Records that a user deleted may arrive again.
    assert_eq!(seen.remove(&[0, 7, 1_000_000])?, [true, true, false]);
    assert_eq!(seen.insert(&[7])?, [Outcome::Inserted]);
    println!("900 records, {} distinct", kept.len());
    Ok(())
}
