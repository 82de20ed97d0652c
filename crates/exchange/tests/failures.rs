//! Ranks that are lost, disagree, or are given arguments that do not fit.
mod ranks;
use exchange::{Error, Exchange, Fault, Limits, Meeting, Planted};
use ranks::*;
use std::time::{Duration, Instant};

/// Time that a wait may take beyond its deadline on a busy machine.
const SLACK: Duration = Duration::from_secs(5);

/// Runs the script with a fault of one rank at each step in turn, until the script has no such step. Returns
/// the number of steps. Every other rank must report a loss within the deadline.
fn lose_at_each_step(case: (Kind, usize), limits: Limits, faults: impl Fn(u64) -> Vec<Planted>) -> u64 {
    for step in 0.. {
        let (start, planted) = (Instant::now(), faults(step));
        let results = run_with(case, limits, planted, script);
        assert!(start.elapsed() < 2 * limits.deadline + SLACK, "{case:?}, step {step}");
        if results.iter().all(Result::is_ok) {
            assert!(results.into_iter().all(|result| result.unwrap()));
            return step;
        }
        for (rank, result) in results.iter().enumerate() {
            assert!(lost(result).is_some(), "{case:?}, step {step}, rank {rank}: {result:?}");
        }
    }
    unreachable!("the script ends")
}

#[test]
fn a_rank_that_dies_at_any_step_is_lost_to_all_others() {
    for kind in KINDS {
        for ranks in [1, 2, 3, 5] {
            for rank in [0, ranks - 1] {
                let dies = |step| vec![Planted { rank, step, fault: Fault::Die }];
                // Longer than the test may take: the loss is noticed at once.
                let limits = Limits { deadline: Duration::from_secs(60), ..small() };
                let steps = lose_at_each_step((kind, ranks), limits, dies);
                assert!(steps > 8, "{steps} steps");
            }
        }
    }
}

#[test]
fn a_rank_that_stops_at_any_step_is_lost_at_the_deadline() {
    for kind in KINDS {
        let stops = |step| vec![Planted { rank: 1, step, fault: Fault::Stall }];
        let limits = Limits { deadline: Duration::from_millis(150), ..small() };
        // A deadline this short may pass on a busy machine without a fault; the error is the same.
        let results = run_with((kind, 3), Limits { deadline: SLACK, ..limits }, Vec::new(), script);
        assert!(results.iter().all(Result::is_ok));
        for step in 0..12 {
            let start = Instant::now();
            let results = run_with((kind, 3), limits, stops(step), script);
            assert!(
                results.iter().all(|result| lost(result).is_some()),
                "{kind:?}, step {step}: {results:?}"
            );
            assert!(start.elapsed() < limits.deadline + SLACK);
        }
    }
}

#[test]
fn the_error_names_the_lost_rank() {
    for (kind, fault) in [(Kind::Emulated, Fault::Die), (Kind::Peer, Fault::Stall)] {
        let limits = Limits { deadline: Duration::from_secs(2), ..small() };
        let results = run_with((kind, 3), limits, vec![Planted { rank: 2, step: 4, fault }], script);
        for result in &results {
            let error = result.as_ref().unwrap_err();
            assert_eq!(lost(result).unwrap().rank, Some(2), "{error}");
            assert!(error.to_string().contains("rank 2 is lost"), "{error}");
        }
    }
}

#[test]
fn two_ranks_that_die_at_once_are_lost() {
    for kind in KINDS {
        let die = |step| [1, 4].map(|rank| Planted { rank, step, fault: Fault::Die }).to_vec();
        let limits = Limits { deadline: Duration::from_secs(60), ..small() };
        assert!(lose_at_each_step((kind, 5), limits, die) > 8);
    }
}

#[test]
fn a_rank_that_is_late_gets_the_same_error_as_the_others() {
    for kind in KINDS {
        let limits = Limits { deadline: Duration::from_millis(200), ..small() };
        let results = run_with((kind, 3), limits, Vec::new(), |exchange| {
            if exchange.rank() == 1 {
                std::thread::sleep(Duration::from_millis(600));
            }
            script(exchange)
        });
        let named = |result: &Result<bool>| lost(result).is_some_and(|lost| lost.rank == Some(1));
        assert!(results.iter().all(named), "{results:?}");
    }
}

