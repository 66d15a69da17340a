//! Sequenced-packet sockets and file descriptors in messages.

use std::{
    mem,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    sys::socket::{AddressFamily, SockFlag, SockType, socketpair},
};

/// Bytes of control data for up to 8 descriptors, aligned as `cmsghdr` wants it.
#[repr(C, align(8))]
struct ControlBuffer([u8; 64]);

const MAX_CONTROL_FDS: usize = 8;

/// A connected pair, close-on-exec.
pub(crate) fn seqpacket_pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_CLOEXEC,
    )
}

/// Sets `O_NONBLOCK`.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).map(drop)
}

/// Sends one datagram with up to 8 descriptors. `EINVAL` when there are more.
pub(crate) fn send_with_fds(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    if fds.len() > MAX_CONTROL_FDS {
        return Err(Errno::EINVAL);
    }
    let mut control = ControlBuffer([0; 64]);
    let mut vector = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut header = empty_header();
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    if !fds.is_empty() {
        put_fds(&mut control, &mut header, fds);
    }
    // SAFETY: `header` points to `vector` and `control`, both alive until the call returns; `vector`
    // describes `bytes`, which the kernel only reads; the descriptor is open by `BorrowedFd`.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
    Errno::result(sent).map(drop)
}

/// A datagram that was received.
#[derive(Debug)]
pub(crate) struct Datagram {
    /// Bytes of it; 0 at the end of the conversation.
    pub(crate) length: usize,
    /// The descriptors beside it, close-on-exec; none when some are missing.
    pub(crate) fds: Vec<OwnedFd>,
    /// There were more descriptors than this process may still open, or than one message holds.
    pub(crate) fds_lost: bool,
}

/// Receives one datagram into `buffer`. Allocates the list of descriptors. A datagram larger than the
/// buffer is `EMSGSIZE`.
pub(crate) fn recv_with_fds(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Datagram, Errno> {
    let mut control = ControlBuffer([0; 64]);
    let mut vector = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut header = empty_header();
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len();
    // SAFETY: `header` points to `vector` and `control`, both alive and writable until the call
    // returns; `vector` describes exactly `buffer`; the descriptor is open by `BorrowedFd`.
    let received =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
    let received = Errno::result(received)?;
    let mut fds = take_fds(&header);
    if header.msg_flags & libc::MSG_TRUNC != 0 {
        return Err(Errno::EMSGSIZE);
    }
    let fds_lost = header.msg_flags & libc::MSG_CTRUNC != 0;
    if fds_lost {
        // Which ones are missing is not told.
        fds.clear();
    }
    Ok(Datagram {
        length: usize::try_from(received).unwrap_or(0),
        fds,
        fds_lost,
    })
}

fn empty_header() -> libc::msghdr {
    // SAFETY: `msghdr` is a C struct of integers and pointers for which all zeroes is a valid value.
    unsafe { mem::zeroed() }
}

fn put_fds(control: &mut ControlBuffer, header: &mut libc::msghdr, fds: &[BorrowedFd<'_>]) {
    let payload = u32::try_from(size_of_val(fds)).unwrap_or(0);
    header.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: pure arithmetic on a length.
    header.msg_controllen = unsafe { libc::CMSG_SPACE(payload) } as usize;
    // SAFETY: `msg_control` and `msg_controllen` describe a buffer large enough for one header.
    let first = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: pure arithmetic on a length.
    let length = unsafe { libc::CMSG_LEN(payload) } as usize;
    let value = libc::cmsghdr {
        cmsg_len: length,
        cmsg_level: libc::SOL_SOCKET,
        cmsg_type: libc::SCM_RIGHTS,
    };
    // SAFETY: `first` points into `control`, which is aligned for a `cmsghdr` and large enough.
    unsafe { first.write(value) };
    // SAFETY: `first` was just initialised; its data lies inside `control`.
    let data = unsafe { libc::CMSG_DATA(first) };
    // SAFETY: `BorrowedFd` is a transparent `RawFd`; `CMSG_SPACE(payload)` bytes were reserved for
    // `fds.len()` of them (at most 8, checked by the caller); source and target do not overlap.
    unsafe { ptr::copy_nonoverlapping(fds.as_ptr().cast::<u8>(), data, payload as usize) };
}

fn take_fds(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut fds = Vec::new();
    // SAFETY: the kernel filled `msg_control` and `msg_controllen`; the buffer is still alive.
    let mut current = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !current.is_null() {
        // SAFETY: `current` is not null and points to a header inside the control buffer.
        let entry = unsafe { current.read() };
        if entry.cmsg_level == libc::SOL_SOCKET && entry.cmsg_type == libc::SCM_RIGHTS {
            // SAFETY: pure arithmetic on a length.
            let head = unsafe { libc::CMSG_LEN(0) } as usize;
            let count = entry
                .cmsg_len
                .saturating_sub(head)
                .div_euclid(size_of::<i32>());
            // SAFETY: `current` points to a header inside the control buffer.
            let data = unsafe { libc::CMSG_DATA(current) };
            for index in 0..count {
                let offset = index.saturating_mul(size_of::<i32>());
                // SAFETY: the kernel wrote `count` descriptors behind the header; `index < count`.
                let slot = unsafe { data.add(offset) };
                let mut bytes = [0; size_of::<i32>()];
                // SAFETY: `slot` lies inside the control buffer with a whole descriptor behind it; bytes
                // have no alignment, and the two places do not overlap.
                unsafe { ptr::copy_nonoverlapping(slot, bytes.as_mut_ptr(), bytes.len()) };
                let raw = i32::from_ne_bytes(bytes);
                // SAFETY: the kernel just installed `raw` for us and nobody else owns it.
                fds.push(unsafe { OwnedFd::from_raw_fd(raw) });
            }
        }
        // SAFETY: `header` and `current` are as above.
        current = unsafe { libc::CMSG_NXTHDR(header, current) };
    }
    fds
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_message_with_more_descriptors_than_fit_arrives_without_them_and_says_so() {
        let (ours, theirs) = seqpacket_pair().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        for (count, lost) in [(0, false), (1, false), (8, false), (20, true)] {
            let fds = vec![null.as_fd(); count];
            if count <= MAX_CONTROL_FDS {
                send_with_fds(ours.as_fd(), b"word", &fds).unwrap();
            } else {
                let raw: Vec<i32> = fds.iter().map(AsRawFd::as_raw_fd).collect();
                nix::sys::socket::sendmsg::<()>(
                    ours.as_raw_fd(),
                    &[std::io::IoSlice::new(b"word")],
                    &[nix::sys::socket::ControlMessage::ScmRights(&raw)],
                    nix::sys::socket::MsgFlags::empty(),
                    None,
                )
                .unwrap();
            }
            let mut bytes = [0; 8];
            let received = recv_with_fds(theirs.as_fd(), &mut bytes).unwrap();
            assert_eq!((received.length, received.fds_lost), (4, lost), "{count}");
            assert_eq!(received.fds.len(), if lost { 0 } else { count });
        }
        send_with_fds(ours.as_fd(), b"too many bytes", &[]).unwrap();
        let cut = recv_with_fds(theirs.as_fd(), &mut [0; 8]);
        assert_eq!(cut.unwrap_err(), Errno::EMSGSIZE);
    }
}
