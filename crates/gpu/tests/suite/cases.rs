//! Test cases for any device.
use crate::devices::expect_parts;
use crate::kernels::{Add, Count, Fill, Idle, Large, Lookup, Size, Slow, Small, looked_up};
use gpu::{Buffer, Device, Error, Grid, Kernel, Layout, Reach, Stream, Tier};
use simt::emulator::Options;

/// Launches and unwraps. The kernels of the suite stay within their buffers.
fn run<K: Kernel + Send + Sync + 'static>(stream: &Stream, grid: Grid, kernel: K) {
    // SAFETY: each test passes buffers that live until it has waited, to one kernel at a time.
    unsafe { stream.launch(grid, kernel) }.unwrap();
}

/// Returns the ticks of a slow kernel: 20 ms on a GPU. Every read advances the emulator's clock.
fn ticks(device: &Device) -> u64 {
    if device.is_emulator() { 10_000 } else { 20_000_000 }
}

fn numbers(count: u32) -> Vec<u32> {
    (0..count).map(|i| i.wrapping_mul(2_654_435_761)).collect()
}

pub fn says_what_it_is(device: &Device) {
    assert!(!device.name().is_empty() && !device.driver().is_empty());
    assert!(device.multiprocessors() > 0);
    assert!(device.resident_threads() >= 32 * device.multiprocessors());
    assert!(device.arch() >= 80, "sm_{}", device.arch());
    let (free, total) = device.memory().unwrap();
    assert!(0 < free && free <= total);
    assert_eq!(device.is_emulator(), device.emulator_handle().is_some());
    assert_eq!(device.driver() == "emulator", device.is_emulator());
    let shown = format!("{device:?}");
    assert!(shown.contains(&device.name()) && shown.len() < 200, "{shown}");
}

pub fn elements_come_back(device: &Device) {
    let buffer = device.from_slice(&numbers(1000)).unwrap();
    assert_eq!((buffer.len(), buffer.byte_len(), buffer.tier()), (1000, 4000, Tier::Device));
    assert_eq!(buffer.pointer() as usize % 256, 0);
    assert_eq!(buffer.read().unwrap(), numbers(1000));
    assert_eq!(device.filled::<u64>(9, 0xab).unwrap().read().unwrap(), [0xabab_abab_abab_abab; 9]);
    assert_eq!(device.zeroed::<[u8; 3]>(5).unwrap().read().unwrap(), [[0; 3]; 5]);
}

pub fn parts_are_written_and_read(device: &Device) {
    let mut buffer = device.zeroed::<u32>(10).unwrap();
    buffer.write_at(3, &[30, 40, 50]).unwrap();
    buffer.write_at(10, &[]).unwrap();
    let mut part = [7; 4];
    buffer.read_into(2, &mut part).unwrap();
    assert_eq!(part, [0, 30, 40, 50]);
    buffer.fill_bytes(1).unwrap();
    assert_eq!(buffer.read().unwrap(), [0x0101_0101; 10]);
}

pub fn buffers_are_copied(device: &Device) {
    let source = device.from_slice(&numbers(300)).unwrap();
    let mut target = device.zeroed(300).unwrap();
    target.copy_from(&source).unwrap();
    assert_eq!(target.read().unwrap(), numbers(300));
    let elsewhere = Device::emulator(Options::default());
    let mut copy = elsewhere.buffer(300).unwrap();
    copy.copy_from(&target).unwrap();
    assert_eq!(copy.read().unwrap(), numbers(300));
    target.fill_bytes(0).unwrap();
    target.copy_from(&copy).unwrap();
    assert_eq!(target.read().unwrap(), numbers(300));
    for (from, offset) in [(&source, 100), (&copy, 0), (&source, 101)] {
        let mut longer = device.filled::<u32>(401, 0xff).unwrap();
        longer.copy_at(offset, from).unwrap();
        let found = longer.read().unwrap();
        assert_eq!(found[offset..offset + 300], numbers(300));
        assert!(found[..offset].iter().chain(&found[offset + 300..]).all(|&word| word == u32::MAX));
    }
}

