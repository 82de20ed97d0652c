//! Results compared with a model, for all numbers of ranks and shapes of counts.
mod ranks;
use exchange::{Exchange, Limits, SLOT_HEADER};
use ranks::*;

fn all_cases(check: impl Fn(&mut Exchange, &[Vec<usize>]) -> Result<bool> + Sync) {
    for kind in KINDS {
        for ranks in RANKS {
            for (seed, counts) in COUNTS.into_iter().enumerate() {
                let matrix = matrix(ranks, counts, seed as u64);
                let results = run((kind, ranks), small(), |mut exchange| check(&mut exchange, &matrix));
                assert!(
                    results.iter().all(|right| *right),
                    "{kind:?}, {ranks} ranks, {counts:?}: {results:?}"
                );
            }
        }
    }
}

#[test]
fn words_of_32_bits_arrive() {
    all_cases(send::<u32>);
}

#[test]
fn words_of_64_bits_arrive() {
    all_cases(send::<u64>);
}

#[test]
fn elements_of_a_size_that_divides_nothing_arrive() {
    all_cases(send::<[u8; 3]>);
}

#[test]
fn elements_whose_counts_are_known_arrive() {
    all_cases(send_sized::<u32>);
    all_cases(send_sized::<[u8; 3]>);
}

/// Own parts of more than 2 MiB are copied in another stream.
#[test]
fn long_parts_arrive() {
    run((Kind::Peer, 2), small(), |mut exchange| {
        assert!(send::<u64>(&mut exchange, &[vec![300_000, 10], vec![20, 400_000]])?);
        Ok(())
    });
}

#[test]
fn a_direct_exchange_counts_as_one_round() {
    for kind in KINDS {
        let traffic = run((kind, 3), small(), |mut exchange| {
            let matrix = matrix(3, Counts::Full, 1);
            assert!(send::<u64>(&mut exchange, &matrix)? && send_sized::<u64>(&mut exchange, &matrix)?);
            Ok(exchange.traffic())
        });
        assert!(traffic.iter().all(|traffic| (traffic.bytes, traffic.rounds) == (2 * 2 * 128 * 8, 2)));
    }
}

#[test]
fn answers_come_back_in_the_order_of_the_batch() {
    all_cases(ask);
}

#[test]
fn slots_and_their_answers_arrive() {
    all_cases(send_padded);
}

#[test]
fn operations_follow_each_other_on_one_exchange() {
    for kind in KINDS {
        for ranks in RANKS {
            let results = run((kind, ranks), small(), |mut exchange| {
                let mut is_right = true;
                for seed in 0..6 {
                    let counts = COUNTS[seed as usize % COUNTS.len()];
                    let matrix = matrix(exchange.ranks(), counts, seed);
                    is_right &= send_padded(&mut exchange, &matrix)? && ask(&mut exchange, &matrix)?;
                    is_right &= send::<u64>(&mut exchange, &matrix)?;
                }
                Ok(is_right)
            });
            assert_eq!(results, vec![true; ranks], "{kind:?}");
        }
    }
}

#[test]
fn one_owner_of_everything_gets_it_in_bounded_rounds() {
    for kind in KINDS {
        for ranks in RANKS {
            let rounds = run((kind, ranks), small(), |mut exchange| {
                // A part has room for 128 words; each rank has 1000 for rank 0.
                let mut counts = vec![0; exchange.ranks()];
                counts[0] = 1000;
                let batch = exchange.device().from_slice(&[7u32; 1000])?;
                let (rank, senders) = (exchange.rank(), exchange.ranks());
                let mut rounds = exchange.rounds::<u32, ()>(1, batch.slice(..)?, &counts)?;
                assert_eq!(
                    (rounds.len(), rounds.count_from(senders - 1)),
                    (8, if rank == 0 { 1000 } else { 0 })
                );
                let mut lens = Vec::new();
                while let Some(received) = rounds.next()? {
                    assert_eq!(received.first(), 128 * received.round());
                    assert!(received.parts().iter().all(|part| part.len() <= 128));
                    lens.push(received.len());
                }
                drop(rounds);
                let expected = [vec![128 * senders; 7], vec![104 * senders]].concat();
                assert_eq!(lens, if rank == 0 { expected } else { vec![0; 8] });
                Ok(exchange.traffic())
            });
            for (rank, traffic) in rounds.iter().enumerate() {
                assert_eq!((traffic.rounds, traffic.bytes), (8, if rank == 0 { 0 } else { 4000 }));
            }
        }
    }
}

