//! What is kept of output, and what a bad disk costs.

use std::{os::fd::OwnedFd, time::Duration};

use nix::sys::memfd::{MFdFlags, memfd_create};
use prost::bytes::BytesMut;

use super::*;
fn memory_file() -> File {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    File::from(memfd_create("kept", flags).unwrap())
}

/// Pushes as the driver does; returns everything that was pushed.
async fn print(log: &mut Log, keeper: &mut Keeper, sizes: &[usize]) -> Vec<u8> {
    let mut all = Vec::new();
    for (index, size) in sizes.iter().enumerate() {
        let stream = match index % 3 {
            0 => OutputStream::Stderr,
            _ => OutputStream::Stdout,
        };
        let byte = u8::try_from(index % 251).unwrap();
        let data = BytesMut::from(vec![byte; *size].as_slice());
        all.extend_from_slice(&data);
        keeper.before_push(log, stream, *size);
        while keeper.is_full() {
            keeper.work().await;
        }
        log.push(stream, data);
    }
    keeper.follow(log);
    all
}

#[tokio::test]
async fn what_fits_into_the_record_is_never_written() {
    let mut log = Log::default();
    let file = memory_file();
    let mut keeper = Keeper::new(file.try_clone().unwrap(), "/o".to_owned(), 1 << 20);
    print(&mut log, &mut keeper, &[60_000; 20]).await;
    assert!(keeper.finish(log.written().total()).await.is_none());
    assert_eq!(file.metadata().unwrap().len(), 0);
}

#[tokio::test]
async fn the_file_holds_every_byte_from_the_first_in_order_of_arrival_up_to_its_cap() {
    for (cap, sizes) in [
        (u64::MAX, vec![65_536; 100]),
        (u64::MAX, vec![1; 30_000]),
        (u64::MAX, (0..400).map(|i| i * 100).collect()),
        (1_000_001, vec![65_536; 100]),
    ] {
        let mut log = Log::default();
        let file = memory_file();
        let mut keeper = Keeper::new(file.try_clone().unwrap(), "/o".to_owned(), cap);
        let all = print(&mut log, &mut keeper, &sizes).await;
        let kept = Arc::clone(keeper.kept());
        let total = log.written().total();
        let (told, note) = keeper.finish(total).await.unwrap();
        assert_eq!(note, None);
        assert_eq!(told.bytes, total.min(cap));
        assert_eq!(told.missing, total - told.bytes);
        let read = kept.read_at(0, usize::MAX).unwrap();
        assert!(all.starts_with(&read), "the same bytes");
        assert_eq!(u64::try_from(read.len()).unwrap(), told.bytes);
        assert_eq!(kept.read_at(5, 7).unwrap(), all[5..12]);
    }
}

#[tokio::test]
async fn commands_share_the_room_of_their_session_and_are_told_when_it_is_used_up() {
    let room = OutputRoom::new(5_000_000);
    for (expected, is_told) in [(3_932_160, false), (1_067_840, true), (0, true)] {
        let mut log = Log::default();
        let keeper = Keeper::new(memory_file(), "/o".to_owned(), u64::MAX);
        let mut keeper = keeper.within(room.clone());
        print(&mut log, &mut keeper, &[65_536; 60]).await;
        let total = log.written().total();
        let (told, note) = keeper.finish(total).await.unwrap();
        assert_eq!((told.bytes, told.missing), (expected, total - expected));
        assert_eq!(note.is_some_and(|note| note.ends_with(FULL)), is_told);
    }
}

#[tokio::test]
async fn a_broken_disk_is_told_and_counted_and_nothing_else() {
    use nix::fcntl::{FcntlArg, SealFlag, fcntl};
    let file = memory_file();
    file.set_len(100_000).unwrap();
    let fd: OwnedFd = file.try_clone().unwrap().into();
    fcntl(&fd, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_GROW)).unwrap();
    let mut log = Log::default();
    let mut keeper = Keeper::new(file, "/o".to_owned(), u64::MAX);
    print(&mut log, &mut keeper, &[65_536; 60]).await;
    let total = log.written().total();
    let (told, note) = keeper.finish(total).await.unwrap();
    assert!(told.bytes <= 100_000, "{told:?}");
    assert_eq!(told.bytes + told.missing, total);
    assert!(note.unwrap().starts_with("output store: only the first"));
}

#[tokio::test]
async fn a_disk_that_hangs_costs_the_rest_of_the_file_and_holds_up_no_reader() {
    let disk = Disk::with_patience(Duration::from_millis(200));
    let hung = crate::exec::disk::tests::hang(&disk);
    tokio::task::yield_now().await;
    let mut log = Log::default();
    let file = memory_file();
    let mut keeper = Keeper::new(file.try_clone().unwrap(), "/o".to_owned(), u64::MAX).on(&disk);
    print(&mut log, &mut keeper, &[65_536; 100]).await;
    let (told, note) = keeper.finish(log.written().total()).await.unwrap();
    assert_eq!((told.bytes, told.missing), (0, 6_553_600));
    assert!(note.unwrap().ends_with("the disk is too slow"));
    let registry = crate::exec::Registry::new(1, "boot").with_disk(&disk);
    let spec = crate::launcher_link::fake::script_spec("a", "true");
    let exec = registry.admit(&spec).unwrap().exec;
    let kept = KeptFile {
        file: file.try_clone().unwrap(),
        bytes: AtomicU64::new(5),
        promised: AtomicU64::new(5),
        changed: Notify::new(),
    };
    file.write_at(b"12345", 0).unwrap();
    exec.set_kept(&Arc::new(kept));
    let read = exec.read_output(0, 5, Duration::from_millis(300));
    let read = tokio::time::timeout(Duration::from_secs(5), read).await;
    assert!(read.unwrap().data.is_empty());
    drop(hung);
    disk.run(|| ()).await.unwrap();
    assert_eq!(
        file.metadata().unwrap().len(),
        5,
        "nothing is written afterwards"
    );
    let piece = exec.read_output(1, 5, Duration::ZERO).await;
    assert_eq!(&piece.data[..], b"2345");
}