pub fn lengths_that_do_not_fit_are_errors(device: &Device) {
    let mut buffer = device.zeroed::<u32>(4).unwrap();
    let other = device.zeroed::<u32>(5).unwrap();
    let stream = device.default_stream();
    let errors = [
        buffer.write(&[1; 3]),
        buffer.write(&[1; 5]),
        buffer.write_at(2, &[1; 3]),
        buffer.write_at(usize::MAX, &[1; 3]),
        buffer.read_into(1, &mut [0; 4]),
        buffer.read_into(5, &mut []),
        buffer.copy_from(&other),
        buffer.copy_at(0, &other),
        buffer.copy_at(usize::MAX, &other),
        // SAFETY: refused, so nothing is accessed.
        unsafe { buffer.write_on(&stream, 4, &[1]) },
        // SAFETY: as above.
        unsafe { buffer.read_on(&stream, 4, &mut [1]) },
        // SAFETY: as above.
        unsafe { buffer.copy_from_on(&stream, &other) },
    ];
    for error in errors {
        assert!(matches!(error, Err(Error::Length { len: 4, .. })), "{error:?}");
    }
    assert_eq!(buffer.read().unwrap(), [0; 4]);
}

pub fn empty_buffers_are_fine(device: &Device) {
    let stream = device.default_stream();
    for tier in [Tier::Device, Tier::Pinned, Tier::Managed] {
        let mut buffer = device.buffer_on::<u32>(tier, 0).unwrap();
        buffer.write(&[]).unwrap();
        buffer.fill_bytes(1).unwrap();
        buffer.copy_from(&device.from_slice(&[]).unwrap()).unwrap();
        assert_eq!((buffer.read().unwrap(), buffer.byte_len(), buffer.is_empty()), (vec![], 0, true));
        run(&stream, Grid::new(1, 32), Fill { out: buffer.global(), value: 1 });
        stream.synchronize().unwrap();
        if tier.is_host_visible() {
            assert_eq!(buffer.as_slice().unwrap(), []);
            assert_eq!(buffer.as_mut_slice().unwrap(), []);
        }
    }
}

pub fn too_much_memory_is_an_error(device: &Device) {
    let (_, total) = device.memory().unwrap();
    let error = device.buffer::<u64>(usize::MAX / 4).unwrap_err();
    assert!(matches!(error, Error::TooLarge { element: 8, .. }), "{error}");
    for tier in [Tier::Device, Tier::Managed] {
        let error = device.buffer_on::<u8>(tier, total + total / 8).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        assert!(error.to_string().contains(&total.to_string()), "{error}");
    }
    assert_eq!(device.from_slice(&[5u8]).unwrap().read().unwrap(), [5], "the device goes on");
}

pub fn device_memory_is_no_slice(device: &Device) {
    let mut buffer = device.zeroed::<u32>(4).unwrap();
    assert!(matches!(buffer.as_slice(), Err(Error::NotHostVisible { tier: Tier::Device })));
    assert!(matches!(buffer.as_mut_slice(), Err(Error::NotHostVisible { tier: Tier::Device })));
    assert_eq!(buffer.host_pointer(), None);
}

pub fn a_file_needs_a_path(device: &Device) {
    assert!(matches!(device.buffer_on::<u32>(Tier::File, 4), Err(Error::NeedsPath)));
}

pub fn kernels_write(device: &Device) {
    let stream = device.stream().unwrap();
    for (len, threads) in [(1, 32), (31, 32), (1000, 128), (4096, 1024), (100, 1)] {
        let buffer = device.zeroed::<u32>(len).unwrap();
        run(&stream, Grid::for_items(len, threads), Fill { out: buffer.global(), value: 7 });
        assert_eq!(buffer.read().unwrap(), vec![7; len], "{len} elements in blocks of {threads}");
    }
}

pub fn generic_kernels_are_found(device: &Device) {
    let sizes = device.zeroed::<u32>(1).unwrap();
    let stream = device.default_stream();
    run(&stream, Grid::new(1, 1), Size { out: sizes.global(), of: Small(0) });
    assert_eq!(sizes.read().unwrap(), [4]);
    run(&stream, Grid::new(1, 1), Size { out: sizes.global(), of: Large([0; 2]) });
    assert_eq!(sizes.read().unwrap(), [16]);
}

