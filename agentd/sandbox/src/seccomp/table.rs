//! Which system calls are refused, how, and why. Everything not named here is allowed.

use super::rule::{Action, ArgCheck, Context, Reason, Rule};
use crate::policy::{NetMode, SyscallBase, Tier};

const EPERM: u16 = 1;
const EACCES: u16 = 13;
const ENOSYS: u16 = 38;
const EAFNOSUPPORT: u16 = 97;
const EOPNOTSUPP: u16 = 95;
/// `EPROTONOSUPPORT`, for multipath TCP: it reaches listeners that a TCP rule guards.
pub(super) const PROTOCOL_REFUSED: u16 = 93;
/// Protocol number of multipath TCP.
pub(super) const MPTCP: u32 = 262;
/// Routing netlink, the one protocol that ordinary programs use.
pub(super) const NETLINK_ROUTE: u32 = 0;
/// `AF_INET`, `AF_INET6` and `AF_NETLINK`: the families whose protocol is looked at.
pub(super) const INET: u32 = 2;
pub(super) const INET6: u32 = 10;
pub(super) const NETLINK: u32 = 16;
const UNIX: u32 = 1;

/// `CLONE_NEW*` of cgroup, uts, ipc, user, pid, net, mount, time.
const NEW_NAMESPACES: u32 = 0x7e02_0080;
/// Set-user-id and set-group-id.
pub(super) const SET_ID: u32 = 0o6000;
/// `O_CREAT` and the bit that tells `O_TMPFILE` from `O_DIRECTORY`.
pub(super) const CREATES: u32 = 0o100 | 0o20_000_000;
const MSG_FASTOPEN: u32 = 0x2000_0000;
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;
/// Kinds of target of `setpriority` and `ioprio_set`: every process of a user.
pub(super) const PRIO_USER: u32 = 2;
pub(super) const IOPRIO_WHO_USER: u32 = 3;

macro_rules! refused {
    ($reason:expr, $errno:expr, [$($name:ident),* $(,)?]) => {
        [$((stringify!($name), libc::$name, $errno, $reason)),*]
    };
}

/// Every rule of a context, sorted by number.
#[must_use]
pub fn rules(context: Context) -> Vec<Rule> {
    let mut rules: Vec<Rule> = always_refused()
        .into_iter()
        .map(|(name, number, errno, reason)| rule((name, number), ArgCheck::Always, errno, reason))
        .collect();
    rules.extend(by_argument(context));
    if context.base == SyscallBase::Strict {
        rules.extend(strict_only());
    }
    rules.sort_by_key(|rule| rule.number);
    rules
}

/// The rules of agentd's own front end: a command's, and no program is ever started.
#[must_use]
pub fn front_end_rules() -> Vec<Rule> {
    let context = Context {
        base: SyscallBase::Dev,
        tier: Tier::HostRoot,
        net: NetMode::Host,
    };
    let mut all = rules(context);
    for (name, number, errno, reason) in
        refused!(Reason::PathlessExecution, EPERM, [SYS_execve, SYS_execveat])
    {
        all.push(rule((name, number), ArgCheck::Always, errno, reason));
    }
    all.sort_by_key(|rule| rule.number);
    all
}

