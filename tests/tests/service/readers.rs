//! A reader that takes nothing loses its stream, and neither the command nor any other reader anything.

use std::time::Duration;

use agentd_proto::v1::{self, admin_service_client::AdminServiceClient};
use agentd_tests::harness::{Transcript, in_every_mode, script};
use tonic::Code;

use crate::site::{PROMPT, Site, attach, carries, read_all};

const BYTES: u64 = 60_000_000;

/// What memory may grow by: the windows of two connections, and nothing that grows with the output.
const GROWTH_KIB: u64 = 24 * 1024;

/// Bytes that one who reads all the time may miss for want of a processor, where others share the machine.
const MISSED: u64 = BYTES / 4;

#[test]
fn a_slow_reader_is_dropped_and_continues_where_it_was_while_another_gets_everything() {
    in_every_mode(|mode| {
        let site = &Site::with(mode, "slow-reader-timeout = '1s'\n");
        site.call(|api| async move {
            // Whatever memory a flood takes once is taken.
            let warm = format!("yes | head -c {BYTES}");
            let warm = crate::site::run(&api, script(&site.world, "warm", &warm)).await;
            assert_eq!(warm.stdout.offset, BYTES);
            drop(warm);
            let before = site.daemon.peak_memory_kib();
            let text = format!("yes | head -c {BYTES}; until [ -e go ]; do sleep 0.1; done");
            api.start(script(&site.world, "flood", &text))
                .await
                .expect("it starts");
            // On a connection of its own: flow control is per connection, too.
            let slow = site.dial().await;
            let mut held = attach(&slow, "flood").await;
            let other = attach(&site.dial().await, "flood").await;
            let reads = tokio::spawn(read_all(other));
            // It takes nothing for longer than it may; the others go on.
            let admin = |api: &agentd_tests::harness::Api| AdminServiceClient::new(api.channel());
            let end = tokio::time::Instant::now() + PROMPT * 2;
            loop {
                let stats = admin(&api).get_stats(v1::GetStatsRequest {}).await;
                if stats.expect("an answer").get_ref().slow_readers == 1 {
                    break;
                }
                assert!(tokio::time::Instant::now() < end, "it is never dropped");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let mut told = Transcript::default();
            let dropped = loop {
                match held.message().await {
                    Ok(Some(message)) => told
                        .take(message.event.expect("an event"))
                        .expect("the contract"),
                    Ok(None) => panic!("the stream looks complete"),
                    Err(status) => break status,
                }
            };
            assert_eq!(dropped.code(), Code::Aborted, "{dropped:?}");
            assert!(
                carries(&dropped, "SLOW_CONSUMER") && carries(&dropped, "last_seq"),
                "{dropped:?}"
            );
            site.world.file("go", "");
            let whole = reads.await.expect("it reads on");
            assert_eq!(whole.stdout.offset, BYTES);
            let missed = whole.stdout.lost;
            assert!(
                missed < MISSED,
                "{mode:?}: {missed} bytes for another's sake"
            );
            let grown = site.daemon.peak_memory_kib() - before;
            assert!(grown < GROWTH_KIB, "{mode:?}: {grown} KiB more");
            // It comes back after its last event: an exact gap, and the rest.
            let request = v1::AttachRequest {
                exec_id: "flood".to_owned(),
                after_seq: told.last_seq,
                strict: false,
            };
            let mut stream = slow
                .execs()
                .attach(request)
                .await
                .expect("known")
                .into_inner();
            while let Some(message) = stream.message().await.expect("the stream holds") {
                told.take(message.event.expect("an event"))
                    .expect("the contract");
            }
            assert_eq!(told.stdout.offset, BYTES);
            // The gap is what it did not take, to the byte.
            assert!(told.gaps >= 1 && told.stdout.lost > 0, "{}", told.gaps);
            assert_eq!(told.stdout.received() + told.stdout.lost, BYTES);
            assert_eq!(told.exited, whole.exited);
        });
    });
}