pub fn kernels_call_functions_and_read_tables(device: &Device) {
    let out = device.zeroed::<u32>(50).unwrap();
    run(&device.default_stream(), Grid::for_items(50, 64), Lookup { out: out.global() });
    let expected: Vec<_> = (0..50).map(looked_up).collect();
    assert_eq!(out.read().unwrap(), expected);
}

pub fn kernels_without_arguments_run(device: &Device) {
    run(&device.default_stream(), Grid::new(3, 32), Idle {});
    device.synchronize().unwrap();
}

pub fn grids_that_no_device_runs_are_errors(device: &Device) {
    let stream = device.default_stream();
    for grid in [Grid::new(1, 0), Grid::new(1, 1025), Grid::new(1 << 31, 32), Grid::new(u32::MAX, u32::MAX)] {
        // SAFETY: refused, so nothing runs.
        let error = unsafe { stream.launch(grid, Idle {}) }.unwrap_err();
        assert!(matches!(error, Error::Grid { .. }), "{error}");
        expect_parts(&error, &["`idle`", &format!("{} blocks", grid.blocks)]);
    }
    assert!(matches!(device.occupancy_grid::<Idle>(2000), Err(Error::Grid { .. })));
}

pub fn empty_grids_run_nothing(device: &Device) {
    let total = device.zeroed::<u32>(1).unwrap();
    run(&device.default_stream(), Grid::new(0, 32), Count { total: total.global() });
    assert_eq!(total.read().unwrap(), [0]);
}

pub fn persistent_grids_run_whole(device: &Device) {
    let total = device.zeroed::<u32>(1).unwrap();
    let grid = device.occupancy_grid::<Count>(128).unwrap();
    assert!(grid.blocks >= device.multiprocessors() && grid.threads == 128, "{grid}");
    let large = device.occupancy_grid::<Count>(1024).unwrap();
    assert!(large.threads == 1024 && large.blocks < grid.blocks, "{large}, {grid}");
    assert_eq!(device.occupancy_grid::<Count>(128).unwrap().blocks, grid.blocks);
    run(&device.default_stream(), grid, Count { total: total.global() });
    assert_eq!(total.read().unwrap(), [grid.blocks * 128]);
}

pub fn tiers_are_seen_by_both_sides(device: &Device) {
    let ones = device.from_slice(&[1u64; 100]).unwrap();
    let stream = device.stream().unwrap();
    for tier in [Tier::Pinned, Tier::Managed] {
        let mut buffer = device.buffer_on::<u64>(tier, 100).unwrap();
        assert_eq!(buffer.tier(), tier);
        for (i, element) in buffer.as_mut_slice().unwrap().iter_mut().enumerate() {
            *element = i as u64;
        }
        run(&stream, Grid::for_items(100, 64), Add { target: buffer.global(), source: ones.global() });
        assert!(buffer.as_slice().unwrap().iter().copied().eq(1..=100), "{tier}");
        buffer.write_at(99, &[5]).unwrap();
        assert_eq!(buffer.read().unwrap()[98..], [99, 5]);
        assert!(buffer.host_pointer().is_some());
    }
}

pub fn host_visible_tiers_start_as_zeros(device: &Device) {
    for tier in [Tier::Pinned, Tier::Managed] {
        let buffer = device.buffer_on::<u32>(tier, 5000).unwrap();
        assert!(buffer.as_slice().unwrap().iter().all(|&element| element == 0), "{tier}");
    }
}

/// Creates a folder for files that a CUDA driver accepts: on tmpfs, if there is one.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// # Safety
/// - As `Device::map_file`.
unsafe fn map<T: bytemuck::Pod>(device: &Device, path: &std::path::Path, len: usize) -> Buffer<T> {
    // SAFETY: the caller's obligation.
    unsafe { device.map_file(path, len) }.unwrap()
}

