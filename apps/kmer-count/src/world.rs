//! Counting by several processes, each with a GPU and a shard of the table. NCCL moves k-mers between them.
//!
//! All processes read the same files, each its share of the blocks. They meet in a folder that all can
//! access:
//!
//! ```text
//! rank 0            writes `id`, by which NCCL joins the processes
//! all               count their blocks: each k-mer on the GPU that owns it
//! ranks 1 to N - 1  write `counts-R`: the totals of their input, and their shards
//! rank 0            joins all of them
//! ```
use crate::count::{Cost, Counts, Options, blocks_of, with_reader};
use crate::gpus::{limits, make_map};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use genomes::feed::Batches;
use genomes::read::Input;
use genomes::table::{Memory, open};
use indicatif::ProgressBar;
use phalanx::exchange::{Exchange, nccl_id_by_file};
use phalanx::gpu::Device;
use phalanx::{Merge, ShardedMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time for which a process waits for rank 0.
const PATIENCE: Duration = Duration::from_secs(60);

/// The processes that count together.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// Count with so many processes, each with a GPU, which all get the same arguments except --rank
    #[arg(long, value_name = "N", requires_all = ["rank", "meet"], conflicts_with_all = ["gpus", "budget"])]
    pub world: Option<usize>,
    /// Number of this process, from 0. Process 0 prints and writes the result
    #[arg(long, value_name = "R", requires = "world")]
    pub rank: Option<usize>,
    /// Empty folder in which the processes meet
    #[arg(long, value_name = "FOLDER", requires = "world")]
    pub meet: Option<PathBuf>,
}

/// A process of a [`World`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Number of this process.
    pub rank: usize,
    /// Number of all processes.
    pub ranks: usize,
    /// Folder in which they meet.
    pub folder: PathBuf,
}

impl World {
    /// Returns the process that the arguments describe; `None` if there is only one.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when there is no such rank.
    pub fn process(&self) -> Result<Option<Process>> {
        let (Some(ranks), Some(rank), Some(folder)) = (self.world, self.rank, self.meet.clone()) else {
            return Ok(None);
        };
        ensure!(rank < ranks, "--rank {rank} of --world {ranks}: ranks are below {ranks}");
        Ok(Some(Process { rank, ranks, folder }))
    }
}

impl Process {
    /// Returns the device of this process: the one that `name` names, or else the GPU with the number of the
    /// rank.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when there is no such device.
    pub fn device(&self, name: &str) -> Result<Device> {
        match name {
            "auto" | "cuda" => Device::cuda(self.rank as u32).with_context(|| {
                format!("rank {} takes the GPU of its number: name another by --device cuda:N", self.rank)
            }),
            name => open(name),
        }
    }

    /// Joins the other processes.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the folder is not empty or cannot be accessed, when NCCL cannot be
    /// used, and when another process does not come.
    pub fn join(&self, device: &Device, options: &Options) -> Result<Exchange> {
        if self.rank == 0 {
            self.make_folder()?;
        }
        let id = nccl_id_by_file(self.folder.join("id"), self.rank, PATIENCE)?;
        let joined = Exchange::nccl(&id, (self.rank, self.ranks), device, limits(&options.table));
        joined.with_context(|| format!("rank {} cannot join the other processes", self.rank))
    }

    fn make_folder(&self) -> Result<()> {
        let folder = &self.folder;
        fs::create_dir_all(folder).with_context(|| cannot("create", folder))?;
        let mut names = fs::read_dir(folder).with_context(|| cannot("read", folder))?;
        ensure!(names.next().is_none(), "{} is not empty: name an empty folder by --meet", folder.display());
        Ok(())
    }

    fn counts_of(&self, rank: usize) -> PathBuf {
        self.folder.join(format!("counts-{rank}"))
    }

    /// Counts the k-mers of the files together with the other processes, which the exchange has joined.
    /// Returns the counts of all on rank 0, and `None` on the others.
    ///
    /// # Errors
    /// As [`count`](crate::count::count); also when another process has ended early.
    pub fn count(
        &self,
        exchange: Exchange,
        files: &[PathBuf],
        options: &Options,
        progress: &ProgressBar,
    ) -> Result<Option<Counts>> {
        let start = Instant::now();
        let (mut map, own) = self.count_share(exchange, files, options, progress)?;
        if self.rank > 0 {
            own.write(&self.counts_of(self.rank))?;
        }
        // All have written theirs when this returns.
        map.all_gather(0).context("another process has ended early")?;
        if self.rank > 0 {
            return Ok(None);
        }
        let mut all = own;
        for rank in 1..self.ranks {
            all.add(Share::read(&self.counts_of(rank))?);
        }
        let names = (1..self.ranks).map(|rank| self.counts_of(rank)).chain([self.folder.join("id")]);
        names.for_each(|path| drop(fs::remove_file(path)));
        let compiling = Duration::from_secs_f64(map.device().jit_ms() / 1e3);
        all.cost = Cost { time: start.elapsed(), compiling, ..all.cost };
        Counts::of(options.length, all.input, all.pairs, all.cost).map(Some)
    }

