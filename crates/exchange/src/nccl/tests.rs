//! The calls of NCCL, over a library that moves messages between threads with emulated devices
//! (`tests/fake_nccl.c`). It shows nothing of NCCL's own behavior.
use super::*;
use crate::{Exchange, Lost};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

/// Returns the library, or `None` if there is no C compiler.
fn fake() -> Option<&'static Library> {
    static FAKE: OnceLock<Option<Library>> = OnceLock::new();
    let build = || {
        let folder = tempfile::tempdir().unwrap();
        let (source, path) = (folder.path().join("nccl.c"), folder.path().join("libnccl.so.2"));
        std::fs::write(&source, include_str!("../../tests/fake_nccl.c")).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-shared", "-fPIC", "-pthread", "-o"]).args([&path, &source]);
        match compiler.status() {
            Ok(status) => assert!(status.success(), "cc failed on the library"),
            Err(error) => println!("skipped: no C compiler ({error})"),
        }
        path.exists().then(|| Library::open(path.as_os_str()).unwrap())
    };
    FAKE.get_or_init(build).as_ref()
}

fn limits(milliseconds: u64) -> Limits {
    Limits { part_bytes: 512, slot_bytes: 256, deadline: Duration::from_millis(milliseconds) }
}

fn join(id: &UniqueId, place: (usize, usize), limits: Limits) -> Result<Exchange> {
    let (nccl, device) = (fake().unwrap(), Device::emulator(Default::default()));
    Exchange::handshake(Box::new(Nccl::new(nccl, id, place, &device, &limits)?), limits)
}