pub fn files_survive(device: &Device) {
    let folder = folder();
    let path = folder.path().join("numbers");
    // SAFETY: nothing else accesses the file.
    let first = unsafe { map::<u32>(device, &path, 3000) };
    assert_eq!((first.tier(), first.as_slice().unwrap().len()), (Tier::File, 3000));
    assert_eq!(first.read().unwrap(), vec![0; 3000]);
    run(&device.default_stream(), Grid::for_items(3000, 128), Fill { out: first.global(), value: 77 });
    first.flush().unwrap();
    drop(first);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 12_000);
    let other = Device::emulator(Options::default());
    // SAFETY: as above, and the first mapping has been dropped.
    let second = unsafe { map::<u32>(&other, &path, 3000) };
    assert_eq!(second.read().unwrap(), vec![77; 3000]);
}

pub fn longer_files_are_kept(device: &Device) {
    let folder = folder();
    let path = folder.path().join("bytes");
    std::fs::write(&path, [9; 5000]).unwrap();
    // SAFETY: nothing else accesses the file.
    let mut buffer = unsafe { map::<u8>(device, &path, 10) };
    buffer.write_at(1, &[1, 2]).unwrap();
    assert_eq!(buffer.read().unwrap(), [9, 1, 2, 9, 9, 9, 9, 9, 9, 9]);
    drop(buffer);
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!((bytes.len(), &bytes[..4], bytes[4999]), (5000, &[9, 1, 2, 9][..], 9));
    // SAFETY: as above.
    let empty = unsafe { map::<u8>(device, &path, 0) };
    assert_eq!((empty.as_slice().unwrap().len(), empty.read().unwrap().len()), (0, 0));
}

pub fn files_that_cannot_be_mapped_are_errors(device: &Device) {
    let folder = folder();
    // SAFETY: nothing is mapped.
    let error = unsafe { device.map_file::<u32>(folder.path(), 10) }.unwrap_err();
    assert!(matches!(error, Error::File { bytes: 40, .. }), "{error}");
    assert!(error.to_string().contains(folder.path().to_str().unwrap()), "{error}");
}

pub fn streams_keep_their_order(device: &Device) {
    let out = device.zeroed::<u32>(64).unwrap();
    let stream = device.stream().unwrap();
    run(&stream, Grid::new(1, 64), Slow { out: out.global(), ticks: ticks(device), value: 1 });
    run(&stream, Grid::new(1, 64), Fill { out: out.global(), value: 2 });
    stream.synchronize().unwrap();
    assert_eq!(out.read().unwrap(), [2; 64]);
}

pub fn streams_wait_for_events(device: &Device) {
    let out = device.zeroed::<u32>(64).unwrap();
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    run(&first, Grid::new(1, 64), Slow { out: out.global(), ticks: ticks(device), value: 1 });
    let written = first.record().unwrap();
    second.wait(&written).unwrap();
    second.wait(&written).unwrap();
    run(&second, Grid::new(1, 64), Fill { out: out.global(), value: 2 });
    let end = second.record().unwrap();
    end.synchronize().unwrap();
    assert!(end.is_complete().unwrap() && written.is_complete().unwrap());
    assert_eq!(out.read().unwrap(), [2; 64]);
    let elsewhere = Device::emulator(Options::default()).default_stream();
    elsewhere.wait(&end).unwrap();
    second.wait(&elsewhere.record().unwrap()).unwrap();
}

pub fn events_measure(device: &Device) {
    let out = device.zeroed::<u32>(1).unwrap();
    let stream = device.stream().unwrap();
    device.prepare::<Slow>().unwrap();
    let start = stream.record().unwrap();
    run(&stream, Grid::new(1, 1), Slow { out: out.global(), ticks: ticks(device), value: 1 });
    let end = stream.record().unwrap();
    let ms = end.elapsed_ms(&start).unwrap();
    let least = if device.is_emulator() { 0.0 } else { 15.0 };
    assert!(ms > least && ms < 60_000.0, "{ms} ms");
    let other = Device::emulator(Options::default()).default_stream().record().unwrap();
    assert!(matches!(end.elapsed_ms(&other), Err(Error::OtherDevice { .. })));
}

