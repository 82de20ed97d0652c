//! Benchmarks of `phalanx::ShardedMap`, with batches on device buffers: a thread and a device for each rank.
//!
//! Each rank has `pairs` pairs when the batch has ended, if it inserts, else before it. A batch has `n`
//! elements on each rank, of any owners. The time is that of the host, from the moment when all ranks are
//! ready until the last one has its answers. `fill` inserts all pairs, in batches of `n`; `insert_host` and
//! `get_host` have batches on the host. With `keys = "others"`, a batch has only keys of other ranks.
//! `choice` says how a `get` is executed: as the map has measured (`auto`), through the exchange, or without
//! one (`remote`).
//!
//! Where the parameter `plain` is 1, the only rank's shard executes the batch itself, on the same stream and
//! with the same wait: the baseline of the short cut that a map of one rank takes. Where it is 2, the shard
//! executes each batch before the map does, and `plain_ms` is the time: two tables of equal pairs may differ
//! by more than the short cut costs.
use super::exchange::{StartLine, Threads, devices, on_threads};
use crate::engine::benchmark::{Benchmark, Metric, Structure, Verified};
use crate::engine::statistics::summarize;
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Context, Result, bail, ensure};
use gpu::Buffer;
use phalanx::exchange::{Exchange, Limits, Meeting, nccl_id};
use phalanx::map::Word as MapWord;
use phalanx::sharded_map::{Report, Stages};
use phalanx::{HashMap, Merge, Outcome, ShardedMap};
use phalanx_kernels::sharded::owner_of;
use std::time::Instant;
use workloads::random::{Source, below};
use workloads::{Key as Word, UniqueKeys, Zipf, parallel, updated_value_of, value_of};

/// Sharded maps as a structure. Its variants are the ways to move data.
#[derive(Debug)]
pub struct ShardedMaps<'a>(pub &'a Gpu);

/// Timed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Insert,
    Get,
    /// Lookups that read the tables of the other ranks.
    GetRemote,
    Contains,
    Upsert,
    /// Insertion of all pairs of the map, in batches.
    Fill,
    /// Operations on host slices.
    InsertHost,
    GetHost,
}

const VERBS: [(&str, Verb); 8] = [
    ("insert", Verb::Insert),
    ("fill", Verb::Fill),
    ("insert_host", Verb::InsertHost),
    ("get_host", Verb::GetHost),
    ("get", Verb::Get),
    ("get_remote", Verb::GetRemote),
    ("contains_key", Verb::Contains),
    ("upsert", Verb::Upsert),
];

/// Which batches the shard executes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plain {
    None,
    All,
    /// Each batch, before the sharded map does.
    Too,
}

impl Verb {
    /// Returns whether the operation inserts pairs.
    fn inserts(self) -> bool {
        matches!(self, Self::Insert | Self::InsertHost | Self::Fill)
    }

    /// Returns whether the operation looks values up.
    fn gets(self) -> bool {
        matches!(self, Self::Get | Self::GetHost | Self::GetRemote)
    }

    /// Returns whether a rank's shard has the operation on device buffers.
    fn can_be_plain(self) -> bool {
        matches!(self, Self::Insert | Self::Get | Self::Contains | Self::Upsert)
    }
}

const WAYS: [&str; 2] = ["peer", "nccl"];

/// Names of the most elements for which `get` needs no exchange; `None` is what the map measures.
const CHOICES: [(&str, Option<usize>); 3] =
    [("auto", None), ("exchange", Some(0)), ("remote", Some(usize::MAX))];

impl Structure for ShardedMaps<'_> {
    fn name(&self) -> &'static str {
        "ShardedMap"
    }

    fn variants(&self) -> Vec<String> {
        WAYS.map(str::to_owned).to_vec()
    }

    fn ops(&self) -> Vec<&'static str> {
        VERBS.iter().map(|(name, _)| *name).collect()
    }

    fn is_possible(&self, case: &Case) -> bool {
        let ranks = case.number("ranks").unwrap_or(1.0) as usize;
        let has_way = case.variant == "peer"
            || case.op != "get_remote" && !self.0.device.is_emulator() && nccl_id().is_ok();
        has_way && devices(self.0, ranks).is_ok()
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        match (case.key_bits, case.value_bits) {
            (32, 32) => Ok(Box::new(Sharded::<u32, u32>::new(self.0, case)?)),
            (64, 64) => Ok(Box::new(Sharded::<u64, u64>::new(self.0, case)?)),
            (key, value) => bail!("there are no pairs of {key}-bit keys and {value}-bit values here"),
        }
    }
}

