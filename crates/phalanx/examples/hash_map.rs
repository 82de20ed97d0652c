//! Counts the words of a text: each word becomes a number, and equal keys of a batch add up in the table.
use phalanx::{HashMap, Merge, Outcome};

const TEXT: &str = "the map the key and the value of the map";

fn main() -> Result<(), phalanx::Error> {
    // The host numbers the words; the table counts the numbers.
    let mut words: Vec<&str> = TEXT.split(' ').collect();
    words.sort_unstable();
    words.dedup();
    let number = |word: &str| words.binary_search(&word).expect("every word is listed") as u32;
    let keys: Vec<u32> = TEXT.split(' ').map(number).collect();

    let counts = HashMap::<u32, u32>::with_capacity(words.len())?;
    // The keys repeat within the batch; each occurrence adds 1.
    let outcomes = counts.upsert(Merge::Add, &keys, &vec![1; keys.len()])?;
    assert!(!outcomes.contains(&Outcome::Refused));
    assert_eq!(counts.len()?, words.len());

    let found = counts.get(&[number("the"), number("map"), number("of")])?;
    assert_eq!(found, [Some(4), Some(2), Some(1)]);

    // `iter` copies all pairs to the host, in no order.
    let most = counts.iter()?.max_by_key(|&(_, count)| count);
    assert_eq!(most, Some((number("the"), 4)));

    // Words seen once are removed; each removal returns whether the key was present.
    let rare: Vec<u32> = counts.iter()?.filter(|&(_, count)| count == 1).map(|(word, _)| word).collect();
    let removed = counts.remove(&rare)?;
    assert!(removed.iter().all(|&removed| removed));
    println!("{} words, {} of them more than once", words.len(), counts.len()?);
    Ok(())
}