pub fn asynchronous_copies_happen_in_order(device: &Device) {
    let stream = device.stream().unwrap();
    let (mut buffer, mut copy) = (device.zeroed::<u32>(8).unwrap(), device.zeroed::<u32>(8).unwrap());
    let mut read = [0; 2];
    // SAFETY: the sources and targets of the copies live until the stream is synchronized, and nothing else
    // accesses them before.
    unsafe {
        buffer.fill_bytes_on(&stream, 3).unwrap();
        buffer.write_on(&stream, 6, &[8, 9]).unwrap();
        copy.copy_from_on(&stream, &buffer).unwrap();
        copy.read_on(&stream, 5, &mut read).unwrap();
    }
    stream.synchronize().unwrap();
    assert_eq!(read, [0x0303_0303, 8]);
    assert_eq!(copy.read().unwrap()[7], 9);
}

pub fn buffers_may_be_dropped_while_kernels_run(device: &Device) {
    let stream = device.stream().unwrap();
    let folder = folder();
    for tier in [Tier::Device, Tier::Pinned, Tier::Managed] {
        let buffer = device.buffer_on::<u32>(tier, 1024).unwrap();
        run(&stream, Grid::new(4, 32), Slow { out: buffer.global(), ticks: ticks(device), value: 1 });
        drop(buffer);
    }
    // SAFETY: nothing else accesses the file.
    let file = unsafe { map::<u32>(device, &folder.path().join("file"), 1024) };
    run(&stream, Grid::new(4, 32), Slow { out: file.global(), ticks: ticks(device), value: 1 });
    drop(file);
    drop(stream);
    device.synchronize().unwrap();
}

pub fn threads_share_a_device(device: &Device) {
    let shared = device.from_slice(&[10u64; 256]).unwrap();
    std::thread::scope(|scope| {
        for value in 0..4u32 {
            let (device, shared) = (device.clone(), &shared);
            scope.spawn(move || {
                let stream = device.stream().unwrap();
                let mine = device.zeroed::<u64>(256).unwrap();
                for _ in 0..=value {
                    run(
                        &stream,
                        Grid::for_items(256, 64),
                        Add { target: mine.global(), source: shared.global() },
                    );
                }
                stream.synchronize().unwrap();
                assert_eq!(mine.read().unwrap(), [u64::from(value + 1) * 10; 256]);
            });
        }
    });
    assert_eq!(shared.read().unwrap(), [10; 256]);
}

/// The first call of a thread may use a stream that another thread created.
pub fn threads_use_streams_of_others(device: &Device) {
    let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
    let first = std::thread::scope(|scope| scope.spawn(|| stream.record().unwrap()).join().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| other.wait(&first).unwrap());
        scope.spawn(|| first.synchronize().unwrap());
        scope.spawn(|| first.is_complete().unwrap());
        scope.spawn(|| stream.synchronize().unwrap());
    });
    std::thread::scope(|scope| scope.spawn(move || drop((first, stream, other))).join().unwrap());
}

pub fn devices_are_equal_to_themselves(device: &Device) {
    assert_eq!(*device, device.clone());
    assert_eq!(device.default_stream().device(), device);
    assert_ne!(*device, Device::emulator(Options::default()));
}

pub fn parts_are_borrowed(device: &Device) {
    let mut buffer = device.from_slice(&numbers(10)).unwrap();
    assert_eq!(buffer.slice(3..7).unwrap().slice(1..=2).unwrap().read().unwrap(), numbers(10)[4..6]);
    let (mut low, mut high) = buffer.split_at_mut(3).unwrap();
    low.fill_bytes(1).unwrap();
    high.slice_mut(5..).unwrap().copy_from(low.slice(..2).unwrap()).unwrap();
    assert!(matches!(high.write(&[0; 6]), Err(Error::Length { asked: 6, len: 7, .. })));
    assert!(matches!(high.slice(2..8), Err(Error::SliceRange { start: 2, end: 8, len: 7 })));
    let found = buffer.read().unwrap();
    assert_eq!(
        (&found[..3], &found[3..8], &found[8..]),
        (&[0x0101_0101; 3][..], &numbers(10)[3..8], &[0x0101_0101; 2][..])
    );
    let mut copy = device.zeroed::<u32>(4).unwrap();
    copy.copy_from(buffer.slice(5..9).unwrap()).unwrap();
    copy.copy_at(1, buffer.slice(..1).unwrap()).unwrap();
    assert_eq!(copy.read().unwrap(), [found[5], found[0], found[7], found[8]]);
}

