//! Ranks as processes, each with a GPU, that NCCL joins. The last one is killed or stopped.
use super::ranks::{Said, limits, work};
use super::{Arguments, Event};
use anyhow::{Context, Result, bail, ensure};
use phalanx::exchange::{Exchange, nccl_id_by_file};
use phalanx::gpu::Device;
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

/// Time for which the program waits for what a rank says, and a rank for the file of rank 0.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time for which the ranks look keys up before the event.
const LOOKUPS: Duration = Duration::from_millis(200);

/// Variables by which NCCL uses neither shared memory nor peer access.
const SOCKETS: [(&str, &str); 3] =
    [("NCCL_SHM_DISABLE", "1"), ("NCCL_P2P_DISABLE", "1"), ("NCCL_SOCKET_IFNAME", "lo")];

/// The processes of a round, which end with it.
struct Ranks {
    children: Vec<Child>,
    said: Receiver<(usize, Option<Said>)>,
    /// All that the ranks have said so far; `None` for the end of one.
    heard: Vec<(usize, Option<Said>)>,
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for child in &mut self.children {
            // One that has ended needs no signal.
            drop((child.kill(), child.wait()));
        }
    }
}

impl Ranks {
    fn start(arguments: &Arguments, event: Event, meet: &Path) -> Result<Self> {
        let (sender, said) = channel();
        let mut ranks = Self { children: Vec::new(), said, heard: Vec::new() };
        for rank in 0..arguments.ranks {
            let mut command = Command::new(env::current_exe()?);
            command.arg("scale-out").args(["--device", "cuda", "--event", &event.name()]);
            command.args(["--ranks", &arguments.ranks.to_string(), "--rank", &rank.to_string()]);
            command.arg("--meet").arg(meet).stdout(Stdio::piped());
            if event == Event::Sockets {
                command.envs(SOCKETS);
            }
            let mut child = command.spawn().context("cannot start this program again")?;
            let lines = BufReader::new(child.stdout.take().context("a rank has no output")?).lines();
            ranks.children.push(child);
            let sender = sender.clone();
            thread::spawn(move || {
                for line in lines.map_while(Result::ok) {
                    // Libraries may print something, too.
                    if let Some(&(_, said)) = Said::NAMES.iter().find(|(name, _)| *name == line) {
                        let _ = sender.send((rank, Some(said)));
                    }
                }
                let _ = sender.send((rank, None));
            });
        }
        Ok(ranks)
    }

    /// Waits until `count` ranks below `below` have said something, now or before.
    fn wait_for(&mut self, wanted: Said, (below, count): (usize, usize)) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let has_said = |rank| self.heard.contains(&(rank, Some(wanted)));
            let found = (0..below).filter(|&rank| has_said(rank)).count();
            if found >= count {
                return Ok(());
            }
            let has_ended = |rank| self.heard.contains(&(rank, None));
            if let Some(rank) = (0..below).find(|&rank| has_ended(rank) && !has_said(rank)) {
                bail!("rank {rank} ended before it was {wanted:?}");
            }
            match self.said.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(heard) => self.heard.push(heard),
                Err(_) => bail!("{found} of {count} ranks were {wanted:?} within {PATIENCE:?}"),
            }
        }
    }

    fn strike(&mut self, event: Event) -> Result<()> {
        let last = self.children.last_mut().context("there is a rank")?;
        if event == Event::Killed {
            return Ok(last.kill()?);
        }
        let stopped = Command::new("kill").args(["-STOP", &last.id().to_string()]).status()?;
        ensure!(stopped.success(), "the last rank cannot be stopped");
        Ok(())
    }
}

/// Runs the ranks. Returns the time from the event until the last of the others has an error.
pub fn run(arguments: &Arguments, event: Event) -> Result<Duration> {
    let (ranks, start) = (arguments.ranks, Instant::now());
    let meet = env::temp_dir().join(format!("phalanx-scale-out-{}", std::process::id()));
    drop(fs::remove_dir_all(&meet));
    fs::create_dir_all(&meet).with_context(|| format!("cannot create {}", meet.display()))?;
    let mut running = Ranks::start(arguments, event, &meet)?;
    running.wait_for(Said::Ready, (ranks, ranks))?;
    if event == Event::Sockets {
        running.wait_for(Said::Done, (ranks, ranks))?;
        return Ok(start.elapsed());
    }
    thread::sleep(LOOKUPS);
    let struck = Instant::now();
    running.strike(event)?;
    running.wait_for(Said::Lost, (ranks - 1, ranks - 1))?;
    let took = struck.elapsed();
    running.wait_for(Said::Done, (ranks - 1, ranks - 1))?;
    Ok(took)
}

/// Runs a rank in this process.
pub fn child(arguments: &Arguments, rank: usize) -> Result<()> {
    let folder = arguments.meet.as_deref().context("the processes meet in a folder")?;
    let device = Device::cuda(rank as u32)?;
    phalanx::register_kernels(&device);
    let id = nccl_id_by_file(folder.join("id"), rank, PATIENCE)?;
    let exchange = Exchange::nccl(&id, (rank, arguments.ranks), &device, limits())?;
    let say = |said: Said| {
        println!("{}", said.name());
        Ok(stdout().flush()?)
    };
    work(exchange, arguments.event, say, || true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns ranks that have said something, and ended.
    fn ranks(said: &[(usize, Option<Said>)]) -> Ranks {
        let (sender, receiver) = channel();
        said.iter().for_each(|said| sender.send(*said).unwrap());
        Ranks { children: Vec::new(), said: receiver, heard: Vec::new() }
    }

    /// A rank may have ended before another one is ready.
    #[test]
    fn what_ranks_said_before_counts() {
        let said = [(0, Said::Ready), (0, Said::Done), (1, Said::Ready), (1, Said::Done)];
        let mut said = said.map(|(rank, said)| (rank, Some(said))).to_vec();
        said.insert(2, (0, None));
        let mut ranks = ranks(&said);
        ranks.wait_for(Said::Ready, (2, 2)).unwrap();
        ranks.wait_for(Said::Done, (2, 2)).unwrap();
    }

    #[test]
    fn a_rank_that_ends_early_is_named() {
        let ready = Some(Said::Ready);
        let mut ranks = ranks(&[(0, ready), (0, None), (1, ready), (1, None)]);
        ranks.wait_for(Said::Ready, (2, 2)).unwrap();
        let error = ranks.wait_for(Said::Lost, (1, 1)).unwrap_err();
        assert_eq!(error.to_string(), "rank 0 ended before it was Lost");
    }
}