/// Prepared case.
struct Sharded<K: MapWord, V: MapWord> {
    verb: Verb,
    /// Threads for batches on device buffers. Those of the host are converted by threads of the library,
    /// unless the caller's belongs to a pool.
    threads: Threads,
    ranks: Vec<Rank<K, V>>,
    ms: f64,
    /// Times of the shard's own batches.
    plain_ms: Vec<f64>,
}

/// One rank.
struct Rank<K: MapWord, V: MapWord> {
    map: ShardedMap<K, V>,
    /// Keys that this rank inserts before the batch, and their values.
    fill: (Buffer<K>, Buffer<V>),
    /// Keys of the batch, on the host and on the device.
    asked: Vec<K>,
    keys: Buffer<K>,
    /// Values of the batch, or those found.
    values: Buffer<V>,
    outcomes: Buffer<u8>,
    /// Values of the batch on the host.
    given: Vec<V>,
    /// Answers to a batch on host slices.
    answers: Option<Answers<V>>,
    /// Elements of a batch.
    batch: usize,
    plain: Plain,
    is_filled: bool,
    /// Report of the last batch, and the times of its stages, if they are measured.
    done: (Report, Stages),
}

/// Answers to a batch on host slices.
enum Answers<V> {
    /// Whether all pairs were new.
    AllInserted(bool),
    Values(Vec<Option<V>>),
}

/// The parts of a case that all ranks share.
struct Plan<'a> {
    case: &'a Case,
    verb: Verb,
    ranks: usize,
    /// Pairs of a rank when an insertion has ended, else before the batch.
    pairs: usize,
    /// Pairs of a rank before the batch.
    before: usize,
    load_factor: f64,
    plain: Plain,
    zipf: Option<Zipf>,
    /// Whether a batch has only keys of other ranks.
    of_others: bool,
    /// Most elements of a `get` without an exchange, if it is not that which the map has measured.
    most_remote: Option<usize>,
}

impl<'a> Plan<'a> {
    fn new(case: &'a Case) -> Result<Self> {
        let verb = VERBS.iter().find(|(name, _)| *name == case.op);
        let (_, verb) = *verb.with_context(|| format!("no operation is called '{}'", case.op))?;
        let (pairs, ranks) = (case.number("pairs")? as usize, case.number("ranks")? as usize);
        let placed = match verb {
            Verb::Insert | Verb::InsertHost => case.n as usize,
            _ => 0,
        };
        let before = pairs.checked_sub(placed).context("a rank inserts more than `pairs`")?;
        let theta = case.number_if_given("theta")?.filter(|theta| *theta > 0.0);
        let zipf = theta.map(|theta| Zipf::new((ranks * before) as u64, theta)).transpose()?;
        ensure!(zipf.is_none() || !verb.inserts(), "insertions are of new keys, which have no distribution");
        let keys = [("any", false), ("others", true)];
        let of_others = case.choice("keys", &keys)?;
        let is_sole = of_others && (ranks == 1 || verb.inserts() || zipf.is_some());
        ensure!(!is_sole, "`keys = \"others\"` is for uniform keys of lookups on several ranks");
        let most_remote = case.choice("choice", &CHOICES)?;
        let plain = match case.number_if_given("plain")?.unwrap_or(0.0) as u64 {
            0 => Plain::None,
            1 => Plain::All,
            2 => Plain::Too,
            other => bail!("`plain` is 0, 1 or 2, not {other}"),
        };
        let can_be_plain = ranks == 1 && verb.can_be_plain() && !is_set(case, "forced")?;
        let is_possible = plain == Plain::None || can_be_plain;
        ensure!(is_possible, "`plain` is for one rank's batches that are not exchanged");
        let load_factor = case.number("load_factor")?;
        Ok(Self { case, verb, ranks, pairs, before, load_factor, plain, zipf, of_others, most_remote })
    }