pub fn kernels_write_parts(device: &Device) {
    let buffer = device.zeroed::<u32>(10).unwrap();
    let part = buffer.slice(3..8).unwrap();
    run(&device.default_stream(), Grid::for_items(5, 32), Fill { out: part.global(), value: 7 });
    assert_eq!(buffer.read().unwrap(), [0, 0, 0, 7, 7, 7, 7, 7, 0, 0]);
}

pub fn memory_of_others_is_wrapped(device: &Device) {
    let owner = device.from_slice(&numbers(6)).unwrap();
    // SAFETY: the owner outlives the wrapped buffer and is not accessed meanwhile.
    let mut wrapped = unsafe { device.wrap_memory(owner.pointer().wrapping_add(1), 4) }.unwrap();
    assert_eq!((wrapped.len(), wrapped.device()), (4, device));
    assert_eq!(wrapped.read().unwrap(), numbers(6)[1..5]);
    wrapped.write_at(1, &[5]).unwrap();
    let part = wrapped.slice(2..).unwrap();
    run(&device.default_stream(), Grid::new(1, 32), Fill { out: part.global(), value: 9 });
    drop(wrapped);
    let all = numbers(6);
    assert_eq!(owner.read().unwrap(), [all[0], all[1], 5, 9, 9, all[5]], "the owner keeps its memory");
    // SAFETY: nothing is accessed.
    assert!(unsafe { device.wrap_memory::<u32>(std::ptr::null_mut(), 0) }.unwrap().is_empty());
}

pub fn memory_that_cannot_be_wrapped_is_refused(device: &Device) {
    let owner = device.zeroed::<u64>(6).unwrap();
    let askew = owner.pointer().wrapping_byte_add(4);
    let cases = [
        (std::ptr::null_mut(), 1, "null"),
        (askew, 1, "aligned to 8"),
        (owner.pointer(), 1 << 20, "48 bytes"),
    ];
    for (pointer, len, part) in cases {
        // SAFETY: refused.
        let error = unsafe { device.wrap_memory(pointer, len) }.unwrap_err();
        assert!(matches!(error, Error::ForeignMemory { .. }), "{error}");
        expect_parts(&error, &[part]);
    }
    // SAFETY: refused.
    let error = unsafe { device.wrap_memory(owner.pointer(), usize::MAX) }.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
}

pub fn streams_of_others_are_wrapped(device: &Device) {
    let own = device.stream().unwrap();
    let buffer = device.zeroed::<u32>(1).unwrap();
    // SAFETY: `own` outlives the wrapped stream.
    let wrapped = unsafe { device.wrap_stream(own.raw_handle()) }.unwrap();
    assert_eq!((wrapped.raw_handle(), wrapped.device()), (own.raw_handle(), device));
    run(&wrapped, Grid::new(1, 1), Slow { out: buffer.global(), ticks: ticks(device), value: 6 });
    own.wait(&wrapped.record().unwrap()).unwrap();
    drop(wrapped);
    own.synchronize().unwrap();
    assert_eq!(buffer.read().unwrap(), [6]);
    if device.is_emulator() {
        // SAFETY: refused.
        let error = unsafe { device.wrap_stream(8 as *mut _) }.unwrap_err();
        assert!(matches!(error, Error::ForeignStream { .. }), "{error}");
    }
}