/// A step is all or nothing, also with deadlines that just pass.
#[test]
fn a_step_succeeds_on_all_ranks_or_on_none() {
    for kind in KINDS {
        for delay in 0..40 {
            let limits = Limits { deadline: Duration::from_millis(20), ..small() };
            let results = run_with((kind, 3), limits, Vec::new(), |mut exchange| {
                if exchange.rank() == 1 {
                    std::thread::sleep(Duration::from_millis(delay));
                }
                let none = exchange.device().buffer::<u32>(0)?;
                // No data, so the counts are the only step.
                Ok(exchange.rounds::<u32, ()>(1, none.slice(..)?, &[0; 3]).is_ok())
            });
            let done: Vec<_> = results.into_iter().filter_map(Result::ok).collect();
            assert!(done.iter().all(|is_ok| *is_ok == done[0]), "{kind:?}, {delay} ms: {done:?}");
        }
    }
}

#[test]
fn a_rank_that_never_joins_is_lost_at_the_deadline() {
    for kind in KINDS {
        let limits = Limits { deadline: Duration::from_secs(1), ..small() };
        let (meeting, start) = (Meeting::new(3).unwrap(), Instant::now());
        let results: Vec<_> = std::thread::scope(|scope| {
            let join = |rank| {
                let meeting = &meeting;
                scope.spawn(move || join(kind, meeting, rank, limits))
            };
            [0, 2].map(join).into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(results.iter().all(|result| lost(result).is_some_and(|lost| lost.rank == Some(1))));
        assert!(start.elapsed() < limits.deadline + SLACK);
    }
}

#[test]
fn after_a_loss_remote_operations_fail_and_local_memory_works() {
    for kind in KINDS {
        let results = run_with((kind, 3), small(), Vec::new(), |mut exchange| {
            let matrix = matrix(3, Counts::Uniform, 1);
            let words = exchange.device().from_slice(&[1u32, 2, 3])?;
            if exchange.rank() == 1 {
                return Ok(()); // drops its end
            }
            for _ in 0..3 {
                let result = send::<u32>(&mut exchange, &matrix);
                assert_eq!(lost(&result).unwrap().rank, Some(1), "{result:?}");
                assert!(lost(&ask(&mut exchange, &matrix)).is_some() && lost(&exchange.wait()).is_some());
                assert!(lost(&send_padded(&mut exchange, &matrix)).is_some());
            }
            assert_eq!((words.read()?, exchange.rank() != 1), (vec![1, 2, 3], true));
            Ok(())
        });
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }
}

#[test]
fn a_rank_that_panics_is_lost_to_all_others() {
    for kind in KINDS {
        let meeting = Meeting::new(2).unwrap();
        std::thread::scope(|scope| {
            let panics = scope.spawn(|| {
                let _exchange = join(kind, &meeting, 1, small()).unwrap();
                std::panic::resume_unwind(Box::new("a rank of a test"));
            });
            let result = script(join(kind, &meeting, 0, small()).unwrap());
            assert_eq!(lost(&result).unwrap().rank, Some(1));
            assert!(panics.join().is_err());
        });
    }
}

#[test]
fn a_rank_that_abandons_its_rounds_is_lost_to_all_others() {
    for kind in KINDS {
        for rounds_done in 0..3 {
            let results = run_with((kind, 3), small(), Vec::new(), |mut exchange| {
                let batch = exchange.device().from_slice(&[1u32; 900])?;
                let quits = exchange.rank() == 2;
                let mut rounds = exchange.rounds::<u32, ()>(1, batch.slice(..)?, &[300, 300, 300])?;
                assert_eq!(rounds.len(), 3);
                let mut done = 0;
                while !(quits && done == rounds_done) && rounds.next()?.is_some() {
                    done += 1;
                }
                drop(rounds);
                exchange.all_to_all(1, batch.slice(..0)?, &[0; 3], batch_of(&exchange)?.slice_mut(..)?)
            });
            assert!(results.iter().all(|result| lost(result).is_some()), "{results:?}");
        }
    }
}

fn batch_of(exchange: &Exchange) -> Result<gpu::Buffer<u32>> {
    Ok(exchange.device().zeroed(4)?)
}

#[test]
fn missing_and_wrong_answers_end_the_exchange() {
    for kind in KINDS {
        let results = run_with((kind, 1), small(), Vec::new(), |mut exchange| {
            let device = exchange.device().clone();
            let (batch, mut into) = (device.from_slice(&[1u32; 300])?, device.zeroed::<u32>(300)?);
            let mut rounds = exchange.rounds::<u32, u32>(1, batch.slice(..)?, &[300])?;
            assert!(rounds.next()?.is_some());
            let error = rounds.answer(batch.slice(..5)?, &mut into.slice_mut(..)?).unwrap_err();
            assert!(matches!(error, Error::Arguments { what: "answers", found: 5, .. }), "{error}");
            assert!(lost(&rounds.answer(batch.slice(..128)?, &mut into.slice_mut(..)?)).is_some());
            drop(rounds);
            exchange.wait()
        });
        assert!(lost(&results[0]).is_some());
        let results = run_with((kind, 1), small(), Vec::new(), |mut exchange| {
            let batch = exchange.device().from_slice(&[1u32; 300])?;
            let mut rounds = exchange.rounds::<u32, u32>(1, batch.slice(..)?, &[300])?;
            assert!(rounds.next()?.is_some());
            let error = rounds.next().map(drop).unwrap_err();
            assert!(matches!(error, Error::Arguments { .. }), "{error}");
            drop(rounds);
            exchange.wait()
        });
        assert!(lost(&results[0]).is_some());
    }
}

/// Runs two operations that differ on rank 1, and requires the same error on all ranks, and that the exchange
/// can be used again.
fn expect_mismatch<R: Send>(part: &str, operation: impl Fn(&mut Exchange, bool) -> Result<R> + Sync) {
    for kind in KINDS {
        for ranks in [2, 3, 5] {
            let rights = run((kind, ranks), small(), |mut exchange| {
                let differs = exchange.rank() == 1;
                let error = operation(&mut exchange, differs).map(drop).unwrap_err();
                assert!(matches!(error, Error::Mismatch { rank: 1, .. }), "{kind:?}: {error}");
                assert!(error.to_string().contains(part), "{error}");
                script(exchange)
            });
            assert!(rights.into_iter().all(|right| right));
        }
    }
}

#[test]
fn different_operations_are_an_error_on_all() {
    expect_mismatch("operation", |exchange, differs| {
        let counts = vec![0; exchange.ranks()];
        let mut into = batch_of(exchange)?;
        exchange.all_to_all(u32::from(differs), batch_of(exchange)?.slice(..0)?, &counts, into.slice_mut(..)?)
    });
}

#[test]
fn different_types_are_an_error_on_all() {
    expect_mismatch("bytes per element", |exchange, differs| {
        let (counts, batch) = (vec![0; exchange.ranks()], exchange.device().buffer::<u64>(0)?);
        match differs {
            true => exchange.rounds::<u32, ()>(1, batch.slice(..)?.cast()?, &counts).map(drop),
            false => exchange.rounds::<u64, ()>(1, batch.slice(..)?, &counts).map(drop),
        }
    });
    expect_mismatch("bytes per answer", |exchange, differs| {
        let (counts, batch) = (vec![0; exchange.ranks()], exchange.device().buffer::<u64>(0)?);
        match differs {
            true => exchange.rounds::<u64, u8>(1, batch.slice(..)?, &counts).map(drop),
            false => exchange.rounds::<u64, ()>(1, batch.slice(..)?, &counts).map(drop),
        }
    });
}

#[test]
fn different_shapes_of_slots_are_an_error_on_all() {
    expect_mismatch("shape of a round", |exchange, differs| {
        let slots = exchange.device().zeroed::<u8>(exchange.ranks() * small().slot_bytes)?;
        match differs {
            true => exchange.padded::<u32, ()>(1, slots.slice(..)?).map(drop),
            false => exchange.padded::<u64, ()>(1, slots.slice(..)?).map(drop),
        }
    });
}

#[test]
fn padded_exchanges_and_rounds_do_not_mix() {
    expect_mismatch("operation", |exchange, differs| {
        let slots = exchange.device().zeroed::<u8>(exchange.ranks() * small().slot_bytes)?;
        match differs {
            true => exchange.padded::<u32, ()>(1, slots.slice(..)?).map(drop),
            false => {
                let counts = vec![0; exchange.ranks()];
                exchange.rounds::<u8, ()>(1, slots.slice(..0)?, &counts).map(drop)
            }
        }
    });
}

#[test]
fn different_limits_are_an_error_on_all() {
    for kind in KINDS {
        for part_bytes in [512, 1024] {
            let other = Limits { part_bytes, slot_bytes: 512, ..small() };
            let meeting = Meeting::new(3).unwrap();
            let results: Vec<_> = std::thread::scope(|scope| {
                let join = |rank| {
                    let (meeting, limits) = (&meeting, if rank == 1 { other } else { small() });
                    scope.spawn(move || join(kind, meeting, rank, limits).map(drop))
                };
                [0, 1, 2].map(join).into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let is_mismatch = |result: &Result<()>| matches!(result, Err(Error::Mismatch { rank: 1, .. }));
            assert!(results.iter().all(is_mismatch), "{results:?}");
        }
    }
}

#[test]
fn arguments_that_do_not_fit_are_an_error_on_all() {
    for kind in KINDS {
        let rights = run((kind, 3), small(), |mut exchange| {
            let (batch, stranger) =
                (batch_of(&exchange)?, gpu::Device::emulator(Default::default()).zeroed::<u32>(4)?);
            let huge = exchange.device().zeroed::<[u32; 256]>(0)?;
            for case in 0..5 {
                let counts = match case {
                    0 => vec![4, 0],
                    1 => vec![4, 0, 1],
                    2 => vec![usize::MAX, 5, 0],
                    _ => vec![4, 0, 0],
                };
                let is_wrong = exchange.rank() == 2;
                let error = match is_wrong {
                    true if case == 3 => {
                        exchange.rounds::<u32, ()>(1, stranger.slice(..)?, &counts).map(drop)
                    }
                    true if case == 4 => exchange.rounds::<_, ()>(1, huge.slice(..)?, &[0; 3]).map(drop),
                    true => exchange.rounds::<u32, ()>(1, batch.slice(..)?, &counts).map(drop),
                    false => exchange.rounds::<u32, ()>(1, batch.slice(..)?, &[0, 4, 0]).map(drop),
                };
                match error.unwrap_err() {
                    Error::Arguments { .. } => assert!(is_wrong),
                    Error::Refused { rank: 2 } => assert!(!is_wrong),
                    error => panic!("{error}"),
                }
            }
            script(exchange)
        });
        assert_eq!(rights, [true; 3]);
    }
}

#[test]
fn results_that_do_not_fit_are_an_error_on_all() {
    for kind in KINDS {
        let rights = run((kind, 3), small(), |mut exchange| {
            let (batch, mut into) = (batch_of(&exchange)?, exchange.device().zeroed::<u32>(11)?);
            let error =
                exchange.all_to_all(1, batch.slice(..)?, &[0, 4, 0], into.slice_mut(..)?).unwrap_err();
            assert!(matches!(error, Error::NoRoom { rank: 1, len: 12, capacity: 11 }), "{error}");
            script(exchange)
        });
        assert_eq!(rights, [true; 3]);
    }
}

#[test]
fn ranks_limits_and_slots_out_of_range_are_errors() {
    let (meeting, limits) = (Meeting::new(2).unwrap(), small());
    assert!(Meeting::new(1025).is_err());
    for limits in [
        Limits { part_bytes: 0, ..limits },
        Limits { part_bytes: 1000, ..limits },
        Limits { part_bytes: 512 << 20, ..limits },
        Limits { slot_bytes: 0, ..limits },
        Limits { slot_bytes: 768, ..limits },
    ] {
        let error = join(Kind::Emulated, &meeting, 0, limits).map(drop).unwrap_err();
        assert!(matches!(error, Error::Arguments { .. }), "{error}");
    }
    let error = join(Kind::Peer, &meeting, 2, limits).map(drop).unwrap_err();
    assert!(error.to_string().contains("below 2"), "{error}");
    let single = Meeting::new(1).unwrap();
    let mut exchange = join(Kind::Peer, &single, 0, limits).unwrap();
    assert!(join(Kind::Peer, &single, 0, limits).is_err(), "the place is taken");
    let mut slots = exchange.device().zeroed::<u8>(256).unwrap();
    let batch = exchange.device().zeroed::<u32>(3).unwrap();
    for counts in [&[][..], &[2], &[usize::MAX], &[usize::MAX, 4], &[3, 0]] {
        let filled =
            exchange.fill_slots::<u32, ()>(1, &mut slots, batch.slice(..).unwrap(), counts).unwrap_err();
        assert!(matches!(filled, Error::Arguments { .. }), "{filled}");
    }
    let slots = exchange.device().zeroed::<u8>(255).unwrap();
    let error = exchange.padded::<u32, ()>(1, slots.slice(..).unwrap()).map(drop).unwrap_err();
    assert!(error.to_string().contains("1 slots of 256 bytes"), "{error}");
}

#[test]
fn a_device_without_room_for_the_windows_is_an_error_on_all() {
    for kind in KINDS {
        let meeting = Meeting::new(2).unwrap();
        let (poor, limits) = (gpu::Device::emulator(Default::default()), small());
        poor.emulator_handle().unwrap().fail_allocations_after(1);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| join(kind, &meeting, 1, limits).map(drop));
            let result = match kind {
                Kind::Emulated => Exchange::emulated(&meeting, 0, &poor, limits),
                Kind::Peer => Exchange::peer(&meeting, 0, &poor, limits),
            };
            assert!(matches!(result, Err(Error::Device(gpu::Error::OutOfMemory { .. }))));
            assert_eq!(lost(&other.join().unwrap()).unwrap().rank, Some(0));
        });
    }
}

#[test]
fn a_copy_that_fails_ends_the_exchange_on_all() {
    for kind in KINDS {
        for after in 0..6 {
            let results = run_with((kind, 2), small(), Vec::new(), |mut exchange| {
                let matrix = matrix(2, Counts::Full, 1);
                let batch = exchange.device().from_slice(&batch::<u32>(&matrix, exchange.rank()))?;
                let mut into = exchange.device().zeroed::<u32>(256)?;
                if exchange.rank() == 1 {
                    exchange.device().emulator_handle().unwrap().fail_copy(after);
                }
                for _ in 0..8 {
                    exchange.all_to_all(1, batch.slice(..)?, &[128, 128], into.slice_mut(..)?)?;
                }
                Ok(())
            });
            assert!(results.iter().all(Result::is_err), "{kind:?}, {after}: {results:?}");
        }
    }
}

/// A rank that goes on when the others have given it up does not write to their memory.
#[test]
fn memory_is_not_written_after_its_owner_has_given_up() {
    let fill = |word: u32| u32::from_ne_bytes([word as u8; 4]);
    for ranks in [2, 3] {
        for is_sized in [false, true] {
            // Steps 0 and 1 make the exchange.
            let planted = vec![Planted { rank: 1, step: 2, fault: Fault::Pause }];
            let limits = Limits { deadline: Duration::from_millis(300), ..small() };
            let results = run_with((Kind::Peer, ranks), limits, planted, |mut exchange| {
                let (rank, device) = (exchange.rank(), exchange.device().clone());
                let (batch, mut into) =
                    (device.filled::<u32>(4 * ranks, 1)?, device.filled::<u32>(4 * ranks, 2)?);
                let (send, counts) = (batch.slice(..)?, vec![4; ranks]);
                let result = match is_sized {
                    true => exchange.all_to_all_sized(1, send, &counts, into.slice_mut(..)?, &counts),
                    false => exchange.all_to_all(1, send, &counts, into.slice_mut(..)?).map(drop),
                };
                assert!(lost(&result).is_some_and(|lost| lost.rank == Some(1)), "{result:?}");
                into.fill_bytes(3)?;
                std::thread::sleep(Duration::from_millis(300)); // rank 1 goes on
                assert_eq!(into.read()?, vec![fill(3); 4 * ranks], "rank {rank}");
                Ok(())
            });
            assert!(results.iter().all(Result::is_ok), "{results:?}");
        }
    }
}

/// Memory that is freed after a loss, at any step, while other ranks go on.
#[test]
fn memory_can_be_freed_after_a_loss() {
    for (fault, deadline) in [(Fault::Die, 20_000), (Fault::Stall, 150), (Fault::Pause, 150)] {
        for step in 0..6 {
            let planted = vec![Planted { rank: 2, step, fault }];
            let limits = Limits { deadline: Duration::from_millis(deadline), ..small() };
            let results = run_with((Kind::Peer, 3), limits, planted, |mut exchange| {
                for _ in 0..2 {
                    let batch = exchange.device().filled::<u32>(300, 1)?;
                    let mut into = exchange.device().zeroed::<u32>(300)?;
                    exchange.all_to_all(1, batch.slice(..)?, &[100; 3], into.slice_mut(..)?)?;
                    assert_eq!(into.read()?, [u32::from_ne_bytes([1; 4]); 300]);
                }
                Ok(())
            });
            // A pause has no effect where no copies follow.
            let may_succeed = fault == Fault::Pause && ![2, 4].contains(&step);
            let is_right = |result: &Result<()>| lost(result).is_some() || may_succeed && result.is_ok();
            assert!(results.iter().all(is_right), "{fault:?}, step {step}: {results:?}");
        }
    }
}

#[test]
fn sizes_that_differ_are_an_error_on_all() {
    for kind in KINDS {
        let results = run_with((kind, 3), small(), Vec::new(), |mut exchange| {
            let (batch, mut into) = (batch_of(&exchange)?, exchange.device().zeroed::<u32>(12)?);
            let receives = if exchange.rank() == 1 { [4, 3, 4] } else { [0, 0, 0] };
            let result =
                exchange.all_to_all_sized(1, batch.slice(..)?, &[0, 4, 0], into.slice_mut(..)?, &receives);
            let is_found = matches!(result, Err(Error::Damaged { rank: 1, found: 16, expected: 12 }));
            assert!(is_found, "{kind:?}: {result:?}");
            assert_eq!(into.read()?, [0; 12]);
            script(exchange)
        });
        assert!(results.iter().all(|result| lost(result).is_some()), "{results:?}");
    }
}

#[test]
fn sizes_that_do_not_fit_end_the_exchange() {
    for kind in KINDS {
        for receives in [&[4, 0][..], &[4, 0, 5], &[usize::MAX, 5, 0]] {
            let results = run_with((kind, 3), small(), Vec::new(), |mut exchange| {
                let (batch, mut into) = (batch_of(&exchange)?, exchange.device().zeroed::<u32>(8)?);
                let receives = if exchange.rank() == 2 { receives } else { &[0, 0, 0] };
                exchange.all_to_all_sized(1, batch.slice(..0)?, &[0; 3], into.slice_mut(..)?, receives)
            });
            for (rank, result) in results.iter().enumerate() {
                let is_own = matches!(result, Err(Error::Arguments { .. }));
                assert!(is_own && rank == 2 || lost(result).is_some() && rank != 2, "{kind:?}: {results:?}");
            }
        }
    }
}

#[test]
fn results_on_another_device_are_an_error_on_all() {
    for kind in KINDS {
        let rights = run((kind, 2), small(), |mut exchange| {
            let stranger = gpu::Device::emulator(Default::default());
            let device = if exchange.rank() == 1 { stranger } else { exchange.device().clone() };
            let (batch, mut into) = (batch_of(&exchange)?, device.zeroed::<u32>(8)?);
            match exchange.all_to_all(1, batch.slice(..)?, &[4, 0], into.slice_mut(..)?) {
                Err(Error::Arguments { .. }) => assert_eq!(exchange.rank(), 1),
                Err(Error::Refused { rank: 1 }) => assert_eq!(exchange.rank(), 0),
                result => panic!("{result:?}"),
            }
            script(exchange)
        });
        assert_eq!(rights, [true; 2]);
    }
}