    /// Returns the keys of a rank's batch: new ones, or some of all ranks.
    fn keys<K: MapWord + Word>(&self, rank: usize) -> Vec<K> {
        let (keys, n) = (UniqueKeys::<K>::new(self.case.seed), self.case.n as usize);
        let all = (self.ranks * self.before) as u64;
        if matches!(self.verb, Verb::Insert | Verb::InsertHost) {
            return parallel::tabulate(n, |index| keys.at(all + (rank * n + index) as u64));
        }
        let source = Source::new(self.case.seed.wrapping_add(rank as u64), "sharded batch");
        source.generate(n, |generator, _| {
            loop {
                let key = match &self.zipf {
                    Some(zipf) => keys.at(zipf.rank(generator)),
                    None => keys.at(below(generator, all)),
                };
                if !self.of_others || owner_of(key, self.ranks as u32) as usize != rank {
                    return key;
                }
            }
        })
    }

    /// Returns the keys that a rank inserts before the batch.
    fn first_keys<K: Word>(&self, rank: usize) -> Vec<K> {
        let keys = UniqueKeys::<K>::new(self.case.seed);
        parallel::tabulate(self.before, |index| keys.at((rank * self.before + index) as u64))
    }
}

impl<K: MapWord + Word, V: MapWord + Word> Sharded<K, V> {
    fn new(gpu: &Gpu, case: &Case) -> Result<Self> {
        let plan = Plan::new(case)?;
        let (devices, meeting) = (devices(gpu, plan.ranks)?, Meeting::new(plan.ranks)?);
        let id = (case.variant == "nccl").then(nccl_id).transpose()?;
        let ranks = on_threads(devices.iter().enumerate(), |(rank, device)| {
            let limits = limits(case)?;
            let exchange = match &id {
                Some(id) => Exchange::nccl(id, (rank, plan.ranks), device, limits)?,
                None => Exchange::peer(&meeting, rank, device, limits)?,
            };
            Rank::new(exchange, &plan)
        })?;
        let threads = Threads::new(plan.ranks)?;
        Ok(Self { verb: plan.verb, threads, ranks, ms: 0.0, plain_ms: Vec::new() })
    }

    /// Calls a function on each rank, in threads, and returns the results.
    fn on_ranks<R: Send>(&mut self, run: impl Fn(&mut Rank<K, V>) -> Result<R> + Sync) -> Result<Vec<R>> {
        on_threads(self.ranks.iter_mut(), run)
    }
}

/// Returns whether a parameter is given and not 0.
fn is_set(case: &Case, name: &str) -> Result<bool> {
    Ok(case.number_if_given(name)?.unwrap_or(0.0) > 0.0)
}

/// Returns the bounds of the exchange: those that the case has, or the default.
pub(super) fn limits(case: &Case) -> Result<Limits> {
    let mut limits = Limits::default();
    if let Some(bytes) = case.number_if_given("part_bytes")? {
        limits.part_bytes = bytes as usize;
    }
    Ok(limits)
}