pub fn staging_moves_data(device: &Device) {
    let mut layout = Layout::default();
    let (one, other) = (layout.column::<u64>(1000).unwrap(), layout.column::<u64>(1000).unwrap());
    let expected: Vec<u64> = (0..1000).map(|n| 3 + n).collect();
    for reach in [Reach::Mapped, Reach::Copied] {
        let mut staging = device.staging(layout.byte_len(), reach).unwrap();
        staging.host(one).unwrap().fill(3);
        staging.host(other).unwrap().iter_mut().zip(0..).for_each(|(word, n)| *word = n);
        staging.upload(one).unwrap();
        staging.upload(other).unwrap();
        let (target, source) = (staging.global(one).unwrap(), staging.global(other).unwrap());
        run(staging.stream(), Grid::for_items(1000, 128), Add { target, source });
        staging.download(one).unwrap();
        assert_eq!(staging.read(one).unwrap(), expected);
        staging.fill(other, 1).unwrap();
        staging.download(other).unwrap();
        assert_eq!(staging.read(other).unwrap(), [0x0101_0101_0101_0101; 1000]);
        let own = device.zeroed::<u64>(1200).unwrap();
        // SAFETY: the buffer lives until the wait below, and nothing else uses it.
        unsafe { staging.copy_to(one, own.global()).unwrap() };
        staging.wait().unwrap();
        assert_eq!(own.read().unwrap()[..1000], expected);
        staging.host(one).unwrap().fill(0);
        // SAFETY: as above.
        unsafe { staging.copy_from(own.global(), one).unwrap() };
        assert_eq!(staging.host(one).unwrap(), expected);
    }
}

pub fn staging_copies_pinned_elements(device: &Device) {
    let mut pinned = device.buffer_on::<u32>(Tier::Pinned, 300).unwrap();
    pinned.write(&numbers(300)).unwrap();
    let mut layout = Layout::default();
    let words = layout.column::<u32>(100).unwrap();
    let mut staging = device.staging(layout.byte_len(), Reach::Copied).unwrap();
    let elements = pinned.as_mut_slice().unwrap();
    assert!(device.is_pinned(elements) && device.is_pinned(&elements[299..]) && !device.is_pinned(&[1u32]));
    let after = elements.as_ptr().wrapping_add(200);
    // SAFETY: within the buffer; the calls wait below.
    unsafe {
        staging.upload_from(&elements[..100], words).unwrap();
        staging.download_to(words, after.cast_mut()).unwrap();
    }
    staging.wait().unwrap();
    assert_eq!(elements[200..], numbers(100));
}

pub fn staging_is_kept_and_released(device: &Device) {
    if !device.is_emulator() {
        return; // other tests may share the device
    }
    device.release_staging();
    assert_eq!(device.staging_usage(), (0, 0));
    let held: Vec<_> = (0..20).map(|_| device.staging(1, Reach::Mapped).unwrap()).collect();
    let size = held[0].byte_len();
    assert_eq!(device.staging_usage(), (20 * size, 0));
    drop(held);
    assert_eq!(device.staging_usage(), (8 * size, 0), "as many as are kept");
    let large = device.staging(10 * size, Reach::Mapped).unwrap();
    assert_eq!(device.staging_usage().0, 7 * size + large.byte_len(), "in place of a small one");
    drop(large);
    let copied = device.staging(size, Reach::Copied).unwrap();
    assert_eq!(device.staging_usage().1, copied.byte_len());
    device.release_staging();
    assert_eq!(device.staging_usage(), (copied.byte_len(), copied.byte_len()), "in use");
    drop(copied);
    assert_ne!(device.staging_usage(), (0, 0));
    device.release_staging();
    assert_eq!(device.staging_usage(), (0, 0));
}

