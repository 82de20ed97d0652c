//! Audits accounts while transfers continue: a snapshot shows all balances at one point in time.
use phalanx::{Merge, MultiVersionBTree, Outcome};

const ACCOUNTS: u32 = 200;

fn main() -> Result<(), phalanx::Error> {
    let accounts: Vec<u32> = (0..ACCOUNTS).collect();
    let mut balances = MultiVersionBTree::<u32, u64>::builder().capacity(1000).build()?;
    balances.bulk_build(&accounts, &vec![100; accounts.len()], 0.7)?;

    let audit = balances.snapshot()?;
    // Each account of the upper half receives 30 from one of the lower half, which is then closed.
    let (from, to) = accounts.split_at(accounts.len() / 2);
    let outcomes = balances.upsert(Merge::Add, to, &vec![30; to.len()])?;
    assert!(!outcomes.contains(&Outcome::Refused));
    assert!(balances.remove(from)?.iter().all(|&removed| removed));

    // The live tree has changed; the snapshot has not.
    assert_eq!(balances.get(&[0, ACCOUNTS - 1])?, [None, Some(130)]);
    let past = balances.at(&audit)?;
    assert_eq!(past.get(&[0, ACCOUNTS - 1])?, [Some(100), Some(100)]);
    let total: u64 = past.iter()?.map(|(_, balance)| balance).sum();
    assert_eq!(total, u64::from(ACCOUNTS) * 100);
    assert_eq!(past.count(&[..])?, [u64::from(ACCOUNTS)]);

    // Versions that only the snapshot needed are freed after it.
    let versions = balances.versions()?;
    assert!(versions > 0);
    drop(audit);
    balances.drain()?;
    assert_eq!(balances.versions()?, 0);
    println!("the audit found {total}; {versions} versions were kept for it");
    Ok(())
}