impl<K: MapWord + Word, V: MapWord + Word> Rank<K, V> {
    fn new(exchange: Exchange, plan: &Plan<'_>) -> Result<Self> {
        let (rank, device) = (exchange.rank(), exchange.device().clone());
        // Shards differ by some standard deviations.
        let capacity = plan.pairs + 6 * (plan.pairs as f64).sqrt() as usize;
        let shard = HashMap::builder().device(&device).load_factor(plan.load_factor).capacity(capacity);
        let mut map = ShardedMap::new(exchange, shard.build()?)?;
        map.force_exchange(is_set(plan.case, "forced")?);
        map.measure_stages(is_set(plan.case, "stages")?);
        if let Some(most) = plan.most_remote {
            ensure!(most == 0 || map.is_readable(), "rank {rank} cannot read the tables of the others");
            map.set_most_remote(most);
        }
        let (asked, first) = (plan.keys::<K>(rank), plan.first_keys::<K>(rank));
        let values: Vec<V> = parallel::map(&first, |key| value_of(*key));
        let given: Vec<V> = parallel::map(&asked, |key| match plan.verb {
            Verb::Insert | Verb::InsertHost => value_of(*key),
            _ => updated_value_of(*key),
        });
        let outcomes = if plan.verb == Verb::Fill { plan.pairs } else { asked.len() };
        Ok(Self {
            map,
            batch: plan.case.n as usize,
            fill: (device.from_slice(&first)?, device.from_slice(&values)?),
            keys: device.from_slice(&asked)?,
            values: device.from_slice(&given)?,
            outcomes: device.zeroed(outcomes)?,
            given,
            answers: None,
            asked,
            plain: plan.plain,
            is_filled: false,
            done: Default::default(),
        })
    }

    /// Brings the map to its state before the batch.
    fn restore(&mut self, verb: Verb) -> Result<()> {
        if !self.is_filled || verb.inserts() {
            self.map.shard_mut().clear()?;
            if verb != Verb::Fill {
                self.map.batches().insert(&self.fill.0, &self.fill.1, None)?;
            }
            self.map.wait()?;
            self.is_filled = true;
        }
        self.map.stages()?; // of earlier batches
        self.outcomes.fill_bytes(0xff)?;
        self.answers = None;
        if verb.gets() {
            self.values.fill_bytes(0xff)?;
        }
        Ok(self.map.device().synchronize()?)
    }

    /// Runs the batch, and waits for it.
    fn launch(&mut self, verb: Verb) -> Result<()> {
        match self.plain {
            Plain::All => self.submit_plain(verb)?,
            Plain::None | Plain::Too => self.submit(verb)?,
        }
        let stages = self.map.stages()?;
        self.done = (self.map.report(), stages);
        Ok(())
    }

    /// Runs the batch by the shard, if that is wanted too, and restores the map. Returns the time.
    fn launch_plain(&mut self, verb: Verb) -> Result<Option<f64>> {
        if self.plain != Plain::Too {
            return Ok(None);
        }
        let start = Instant::now();
        self.submit_plain(verb)?;
        self.map.stages()?;
        let ms = start.elapsed().as_secs_f64() * 1e3;
        self.verify(verb)?;
        self.restore(verb)?;
        Ok(Some(ms))
    }

    /// Submits the batch to the shard, in the order of the stream of the sharded map.
    fn submit_plain(&mut self, verb: Verb) -> Result<()> {
        let Self { map, keys, values, outcomes, .. } = self;
        let batches = map.shard().on(map.stream());
        match verb {
            Verb::Insert => batches.insert(&*keys, &*values, outcomes)?,
            Verb::Get => batches.get(&*keys, values, outcomes)?,
            Verb::Contains => batches.contains_key(&*keys, outcomes)?,
            Verb::Upsert => batches.upsert(Merge::Max, &*keys, &*values, outcomes)?,
            _ => bail!("a shard has no {verb:?}"),
        }
        Ok(())
    }

    /// Submits the batch to the sharded map.
    fn submit(&mut self, verb: Verb) -> Result<()> {
        let Self { map, keys, values, outcomes, .. } = self;
        let mut batches = map.batches();
        match verb {
            Verb::Fill => return self.submit_fill(),
            Verb::InsertHost | Verb::GetHost => return self.run_host(verb),
            Verb::Insert => batches.insert(&*keys, &*values, outcomes)?,
            Verb::Get => batches.get(&*keys, values, outcomes)?,
            Verb::GetRemote => batches.get_remote(&*keys, values, outcomes)?,
            Verb::Contains => batches.contains_key(&*keys, outcomes)?,
            Verb::Upsert => batches.upsert(Merge::Max, &*keys, &*values, outcomes)?,
        }
        Ok(())
    }