pub fn columns_that_do_not_fit_are_errors(device: &Device) {
    let mut layout = Layout::default();
    assert!(matches!(layout.column::<u64>(usize::MAX), Err(Error::TooLarge { .. })));
    assert!(matches!(layout.column::<u8>(usize::MAX), Err(Error::TooLarge { .. })));
    assert!(matches!(device.staging(usize::MAX, Reach::Copied), Err(Error::TooLarge { .. })));
    let column = layout.column::<u32>(1 << 20).unwrap();
    let mut staging = device.staging(100, Reach::Copied).unwrap();
    assert!(matches!(staging.host(column), Err(Error::Length { what: "host", .. })));
    assert!(matches!(staging.read(column), Err(Error::Length { what: "read", .. })));
    assert!(matches!(staging.global(column), Err(Error::Length { what: "global", .. })));
    for result in [staging.upload(column), staging.download(column), staging.fill(column, 1)] {
        assert!(matches!(result, Err(Error::Length { .. })));
    }
    let (short, own) = (Layout::default().column::<u32>(3).unwrap(), device.zeroed::<u32>(2).unwrap());
    // SAFETY: nothing is copied.
    let results = unsafe {
        [
            staging.copy_to(short, own.global()),
            staging.copy_from(own.global(), short),
            staging.upload_from(&[1], short),
            staging.download_to(column, std::ptr::null_mut()),
        ]
    };
    assert!(results.iter().all(|result| matches!(result, Err(Error::Length { .. }))), "{results:?}");
    let none = Layout::default().column::<u32>(0).unwrap();
    staging.upload(none).unwrap();
    staging.fill(none, 1).unwrap();
    assert!(staging.host(none).unwrap().is_empty());
}

pub fn staging_comes_after_submitted_work(device: &Device) {
    let mut done = device.zeroed::<u32>(1).unwrap();
    let stream = device.stream().unwrap();
    run(&stream, Grid::new(1, 1), Slow { out: done.global(), ticks: ticks(device), value: 7 });
    let word = Layout::default().column::<u32>(1).unwrap();
    let mut staging = device.staging(4, Reach::Copied).unwrap();
    // SAFETY: the kernel has ended; the copy ends before the buffer is used again.
    unsafe { staging.copy_from(done.global(), word).unwrap() };
    assert_eq!(staging.read(word).unwrap(), [7]);
    drop(staging);
    done.fill_bytes(0).unwrap();
}

pub fn copies_between_devices_arrive(device: &Device) {
    let other = if device.is_emulator() { Device::emulator(Default::default()) } else { device.clone() };
    device.make_current().unwrap();
    assert!(device.enable_peer(&other).unwrap() && other.enable_peer(device).unwrap());
    let (words, copy) = (device.from_slice(&[1u32, 2, 3]).unwrap(), other.filled::<u32>(4, 0).unwrap());
    for stream in [device.stream().unwrap(), other.stream().unwrap()] {
        // SAFETY: both buffers live until the copies have been executed, and nothing else accesses them.
        unsafe {
            stream.copy_peer(copy.slice(1..3).unwrap(), words.slice(1..).unwrap()).unwrap();
            stream.copy_peer(copy.slice(3..3).unwrap(), words.slice(..0).unwrap()).unwrap();
            let error = stream.copy_peer(copy.slice(..).unwrap(), words.slice(..).unwrap()).unwrap_err();
            assert!(matches!(error, Error::Length { asked: 3, len: 4, .. }), "{error}");
        }
        other.default_stream().wait(&stream.record().unwrap()).unwrap();
        assert_eq!(copy.read().unwrap(), [0, 2, 3, 0]);
    }
    let stranger = Device::emulator(Default::default());
    // SAFETY: refused.
    let refused = unsafe {
        stranger.stream().unwrap().copy_peer(copy.slice(..3).unwrap(), words.slice(..).unwrap()).unwrap_err()
    };
    assert!(matches!(refused, Error::PeerCopy { .. }), "{refused}");
    assert_eq!(device.enable_peer(&stranger).is_ok(), device.is_emulator());
}

pub fn slices_are_cast(device: &Device) {
    let words = device.from_slice(&[1u64, 2 << 32, 3]).unwrap();
    let all = words.slice(..).unwrap();
    assert_eq!(all.cast::<u32>().unwrap().read().unwrap(), [1, 0, 0, 2, 3, 0]);
    assert_eq!(all.slice(1..).unwrap().cast::<[u32; 4]>().unwrap().read().unwrap(), [[0, 2, 3, 0]]);
    for error in [
        all.cast::<[u32; 4]>().unwrap_err(),
        all.cast::<()>().unwrap_err(),
        all.cast::<u32>().unwrap().slice(1..3).unwrap().cast::<u64>().unwrap_err(),
    ] {
        assert!(matches!(error, Error::Cast { .. }), "{error}");
    }
}
