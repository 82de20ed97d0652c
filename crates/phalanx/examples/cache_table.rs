//! Serves embeddings: rows of 16 floats, of which the table holds the most used ones. Requests follow a
//! skewed distribution; rows that are missing are computed and placed.
use phalanx::cache_table::Rule;
use phalanx::{CacheTable, Result};

const DIM: usize = 16;

/// Returns the embedding of an item, which a real program would read from its store.
fn embedding(item: u64) -> [f32; DIM] {
    std::array::from_fn(|at| (item as f32).sin() + at as f32)
}

/// Returns the items of a batch of requests: low numbers are popular.
fn requests(batch: u64) -> Vec<u64> {
    let mut state = batch;
    let mut random = || {
        state = (state ^ 0x9e37_79b9).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..500).map(|_| 20_000f64.powf(random()) as u64).collect()
}

fn main() -> Result<()> {
    let table = CacheTable::<u64, f32>::builder()
        .capacity(1024)
        .dim(DIM)
        .rule(Rule::Lfu)
        .two_buckets(true)
        .build()?;
    let (mut asked, mut hits) = (0, 0);
    for batch in 0..20 {
        let items = requests(batch);
        let found = table.get_and_touch(&items)?;
        asked += found.len();
        hits += found.found();
        let missed: Vec<u64> =
            items.iter().zip(found.iter()).filter(|(_, row)| row.is_none()).map(|(item, _)| *item).collect();
        let rows: Vec<f32> = missed.iter().flat_map(|item| embedding(*item)).collect();
        let (_, evicted) = table.insert_evict(&missed, &rows)?;
        if batch == 19 {
            println!("the last batch missed {} items and evicted {}", missed.len(), evicted.keys.len());
        }
    }
    println!("{hits} of {asked} requests were in the table, which holds {} rows", table.len()?);
    let popular = table.get(&[1, 2, 3])?;
    assert!(popular.iter().flatten().zip(1..).all(|(row, item)| row == embedding(item)));
    Ok(())
}