    /// Submits the insertion of all pairs. Ranks have as many batches.
    fn submit_fill(&mut self) -> Result<()> {
        let (keys, values) = &self.fill;
        for begin in (0..keys.len()).step_by(self.batch) {
            let part = begin..keys.len().min(begin + self.batch);
            let (keys, values) = (keys.slice(part.clone())?, values.slice(part.clone())?);
            self.map.batches().insert(keys, values, self.outcomes.slice_mut(part)?)?;
        }
        Ok(())
    }

    /// Runs the batch on host slices, and keeps its answers.
    fn run_host(&mut self, verb: Verb) -> Result<()> {
        self.answers = Some(match verb {
            Verb::InsertHost => {
                let outcomes = self.map.insert(&self.asked, &self.given)?;
                Answers::AllInserted(outcomes.count(Outcome::Inserted) == self.asked.len())
            }
            _ => Answers::Values(self.map.get(&self.asked)?),
        });
        Ok(())
    }

    /// Checks every outcome, and the values that the map has for the keys of the batch.
    fn verify(&mut self, verb: Verb) -> Result<usize> {
        let rank = self.map.rank();
        self.verify_outcomes(verb)?;
        let found = match (verb, &self.answers) {
            (Verb::GetHost, Some(Answers::Values(found))) => {
                let missing = parallel::first(found.len(), |index| found[index].is_none());
                ensure!(missing.is_none(), "rank {rank}: element {missing:?} was not found");
                found.iter().flatten().copied().collect()
            }
            (Verb::Get | Verb::GetRemote, _) => self.values.read()?,
            _ => self.look_up()?,
        };
        let value = |key: K| match verb {
            Verb::Upsert => value_of::<K, V>(key).max(updated_value_of(key)),
            _ => value_of(key),
        };
        let wrong = parallel::first(found.len(), |index| found[index] != value(self.asked[index]));
        ensure!(wrong.is_none(), "rank {rank}: the value of element {wrong:?} is wrong");
        Ok(if verb == Verb::Fill { self.outcomes.len() } else { found.len() })
    }

    fn verify_outcomes(&mut self, verb: Verb) -> Result<()> {
        let (rank, codes) = (self.map.rank(), self.outcomes.read()?);
        let expected = match verb {
            Verb::InsertHost | Verb::GetHost => {
                let answered = match &self.answers {
                    None => false,
                    Some(Answers::AllInserted(all_inserted)) => *all_inserted,
                    Some(Answers::Values(found)) => found.len() == self.asked.len(),
                };
                ensure!(answered, "rank {rank}: the outcome of element Some(0) is missing");
                return Ok(());
            }
            Verb::Insert | Verb::Fill => Outcome::Inserted,
            Verb::Get | Verb::GetRemote | Verb::Contains => Outcome::Found,
            Verb::Upsert => Outcome::Replaced,
        };
        let wrong = parallel::first(codes.len(), |index| codes[index] != expected as u8);
        ensure!(wrong.is_none(), "rank {rank}: the outcome of element {wrong:?} is not {expected:?}");
        Ok(())
    }

    /// Returns the values of the keys of the batch, each of which is present.
    fn look_up(&mut self) -> Result<Vec<V>> {
        let (device, len) = (self.map.device().clone(), self.asked.len());
        let (mut values, mut outcomes) = (device.zeroed(len)?, device.zeroed(len)?);
        self.map.batches().get(&self.keys, &mut values, &mut outcomes)?;
        self.map.wait()?;
        Ok(values.read()?)
    }
}

impl<K: MapWord + Word, V: MapWord + Word> Benchmark for Sharded<K, V> {
    fn restore(&mut self) -> Result<()> {
        let verb = self.verb;
        self.on_ranks(|rank| rank.restore(verb)).map(drop)
    }

    fn launch(&mut self) -> Result<()> {
        let (verb, line) = (self.verb, StartLine::new(self.ranks.len()));
        let plain = self.on_ranks(|rank| rank.launch_plain(verb))?;
        self.plain_ms.extend(plain.into_iter().flatten());
        let timed = |rank: &mut Rank<K, V>| {
            let device = rank.map.device().clone();
            line.time(&device, || rank.launch(verb))
        };
        let times = match verb {
            Verb::InsertHost | Verb::GetHost => self.on_ranks(timed)?,
            _ => self.threads.run(self.ranks.iter_mut(), timed)?,
        };
        self.ms = times.into_iter().fold(0.0, f64::max);
        Ok(())
    }