#[test]
fn counts_beyond_a_slot_are_known_to_both_sides() {
    for kind in KINDS {
        let counts = run((kind, 2), small(), |mut exchange| {
            let capacity = exchange.slot_capacity::<u32, ()>();
            assert_eq!(capacity, (small().slot_bytes - SLOT_HEADER) / 4);
            let batch = exchange.device().from_slice(&vec![3u32; capacity + 9])?;
            let mut slots = exchange.device().zeroed(2 * small().slot_bytes)?;
            exchange.fill_slots::<u32, ()>(1, &mut slots, batch.slice(..)?, &[9, capacity])?;
            exchange.padded::<u32, ()>(1, slots.slice(..)?)?.counts()
        });
        assert_eq!(counts, [[9, 9], [60, 60]]);
        let results = run((kind, 3), small(), |mut exchange| {
            let matrix = matrix(3, Counts::OneOwner, 5);
            // What does not fit the slots goes in rounds.
            Ok(send_padded(&mut exchange, &matrix)? && send::<u32>(&mut exchange, &matrix)?)
        });
        assert_eq!(results, [true; 3]);
    }
}

#[test]
fn a_padded_exchange_waits_for_no_device_until_its_counts_are_read() {
    for ranks in RANKS {
        let waits = run((Kind::Peer, ranks), small(), |mut exchange| {
            let device = exchange.device().clone();
            let mut slots = device.zeroed(ranks * small().slot_bytes)?;
            let batch = device.from_slice(&vec![1u32; ranks])?;
            exchange.fill_slots::<u32, u32>(1, &mut slots, batch.slice(..)?, &vec![1; ranks])?;
            let before = device.emulated_work().unwrap().waits;
            let mut padded = exchange.padded::<u32, u32>(1, slots.slice(..)?)?;
            let _ = padded.answer(slots.slice(..)?)?;
            let between = device.emulated_work().unwrap().waits;
            assert_eq!(padded.counts()?, vec![1; ranks]);
            drop(padded);
            Ok((between - before, exchange.traffic().waits))
        });
        assert_eq!(waits, vec![(0, 1); ranks]);
    }
}

#[test]
fn the_bytes_on_the_wire_are_those_of_the_cost_model() {
    for kind in KINDS {
        run((kind, 3), small(), |mut exchange| {
            let (rank, matrix) = (exchange.rank(), matrix(3, Counts::Uniform, 2));
            let sent: usize = (0..3).filter(|to| *to != rank).map(|to| matrix[rank][to]).sum();
            let received: usize = (0..3).filter(|from| *from != rank).map(|from| matrix[from][rank]).sum();
            assert!(ask(&mut exchange, &matrix)?);
            assert_eq!(exchange.traffic().bytes as usize, 4 * sent + 8 * received);
            let before = exchange.traffic().bytes as usize;
            assert!(send_padded(&mut exchange, &matrix)?);
            assert_eq!(exchange.traffic().bytes as usize - before, 2 * 2 * small().slot_bytes);
            Ok(())
        });
    }
}

#[test]
fn large_parts_move_a_batch_in_one_round() {
    let limits = Limits { part_bytes: 1 << 16, ..small() };
    run((Kind::Peer, 5), limits, |mut exchange| {
        assert!(ask(&mut exchange, &matrix(5, Counts::Uniform, 1))?);
        assert_eq!(exchange.traffic().rounds, 2, "elements and answers");
        Ok(())
    });
}
