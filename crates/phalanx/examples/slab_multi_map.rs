//! An inverted index: from each word to the documents that contain it.
use phalanx::{Outcome, SlabMultiMap};

const DOCUMENTS: [&str; 4] =
    ["keys and values", "a tile reads a bucket", "a bucket has keys", "values of a tile"];

/// Number of a word: a hash, as a stand-in for a dictionary.
fn number(word: &str) -> u64 {
    word.bytes().fold(0, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn main() -> Result<(), phalanx::Error> {
    let index = SlabMultiMap::<u64, u32>::with_capacity(100)?;
    let postings = DOCUMENTS.iter().enumerate().flat_map(|(document, text)| {
        let mut words: Vec<u64> = text.split(' ').map(number).collect();
        words.sort_unstable();
        words.dedup(); // a document counts once per word
        words.into_iter().map(move |word| (word, document as u32))
    });
    let (words, documents): (Vec<u64>, Vec<u32>) = postings.unzip();
    assert!(!index.insert(&words, &documents)?.contains(&Outcome::Refused));

    let query = ["bucket", "keys", "slab"].map(number);
    assert_eq!(index.count(&query)?, [2, 2, 0]);
    let found = index.get_all(&query)?;
    // The values of a key are in no order if they were inserted by one batch.
    let sorted = |values: &[u32]| {
        let mut values = values.to_vec();
        values.sort_unstable();
        values
    };
    assert_eq!(
        [sorted(found.of(0)), sorted(found.of(1)), sorted(found.of(2))],
        [vec![1, 2], vec![0, 2], vec![]]
    );

    // A conjunction: documents with both words.
    let both: Vec<u32> =
        sorted(found.of(0)).into_iter().filter(|document| found.of(1).contains(document)).collect();
    assert_eq!(both.iter().map(|&n| DOCUMENTS[n as usize]).collect::<Vec<_>>(), ["a bucket has keys"]);

    assert_eq!(index.remove_all(&[number("a")])?, [3]); // a stop word
    println!("{} postings", index.len()?);
    Ok(())
}