    /// Counts this process's share of the blocks.
    fn count_share(
        &self,
        exchange: Exchange,
        files: &[PathBuf],
        options: &Options,
        progress: &ProgressBar,
    ) -> Result<(ShardedMap<u64, u64>, Share)> {
        let (device, mut cost) = (exchange.device().clone(), Cost::default());
        let mut map = make_map(exchange, &options.table)?;
        // One step of all ranks: returns whether any of them still has a batch.
        let mut step = |kmers: &[u64], counts: &[u64], has_more: bool| -> Result<bool> {
            let begin = Instant::now();
            if map.all_gather(has_more.into())?.iter().all(|&more| more == 0) {
                return Ok(false);
            }
            let outcomes = map.upsert(Merge::Add, kmers, counts)?;
            ensure!(outcomes.all_placed(), "the table has refused k-mers: please report this");
            (cost.counting, cost.upserts) =
                (cost.counting + begin.elapsed(), cost.upserts + kmers.len() as u64);
            Ok(true)
        };
        let blocks = blocks_of(files, options, progress).share(self.rank, self.ranks);
        let reading = with_reader(blocks, options, |segments| {
            Batches::new(&device, options.table.batch)?
                .run(segments, |kmers, counts| step(kmers, counts, true).map(drop))
        })?;
        while step(&[], &[], false)? {}
        cost.reading = reading.time;
        cost.memory = Memory { device: map.shard().memory_usage(), ..Memory::default() };
        let (kmers, counts) = map.export()?;
        let pairs = kmers.into_iter().zip(counts).collect();
        Ok((map, Share { input: reading.input, cost, pairs }))
    }
}

/// The counts of a process's blocks.
struct Share {
    input: Input,
    cost: Cost,
    pairs: Vec<(u64, u64)>,
}

/// Number of words before the pairs of a share.
const HEAD: usize = 7;

impl Share {
    /// Adds another one. Times are those of the slowest process.
    fn add(&mut self, other: Self) {
        self.input = [self.input, other.input].into_iter().sum();
        self.pairs.extend(other.pairs);
        let (own, other) = (&mut self.cost, other.cost);
        own.upserts += other.upserts;
        own.memory.device += other.memory.device;
        own.reading = own.reading.max(other.reading);
        own.counting = own.counting.max(other.counting);
    }

    fn write(&self, path: &Path) -> Result<()> {
        let (Input { sequences, letters, kmers }, cost) = (self.input, &self.cost);
        let times = [cost.reading, cost.counting].map(|time| time.as_nanos() as u64);
        let head = [sequences, letters, kmers, cost.upserts, cost.memory.device as u64, times[0], times[1]];
        let words = head.into_iter().chain(self.pairs.iter().flat_map(|&(kmer, count)| [kmer, count]));
        write_whole(path, &words.flat_map(u64::to_le_bytes).collect::<Vec<u8>>())
    }

    fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).with_context(|| cannot("read", path))?;
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(std::array::from_fn(|at| word[at])))
            .collect();
        if bytes.len() % 8 != 0 || words.len() < HEAD || words.len() % 2 != HEAD % 2 {
            bail!("{} is damaged: {} bytes", path.display(), bytes.len());
        }
        let input = Input { sequences: words[0], letters: words[1], kmers: words[2] };
        let memory = Memory { device: words[4] as usize, ..Memory::default() };
        let [reading, counting] = [words[5], words[6]].map(Duration::from_nanos);
        let cost = Cost { upserts: words[3], memory, reading, counting, ..Cost::default() };
        let pairs = words[HEAD..].chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        Ok(Self { input, cost, pairs })
    }
}

/// Writes a file that appears under its name when it is complete.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let begun = path.with_extension("new");
    fs::write(&begun, bytes).with_context(|| cannot("write", &begun))?;
    fs::rename(&begun, path).with_context(|| cannot("write", path))
}

fn cannot(what: &str, path: &Path) -> String {
    format!("cannot {what} {}: check the path and its permissions", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("counts-1");
        let input = Input { sequences: 1, letters: 2, kmers: 30 };
        let (reading, counting) = (Duration::from_nanos(5), Duration::from_nanos(6));
        let memory = Memory { device: 7, ..Memory::default() };
        let cost = Cost { upserts: 4, memory, reading, counting, ..Cost::default() };
        Share { input, cost, pairs: vec![(8, 9), (1 << 60, 21)] }.write(&path).unwrap();
        let mut share = Share::read(&path).unwrap();
        assert_eq!((share.input, &share.pairs[..]), (input, &[(8, 9), (1 << 60, 21)][..]));
        share.add(Share::read(&path).unwrap());
        assert_eq!((share.input.kmers, share.cost.upserts, share.cost.memory.device), (60, 8, 14));
        assert_eq!((share.cost.reading, share.cost.counting, share.pairs.len()), (reading, counting, 4));
        fs::write(&path, [0; 60]).unwrap();
        assert!(Share::read(&path).err().unwrap().to_string().contains("is damaged: 60 bytes"));
    }

    #[test]
    fn processes_are_checked() {
        let world = |rank| World { world: Some(2), rank: Some(rank), meet: Some("there".into()) };
        assert_eq!(world(1).process().unwrap().unwrap().ranks, 2);
        assert!(world(2).process().unwrap_err().to_string().contains("below 2"));
        assert_eq!(World { world: None, rank: None, meet: None }.process().unwrap(), None);
    }

    #[test]
    fn a_folder_of_another_run_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("id"), "old").unwrap();
        let process = Process { rank: 0, ranks: 2, folder: folder.path().to_owned() };
        assert!(process.make_folder().unwrap_err().to_string().contains("is not empty"));
    }
}
