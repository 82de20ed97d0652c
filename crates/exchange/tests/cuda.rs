//! Exchanges between CUDA devices: all those of the machine, or two of the fake driver of `crates/gpu` if
//! there are none. NCCL takes part where it is installed and the devices are real.
#![cfg(feature = "cuda")]
mod ranks;
use exchange::{Error, Exchange, Limits, Meeting, nccl_id};
use gpu::Device;
use ranks::{Result, script, small};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Returns the devices, one for each rank.
fn devices() -> Vec<Device> {
    (0..8).map_while(|ordinal| Device::cuda(ordinal).ok()).collect()
}

/// Runs the script on each device in a thread of its own, for each number of devices.
fn run(join: impl Fn(&Meeting, usize, &Device) -> Result<Exchange> + Sync) {
    let (devices, join) = (devices(), &join);
    for ranks in 1..=devices.len() {
        let meeting = &Meeting::new(ranks).unwrap();
        let results: Vec<_> = thread::scope(|scope| {
            let rank = |(rank, device)| scope.spawn(move || script(join(meeting, rank, device)?));
            let threads: Vec<_> = devices[..ranks].iter().enumerate().map(rank).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(results.iter().all(|result| matches!(result, Ok(true))), "{ranks} ranks: {results:?}");
    }
}

#[test]
fn devices_exchange_by_peer_copies() {
    if devices().is_empty() {
        return run_over_the_fake_driver("devices_exchange_by_peer_copies");
    }
    run(|meeting, rank, device| Exchange::peer(meeting, rank, device, small()));
}

#[test]
fn devices_exchange_by_nccl() {
    let is_fake = std::env::var_os("FAKE_DEVICES").is_some();
    match nccl_id() {
        _ if is_fake || devices().is_empty() => println!("skipped: no CUDA device"),
        Err(error) => println!("skipped: {error}"),
        Ok(_) => {
            let ids: Vec<_> = (0..=devices().len()).map(|_| nccl_id().unwrap()).collect();
            run(|meeting, rank, device| {
                Exchange::nccl(&ids[meeting.ranks()], (rank, meeting.ranks()), device, small())
            });
        }
    }
}

/// A communicator that is aborted while its device is busy is an error before the deadline, and the device
/// still works.
#[test]
fn an_abort_under_load_is_an_error_before_the_deadline() {
    let is_fake = std::env::var_os("FAKE_DEVICES").is_some();
    let id = match nccl_id() {
        _ if is_fake || devices().is_empty() => return println!("skipped: no CUDA device"),
        Err(error) => return println!("skipped: {error}"),
        Ok(id) => id,
    };
    let (device, limits) = (&devices()[0], Limits { deadline: Duration::from_secs(5), ..Limits::default() });
    let (from, mut to) = (device.filled::<u64>(1 << 27, 1).unwrap(), device.zeroed::<u64>(1 << 27).unwrap());
    let mut exchange = Exchange::nccl(&id, (0, 1), device, limits).unwrap();
    assert_eq!(exchange.agree(&[7]).unwrap(), [[7]]);
    for _ in 0..200 {
        // SAFETY: nothing else uses the buffers, which are dropped after the stream has been waited for.
        unsafe { to.copy_from_on(exchange.stream(), &from).unwrap() };
    }
    let start = Instant::now();
    exchange.give_up("the test aborts it");
    assert!(matches!(exchange.agree(&[7]), Err(Error::PeerLost(_))));
    assert!(matches!(exchange.check(), Err(Error::PeerLost(_))));
    println!("the abort took {:?}", start.elapsed());
    assert!(start.elapsed() < limits.deadline);
    exchange.stream().synchronize().unwrap();
    assert!(to.read().unwrap().iter().all(|&word| word == u64::from_ne_bytes([1; 8])));
}

fn run_over_the_fake_driver(test: &str) {
    if std::env::var_os("FAKE_DEVICES").is_some() {
        panic!("the fake driver has no device");
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (folder.path().join("driver.c"), folder.path().join("libcuda.so.1"));
    std::fs::write(&source, include_str!("../../gpu/tests/suite/fake_driver.c")).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-shared", "-fPIC", "-pthread", "-o"]).args([&library, &source]);
    match compiler.status() {
        Ok(status) => assert!(status.success(), "cc failed on the driver"),
        Err(error) => return println!("skipped: no C compiler ({error})"),
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args([test, "--exact", "--nocapture"]).env("PHALANX_LIBCUDA", &library).env("FAKE_DEVICES", "2");
    let output = again.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{output:?}");
}