fn rule(
    name_and_number: (&'static str, libc::c_long),
    check: ArgCheck,
    errno: u16,
    reason: Reason,
) -> Rule {
    let (name, number) = name_and_number;
    Rule {
        name: name.strip_prefix("SYS_").unwrap_or(name),
        number: u32::try_from(number).unwrap_or(u32::MAX),
        check,
        action: Action::Errno(errno),
        reason,
    }
}

type Refused = (&'static str, libc::c_long, u16, Reason);

fn always_refused() -> Vec<Refused> {
    let mut all = around_the_jail();
    all.extend(around_the_kernel());
    all.extend(administration());
    all.extend(architecture_refused());
    all
}

#[rustfmt::skip]
fn around_the_jail() -> Vec<Refused> {
    let mut all = Vec::new();
    all.extend(refused!(Reason::Namespaces, EPERM, [
        SYS_chroot, SYS_fsconfig, SYS_fsmount, SYS_fsopen, SYS_fspick, SYS_mount,
        SYS_mount_setattr, SYS_move_mount, SYS_open_tree, SYS_pivot_root, SYS_setns, SYS_umount2,
        SYS_unshare, SYS_name_to_handle_at, SYS_open_by_handle_at,
    ]));
    // ENOSYS, so that C libraries fall back to `clone`, whose flags a filter can see.
    all.extend(refused!(Reason::Namespaces, ENOSYS, [SYS_clone3]));
    all.extend(refused!(Reason::OtherProcesses, EPERM, [
        SYS_kcmp, SYS_pidfd_getfd, SYS_process_madvise, SYS_process_vm_readv,
        SYS_process_vm_writev, SYS_ptrace, SYS_migrate_pages, SYS_move_pages,
    ]));
    all.extend(refused!(Reason::DenialRecords, ENOSYS, [
        SYS_landlock_add_rule, SYS_landlock_create_ruleset, SYS_landlock_restrict_self,
    ]));
    // Younger than the C library's names; numbers above 423 are the same on every architecture.
    all.push(("open_tree_attr", 467, EPERM, Reason::Namespaces));
    all
}

#[rustfmt::skip]
fn around_the_kernel() -> Vec<Refused> {
    let mut all = Vec::new();
    all.extend(refused!(Reason::Kernel, EPERM, [
        SYS_delete_module, SYS_finit_module, SYS_init_module, SYS_kexec_load,
    ]));
    all.extend(refused!(Reason::AttackSurface, EPERM, [
        SYS_add_key, SYS_bpf, SYS_fanotify_init, SYS_fanotify_mark, SYS_io_uring_enter,
        SYS_io_uring_register, SYS_io_uring_setup, SYS_keyctl, SYS_lookup_dcookie,
        SYS_perf_event_open, SYS_request_key, SYS_userfaultfd, SYS_vmsplice,
    ]));
    all.push(("lsm_set_self_attr", 460, EPERM, Reason::AttackSurface));
    all
}

#[rustfmt::skip]
fn administration() -> Vec<Refused> {
    refused!(Reason::Administration, EPERM, [
        SYS_acct, SYS_adjtimex, SYS_clock_adjtime, SYS_clock_settime, SYS_nfsservctl, SYS_quotactl,
        SYS_quotactl_fd, SYS_reboot, SYS_setdomainname, SYS_sethostname, SYS_settimeofday,
        SYS_swapoff, SYS_swapon, SYS_syslog, SYS_vhangup,
    ])
    .to_vec()
}

#[cfg(target_arch = "x86_64")]
fn architecture_refused() -> Vec<Refused> {
    let mut all = Vec::new();
    all.extend(refused!(
        Reason::AttackSurface,
        EPERM,
        [
            SYS_ioperm,
            SYS_iopl,
            SYS_modify_ldt,
            SYS__sysctl,
            SYS_uselib,
            SYS_ustat,
            SYS_sysfs,
        ]
    ));
    all.extend(refused!(Reason::Kernel, EPERM, [SYS_kexec_file_load,]));
    all
}

#[cfg(not(target_arch = "x86_64"))]
fn architecture_refused() -> Vec<Refused> {
    Vec::new()
}

fn by_argument(context: Context) -> Vec<Rule> {
    let mut all = by_simple_argument(context);
    all.extend(set_id());
    all.extend(everybody_at_once(context.tier));
    if context.tier == Tier::Nested {
        all.extend(others());
    }
    all
}

/// Pid -1 means every process of the user, agentd and the person's own among them, where there is no pid
/// namespace. Landlock stops that since ABI 6; here it never is what was meant.
fn everybody_at_once(tier: Tier) -> Option<Rule> {
    let check = ArgCheck::OneOf {
        arg: 0,
        values: vec![u32::MAX],
    };
    match tier {
        Tier::Nested => Some(rule(
            ("kill", libc::SYS_kill),
            check,
            EPERM,
            Reason::OtherProcesses,
        )),
        Tier::Rootless | Tier::HostRoot => None,
    }
}

/// Without a pid namespace the jail's init, agentd and everything else of the user can be named, and the kernel
/// lets any process of the same user change their limits and scheduling: with no open files left, nobody can
/// sweep. `kill` and the like are Landlock's business.
fn others() -> Vec<Rule> {
    let first = |name, number| {
        let values = vec![0];
        let check = ArgCheck::NoneOf { arg: 0, values };
        rule((name, number), check, EPERM, Reason::OtherProcesses)
    };
    let second = |name, number, user| {
        let check = ArgCheck::NotSelf {
            kind: 0,
            which: 1,
            user,
        };
        rule((name, number), check, EPERM, Reason::OtherProcesses)
    };
    vec![
        first("prlimit64", libc::SYS_prlimit64),
        first("sched_setaffinity", libc::SYS_sched_setaffinity),
        first("sched_setattr", libc::SYS_sched_setattr),
        first("sched_setparam", libc::SYS_sched_setparam),
        first("sched_setscheduler", libc::SYS_sched_setscheduler),
        second("ioprio_set", libc::SYS_ioprio_set, IOPRIO_WHO_USER),
        second("setpriority", libc::SYS_setpriority, PRIO_USER),
    ]
}

/// A jail without set-user-id programs can still leave one behind in the workspace, owned on disk by the
/// person. `openat2` takes its mode by pointer, which no filter can follow: ENOSYS makes programs fall
/// back to `openat`.
fn set_id() -> Vec<Rule> {
    let mode = |name, number, arg| {
        let check = ArgCheck::AnyBit { arg, mask: SET_ID };
        rule((name, number), check, EPERM, Reason::SetId)
    };
    let create = |name, number, flags, mode| {
        let check = ArgCheck::CreateMode { flags, mode };
        rule((name, number), check, EPERM, Reason::SetId)
    };
    let mut all = vec![
        mode("fchmod", libc::SYS_fchmod, 1),
        mode("fchmodat", libc::SYS_fchmodat, 2),
        mode("fchmodat2", 452, 2),
        mode("mknodat", libc::SYS_mknodat, 2),
        create("openat", libc::SYS_openat, 2, 3),
        rule(
            ("openat2", libc::SYS_openat2),
            ArgCheck::Always,
            ENOSYS,
            Reason::SetId,
        ),
    ];
    #[cfg(target_arch = "x86_64")]
    all.extend([
        mode("chmod", libc::SYS_chmod, 1),
        mode("mknod", libc::SYS_mknod, 1),
        mode("creat", libc::SYS_creat, 1),
        create("open", libc::SYS_open, 1, 2),
    ]);
    all
}

fn by_simple_argument(context: Context) -> Vec<Rule> {
    let (families, refused) = socket_families(context);
    vec![
        rule(
            ("clone", libc::SYS_clone),
            ArgCheck::AnyBit {
                arg: 0,
                mask: NEW_NAMESPACES,
            },
            EPERM,
            Reason::Namespaces,
        ),
        rule(
            ("ioctl", libc::SYS_ioctl),
            ArgCheck::OneOf {
                arg: 1,
                values: vec![TIOCSTI, TIOCLINUX],
            },
            EPERM,
            Reason::Terminal,
        ),
        rule(
            ("socket", libc::SYS_socket),
            ArgCheck::Socket { families, refused },
            refused,
            Reason::Network,
        ),
        // The socketpair of any family but Unix would make a socket that `socket` refuses.
        rule(
            ("socketpair", libc::SYS_socketpair),
            ArgCheck::NoneOf {
                arg: 0,
                values: vec![UNIX],
            },
            EAFNOSUPPORT,
            Reason::Network,
        ),
        fast_open(("sendto", libc::SYS_sendto), 3),
        fast_open(("sendmsg", libc::SYS_sendmsg), 2),
        fast_open(("sendmmsg", libc::SYS_sendmmsg), 3),
    ]
}

/// TCP Fast Open connects without the check that `connect` makes.
fn fast_open(name_and_number: (&'static str, libc::c_long), arg: u8) -> Rule {
    rule(
        name_and_number,
        ArgCheck::AnyBit {
            arg,
            mask: MSG_FASTOPEN,
        },
        EOPNOTSUPP,
        Reason::Network,
    )
}

fn socket_families(context: Context) -> (Vec<u32>, u16) {
    match (context.net, context.tier) {
        // Without a network namespace nothing else stops UDP, and nothing at all stops a connection to
        // a Unix socket of the host (before Landlock ABI 9): no sockets but socketpairs.
        (NetMode::None, Tier::Nested) => (Vec::new(), EACCES),
        (NetMode::None, Tier::Rootless | Tier::HostRoot) | (NetMode::Host, _) => {
            (vec![UNIX, INET, INET6, NETLINK], EAFNOSUPPORT)
        }
    }
}

fn strict_only() -> Vec<Rule> {
    let mut all: Vec<Rule> = refused!(
        Reason::PathlessExecution,
        EPERM,
        [SYS_execveat, SYS_memfd_create, SYS_memfd_secret,]
    )
    .into_iter()
    .map(|(name, number, errno, reason)| rule((name, number), ArgCheck::Always, errno, reason))
    .collect();
    all.push(rule(
        ("personality", libc::SYS_personality),
        ArgCheck::NoneOf {
            arg: 0,
            values: vec![0, u32::MAX],
        },
        EPERM,
        Reason::AttackSurface,
    ));
    all
}