/// Runs a function on each rank that `joins`, in a thread of its own.
fn run<R: Send>(
    ranks: usize,
    limits: Limits,
    joins: impl Fn(usize) -> bool,
    run: impl Fn(Exchange) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let (id, run) = (fake().unwrap().unique_id().unwrap(), &run);
    thread::scope(|scope| {
        let rank = |rank| scope.spawn(move || run(join(&id, (rank, ranks), limits)?));
        let threads: Vec<_> = (0..ranks).filter(|rank| joins(*rank)).map(rank).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Element `index` from a rank to a rank.
fn element(from: usize, to: usize, index: usize) -> u64 {
    (from << 40 | to << 20 | index) as u64
}

/// Number of elements from a rank to a rank: more than a part has room for, and none for some.
fn count(from: usize, to: usize) -> usize {
    (from * 7 + to * 31) % 5 * 40
}

/// Sends a batch, answers with the inverted elements, and checks both.
fn ask(exchange: &mut Exchange) -> Result<()> {
    let (rank, ranks, device) = (exchange.rank(), exchange.ranks(), exchange.device().clone());
    let counts: Vec<_> = (0..ranks).map(|to| count(rank, to)).collect();
    let part = |to: usize| (0..counts[to]).map(move |index| element(rank, to, index));
    let elements: Vec<_> = (0..ranks).flat_map(part).collect();
    let (batch, mut into) = (device.from_slice(&elements)?, device.zeroed::<u64>(elements.len())?);
    let mut rounds = exchange.rounds::<u64, u64>(1, batch.slice(..)?, &counts)?;
    while rounds.next()?.is_some() {
        rounds.wait()?;
        let (received, mut answers) = (rounds.received()?.unwrap(), Vec::new());
        for (from, part) in received.parts().iter().enumerate() {
            let words = part.read()?;
            let expected = |index| element(from, rank, received.first() + index);
            assert!(words.iter().enumerate().all(|(index, word)| *word == expected(index)));
            answers.extend(words.into_iter().map(|word| !word));
        }
        rounds.answer(device.from_slice(&answers)?.slice(..)?, &mut into.slice_mut(..)?)?;
    }
    drop(rounds);
    exchange.wait()?;
    assert_eq!(into.read()?, elements.into_iter().map(|word| !word).collect::<Vec<_>>());
    Ok(())
}

/// Sends a batch straight to the memory of the receivers, and checks what arrives. Messages of several
/// groups.
fn send_all(exchange: &mut Exchange, is_sized: bool) -> Result<()> {
    let (rank, ranks, device) = (exchange.rank(), exchange.ranks(), exchange.device().clone());
    let (counts, receives): (Vec<_>, Vec<_>) =
        (0..ranks).map(|other| (count(rank, other), count(other, rank))).unzip();
    let part = |from: usize, to: usize| (0..count(from, to)).map(move |index| element(from, to, index));
    let sent: Vec<_> = (0..ranks).flat_map(|to| part(rank, to)).collect();
    let expected: Vec<_> = (0..ranks).flat_map(|from| part(from, rank)).collect();
    let (batch, mut into) = (device.from_slice(&sent)?, device.zeroed::<u64>(expected.len())?);
    let (send, place) = (batch.slice(..)?, into.slice_mut(..)?);
    match is_sized {
        true => exchange.all_to_all_sized(2, send, &counts, place, &receives)?,
        false => assert_eq!(exchange.all_to_all(2, send, &counts, place)?, receives),
    }
    exchange.wait()?;
    assert_eq!(into.read()?, expected);
    Ok(())
}

fn send_slots(exchange: &mut Exchange, operation: u32) -> Result<Vec<u64>> {
    let (ranks, device) = (exchange.ranks(), exchange.device().clone());
    let batch = device.from_slice(&vec![exchange.rank() as u32; ranks])?;
    let mut slots = device.zeroed::<u8>(ranks * exchange.limits().slot_bytes)?;
    exchange.fill_slots::<u32, ()>(operation, &mut slots, batch.slice(..)?, &vec![1; ranks])?;
    let mut padded = exchange.padded::<u32, ()>(operation, slots.slice(..)?)?;
    let counts = padded.counts()?;
    for from in 0..ranks {
        assert_eq!(padded.part(from)?.slice(..1)?.read()?, [from as u32]);
    }
    Ok(counts)
}

fn lost<R>(result: &Result<R>) -> Option<&Lost> {
    match result {
        Err(Error::PeerLost(lost)) => Some(lost),
        _ => None,
    }
}

#[test]
fn elements_answers_and_slots_arrive() {
    if fake().is_none() {
        return;
    }
    for ranks in [1, 2, 3, 5, 8] {
        let results = run(
            ranks,
            limits(20_000),
            |_| true,
            |mut exchange| {
                for operation in 0..3 {
                    assert_eq!(send_slots(&mut exchange, operation)?, vec![1; ranks]);
                    ask(&mut exchange)?;
                    send_all(&mut exchange, false)?;
                    send_all(&mut exchange, true)?;
                }
                Ok(())
            },
        );
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }
}

#[test]
fn shapes_that_differ_are_an_error_on_all() {
    if fake().is_none() {
        return;
    }
    let results = run(
        3,
        limits(20_000),
        |_| true,
        |mut exchange| {
            let operation = u32::from(exchange.rank() == 2);
            let error = send_slots(&mut exchange, operation).unwrap_err();
            assert!(matches!(error, Error::Mismatch { what: "shape of a slot", rank: 2, .. }), "{error}");
            let batch = exchange.device().zeroed::<u32>(0)?;
            let error =
                exchange.rounds::<u32, ()>(operation, batch.slice(..)?, &[0; 3]).map(drop).unwrap_err();
            assert!(matches!(error, Error::Mismatch { what: "operation", rank: 2, .. }), "{error}");
            ask(&mut exchange)
        },
    );
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

#[test]
fn a_rank_that_does_not_join_is_lost_at_the_deadline() {
    if fake().is_none() {
        return;
    }
    let results = run(3, limits(200), |rank| rank != 1, |_exchange| Ok(()));
    assert!(results.len() == 2 && results.iter().all(|result| lost(result).is_some()), "{results:?}");
}

#[test]
fn a_rank_that_leaves_is_lost_to_all_others() {
    if fake().is_none() {
        return;
    }
    let results = run(
        3,
        limits(2000),
        |_| true,
        |mut exchange| {
            ask(&mut exchange)?;
            let words = exchange.device().from_slice(&[5u32])?;
            if exchange.rank() == 0 {
                return Ok(());
            }
            let result = ask(&mut exchange);
            assert!(lost(&result).is_some(), "{result:?}");
            assert!(lost(&send_slots(&mut exchange, 1)).is_some() && lost(&exchange.wait()).is_some());
            assert_eq!(words.read()?, [5]);
            Ok(())
        },
    );
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

/// Runs a test of this binary in a process with a variable, since the library reads it.
fn run_with_variable(test: &str, variable: &str) -> bool {
    if std::env::var_os(variable).is_some() {
        return true;
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    let output = again.args([test, "--exact", "--nocapture"]).env(variable, "1").output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{output:?}");
    false
}

#[test]
fn an_error_that_nccl_notices_is_reported_before_the_deadline() {
    let test = "nccl::tests::an_error_that_nccl_notices_is_reported_before_the_deadline";
    if fake().is_none() || !run_with_variable(test, "FAKE_NOTICES_ABORTS") {
        return;
    }
    let start = Instant::now();
    let results = run(
        3,
        limits(60_000),
        |_| true,
        |mut exchange| {
            if exchange.rank() == 0 {
                exchange.abandon();
            }
            ask(&mut exchange)
        },
    );
    assert!(results.iter().all(|result| lost(result).is_some()), "{results:?}");
    let cause = &lost(&results[1]).unwrap().cause;
    assert!(cause.contains("remote process exited"), "{cause}");
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn an_abort_that_hangs_is_bounded() {
    let test = "nccl::tests::an_abort_that_hangs_is_bounded";
    if fake().is_none() || !run_with_variable(test, "FAKE_ABORT_HANGS") {
        return;
    }
    let start = Instant::now();
    let results =
        run(2, limits(300), |_| true, |mut exchange| ask(&mut exchange).and(call_alone(exchange, true)));
    assert!(lost(&results[0]).is_some(), "{results:?}");
    assert!(start.elapsed() < Duration::from_secs(10));
}

/// Calls an operation on rank 0 alone.
fn call_alone(mut exchange: Exchange, is_group: bool) -> Result<()> {
    match exchange.rank() {
        0 if is_group => send_slots(&mut exchange, 1).map(drop),
        0 => exchange.agree(&[1]).map(drop),
        _ => {
            thread::sleep(2 * exchange.limits().deadline);
            Ok(())
        }
    }
}

#[test]
fn a_call_that_blocks_inside_nccl_is_aborted_at_the_deadline() {
    if fake().is_none() {
        return;
    }
    for (is_group, call) in [(false, "ncclAllGather"), (true, "ncclSend and ncclRecv")] {
        let limits = limits(400);
        let run_rank = |mut exchange: Exchange| {
            ask(&mut exchange)?;
            let start = Instant::now();
            let result = call_alone(exchange, is_group);
            Ok((result, start.elapsed()))
        };
        let results = run(2, limits, |_| true, run_rank);
        let (result, elapsed) = results[0].as_ref().unwrap();
        let cause = &lost(result).unwrap().cause;
        assert!(cause.contains(&format!("{call} did not end before the deadline")), "{cause}");
        let expected = limits.deadline..limits.deadline + Duration::from_secs(2);
        assert!(expected.contains(elapsed), "{elapsed:?}");
    }
}

#[test]
fn calls_that_return_are_not_aborted() {
    if fake().is_none() {
        return;
    }
    let results = run(
        2,
        limits(500),
        |_| true,
        |mut exchange| {
            let start = Instant::now();
            let mut calls = 0u64;
            // Each rank ends after the same number of calls.
            while exchange.agree(&[u64::from(start.elapsed() < Duration::from_millis(1200))])? == [[1], [1]] {
                calls += 1;
                if calls.is_multiple_of(1000) {
                    thread::sleep(Duration::from_millis(20));
                }
            }
            Ok(calls)
        },
    );
    assert!(results.iter().all(|result| matches!(result, Ok(calls) if *calls > 2)), "{results:?}");
}

#[test]
fn arguments_that_do_not_fit_are_errors() {
    let Some(nccl) = fake() else { return };
    let (device, id) = (Device::emulator(Default::default()), UniqueId::from_bytes([1; 128]));
    for place in [(0, 0), (2, 2), (0, 1025)] {
        let error = Nccl::new(nccl, &id, place, &device, &limits(100)).map(drop).unwrap_err();
        assert!(matches!(error, Error::Arguments { .. }), "{error}");
    }
    // The library refuses more ranks than it has room for.
    let error = Nccl::new(nccl, &id, (0, 17), &device, &limits(100)).map(drop).unwrap_err();
    assert!(matches!(error, Error::Nccl { call: "ncclCommInitRank", .. }), "{error}");
    assert!(error.to_string().contains("status 4"), "{error}");
}

/// A rank that ends after a number of steps.
#[derive(Debug)]
struct Dying {
    rank: Nccl,
    steps: usize,
}

impl Dying {
    fn step(&mut self) -> Result<()> {
        match self.steps.checked_sub(1) {
            Some(left) => self.steps = left,
            None => return Err(Error::lost(self.rank.rank, "a test ended it")),
        }
        Ok(())
    }
}

impl Transport for Dying {
    fn rank(&self) -> usize {
        self.rank.rank()
    }

    fn ranks(&self) -> usize {
        self.rank.ranks()
    }

    fn stream(&self) -> &Stream {
        self.rank.stream()
    }

    fn window(&self, lane: Lane) -> &Buffer<u8> {
        self.rank.window(lane)
    }

    fn gather(&mut self, words: Vec<u64>, deadline: Instant) -> Result<Vec<Vec<u64>>> {
        self.step()?;
        self.rank.gather(words, deadline)
    }

    fn begin(&mut self, plan: RoundPlan<'_>) -> Result<Arrival> {
        self.step()?;
        self.rank.begin(plan)
    }

    fn direct(&mut self, plan: DirectPlan<'_>) -> Result<Vec<usize>> {
        self.step()?;
        self.rank.direct(plan)
    }

    fn leave(&mut self, cause: &str) {
        self.rank.leave(cause);
    }
}

#[test]
fn a_rank_that_dies_at_any_step_is_lost_to_all_others() {
    let Some(nccl) = fake() else { return };
    let limits = limits(600);
    // In the ninth step, rank 1 has no answers for the others, whose results are complete without it.
    for steps in 0..8 {
        let (id, start) = (nccl.unique_id().unwrap(), Instant::now());
        let results: Vec<_> = thread::scope(|scope| {
            let rank = |rank| {
                scope.spawn(move || {
                    let device = Device::emulator(Default::default());
                    let made = Nccl::new(nccl, &id, (rank, 3), &device, &limits)?;
                    let steps = if rank == 1 { steps } else { usize::MAX };
                    let mut exchange = Exchange::handshake(Box::new(Dying { rank: made, steps }), limits)?;
                    send_slots(&mut exchange, 1)?;
                    send_all(&mut exchange, false)?;
                    ask(&mut exchange)
                })
            };
            [0, 1, 2].map(rank).into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(results.iter().all(|result| lost(result).is_some()), "{steps} steps: {results:?}");
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}