    fn own_ms(&self) -> Option<f64> {
        Some(self.ms)
    }

    fn verify(&mut self) -> Result<Verified> {
        let verb = self.verb;
        Ok(Verified::all(self.on_ranks(|rank| rank.verify(verb))?.into_iter().sum()))
    }

    fn operations(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.outcomes.len() as u64).sum()
    }

    fn metrics(&self) -> Vec<Metric> {
        let bytes = self.ranks.iter().map(|rank| rank.map.memory_usage() as u64).sum();
        let (Report { chunks, rounds, sent, remote, .. }, stages) = self.ranks[0].done;
        let Stages { count, partition, arrival, probe, answers, gather, .. } = stages;
        let counted = [
            ("plain_ms", summarize(&self.plain_ms).map_or(0.0, |times| times.median)),
            ("chunks", chunks as f64),
            ("rounds", rounds as f64),
            ("sent", sent as f64),
            ("remote", remote as f64),
            ("count_ms", count),
            ("partition_ms", partition),
            ("arrival_ms", arrival),
            ("probe_ms", probe),
            ("answers_ms", answers),
            ("gather_ms", gather),
        ];
        let counted = counted.map(|(name, value)| (name.to_owned(), value));
        vec![Metric::TableBytes(bytes), Metric::Counted(counted.into())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::first_case;
    use crate::engine::record::Param;
    use crate::machine::DeviceChoice;

    /// Checks that answers which are missing or wrong are faults.
    fn check_faults(case: &Case) {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let mut sharded = Sharded::<u32, u32>::new(&gpu, case).unwrap();
        sharded.restore().unwrap();
        assert!(sharded.verify().unwrap_err().to_string().contains("outcome of element Some(0)"));
        sharded.launch().unwrap();
        assert_eq!(sharded.verify().unwrap().succeeded, sharded.operations());
        sharded.ranks.iter_mut().for_each(|rank| rank.asked[3] ^= 1);
        assert!(sharded.verify().unwrap_err().to_string().contains("value of element Some(3)"));
    }

    #[test]
    fn answers_that_are_missing_or_wrong_are_faults() {
        let mut case = first_case("sharded/weak", 0);
        for (op, _) in VERBS {
            case.op = op.to_owned();
            check_faults(&case);
        }
    }

    #[test]
    fn plain_batches_are_verified_too() {
        let mut case = first_case("sharded/one", 0);
        assert_eq!(case.number("plain").unwrap(), 1.0);
        for (op, _) in VERBS.into_iter().filter(|(_, verb)| verb.can_be_plain()) {
            case.op = op.to_owned();
            check_faults(&case);
        }
    }

    #[test]
    fn plain_batches_beside_those_of_the_map_are_verified_too() {
        let mut case = first_case("sharded/one", 0);
        case.params.insert("plain".to_owned(), Param::Integer(2));
        for (op, _) in VERBS.into_iter().filter(|(_, verb)| verb.can_be_plain()) {
            case.op = op.to_owned();
            check_faults(&case);
        }
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        case.op = "get".to_owned();
        let mut sharded = Sharded::<u32, u32>::new(&gpu, &case).unwrap();
        sharded.restore().unwrap();
        sharded.ranks[0].asked[3] ^= 1;
        assert!(sharded.launch().unwrap_err().to_string().contains("value of element Some(3)"));
    }

    #[test]
    fn plain_batches_need_one_rank_and_no_exchange() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        for (name, value) in [("ranks", 2), ("forced", 1)] {
            let mut case = first_case("sharded/one", 0);
            case.params.insert(name.to_owned(), Param::Integer(value));
            let error = Sharded::<u32, u32>::new(&gpu, &case).err().unwrap();
            assert!(error.to_string().contains("`plain` is for one rank"), "{name}: {error}");
        }
    }
}
