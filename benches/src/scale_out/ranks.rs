//! The work of a rank.
use super::Event;
use anyhow::{Result, bail, ensure};
use phalanx::exchange::{Error as Lost, Exchange, Limits};
use phalanx::{Error, HashMap, ShardedMap};
use std::time::Duration;

/// Keys that each rank inserts.
const KEYS: u64 = 10_000;

/// Something that a rank tells the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// All answers are right, and lookups go on.
    Ready,
    /// The rank has an error because another is lost.
    Lost,
    /// The rank's shard has answered after that.
    Done,
}

impl Said {
    /// Names of all, as a process prints them.
    pub const NAMES: [(&'static str, Self); 3] =
        [("ready", Self::Ready), ("lost", Self::Lost), ("done", Self::Done)];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }
}

/// Returns the bounds of the exchange: its deadline leaves a second until the error must be there.
pub fn limits() -> Limits {
    Limits { part_bytes: 1 << 20, deadline: Duration::from_secs(2), ..Limits::default() }
}

/// Inserts keys, checks the answers to all keys, and looks up the first ones until a rank is lost. `goes_on`
/// tells before each lookup whether this rank goes on.
pub fn work(
    exchange: Exchange,
    event: Event,
    mut say: impl FnMut(Said) -> Result<()>,
    mut goes_on: impl FnMut() -> bool,
) -> Result<()> {
    let shard = HashMap::<u64, u64>::builder().device(exchange.device()).capacity(KEYS as usize);
    let mut map = ShardedMap::new(exchange, shard.build()?)?;
    let (rank, ranks) = (map.rank() as u64, map.ranks() as u64);
    let own: Vec<u64> = (rank * KEYS..(rank + 1) * KEYS).collect();
    let values: Vec<u64> = own.iter().map(|key| 3 * key).collect();
    ensure!(map.insert(&own, &values)?.all_placed(), "pairs were refused");
    ensure!(map.len()? as u64 == ranks * KEYS, "the map has other pairs");
    let all: Vec<u64> = (0..ranks * KEYS).collect();
    check(&map.get(&all)?, &all)?;
    say(Said::Ready)?;
    if event != Event::Sockets {
        let asked = &all[..1000];
        while goes_on() {
            match map.get(asked) {
                Ok(found) => check(&found, asked)?,
                Err(error) if is_lost(&error) => break,
                Err(error) => bail!(error),
            }
        }
        say(Said::Lost)?;
    }
    let local: Vec<u64> = all.into_iter().filter(|&key| map.owner(key) as u64 == rank).collect();
    check(&map.shard().get(&local)?, &local)?;
    say(Said::Done)
}

fn check(found: &[Option<u64>], keys: &[u64]) -> Result<()> {
    let wrong = keys.iter().zip(found).find(|(key, value)| **value != Some(3 * **key));
    ensure!(wrong.is_none(), "the value of a key is wrong: {wrong:?}");
    Ok(())
}

fn is_lost(error: &Error) -> bool {
    matches!(error, Error::Exchange(error) if matches!(**error, Lost::PeerLost(_)))
}
